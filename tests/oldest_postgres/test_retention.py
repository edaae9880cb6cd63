from tests.ledger.test_retention import *  # noqa: F403
