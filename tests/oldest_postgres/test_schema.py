from tests.warehouse_schema.test_migration import *  # noqa: F403
