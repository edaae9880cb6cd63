from tests.lookup.relation.test_catalog import *  # noqa: F403
