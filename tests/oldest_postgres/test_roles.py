from tests.control.test_roles import *  # noqa: F403
