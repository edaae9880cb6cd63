from tests.relation.test_postgres_relation import *  # noqa: F403
