from tests.test_schema import *  # noqa: F403
