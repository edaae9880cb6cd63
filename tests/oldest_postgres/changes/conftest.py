from tests.relation.changes.conftest import *  # noqa: F403
