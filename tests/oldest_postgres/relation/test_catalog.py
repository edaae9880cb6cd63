from tests.relation.test_catalog import *  # noqa: F403
