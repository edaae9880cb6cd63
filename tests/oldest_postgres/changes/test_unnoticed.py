from tests.lookup.changes.test_unnoticed import *  # noqa: F403
