from tests.proof.test_law import *  # noqa: F403
