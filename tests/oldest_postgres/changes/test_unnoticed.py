from tests.relation.changes.test_unnoticed import *  # noqa: F403
