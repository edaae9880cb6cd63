from tests.warehouse.test_loader import *  # noqa: F403
