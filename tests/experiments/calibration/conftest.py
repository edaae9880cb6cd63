from tests.relation.conftest import *  # noqa: F403
