"""Databases with the warehouse's schema: copies of one, for to migrate each would take longer than most tests."""

from __future__ import annotations

from contextlib import closing

import psycopg2

from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.warehouse.migration import migrate
from spark_jobs.warehouse.roles import MIGRATOR

_TEMPLATE = "migrated"


def make_migrated(server: EmbeddedPostgres, name: str) -> str:
    """Make a database with the schema's newest version; its URL."""
    with closing(psycopg2.connect(server.url())) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("SELECT FROM pg_database WHERE datname = %s", [_TEMPLATE])
        if not cursor.rowcount:
            cursor.execute(f"CREATE DATABASE {_TEMPLATE}")
            migrate(server.url(_TEMPLATE))
            # What somebody is connected to can't be copied, not even autovacuum.
            cursor.execute(f"ALTER DATABASE {_TEMPLATE} ALLOW_CONNECTIONS false")
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}")
        cursor.execute(f"GRANT CREATE ON DATABASE {name} TO {MIGRATOR}")  # which a copy lacks
    return server.url(name)
