from tests.relation.changes.test_triggers import *  # noqa: F403
