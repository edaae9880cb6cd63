from tests.relation.test_live import *  # noqa: F403
