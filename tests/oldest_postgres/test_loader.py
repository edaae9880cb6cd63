from tests.loading.test_loader import *  # noqa: F403
