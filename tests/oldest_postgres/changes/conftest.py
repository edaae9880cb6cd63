from tests.lookup.changes.conftest import *  # noqa: F403
