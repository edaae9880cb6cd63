from tests.lookup.changes.test_triggers import *  # noqa: F403
