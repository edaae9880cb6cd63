from tests.warehouse.test_roles import *  # noqa: F403
