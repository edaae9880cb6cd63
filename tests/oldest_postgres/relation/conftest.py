from tests.lookup.conftest import *  # noqa: F403
