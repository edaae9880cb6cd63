from tests.warehouse.test_proof import *  # noqa: F403
