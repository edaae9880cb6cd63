from tests.warehouse.test_retention import *  # noqa: F403
