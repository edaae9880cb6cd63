from tests.lookup.relation.test_live import *  # noqa: F403
