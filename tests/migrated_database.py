"""Databases with the warehouse's schema: copies of one, for to migrate each would take longer than most tests."""

from __future__ import annotations

from contextlib import closing

import psycopg2

from spark_jobs.control.migration import migrate
from spark_jobs.control.roles import MIGRATOR
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres

_TEMPLATE, _UNFINISHED = "migrated", "being_migrated"


def make_migrated(server: EmbeddedPostgres, name: str) -> str:
    """Make a database with the schema's newest version; its URL."""
    with closing(psycopg2.connect(server.url())) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("SELECT FROM pg_database WHERE datname = %s", [_TEMPLATE])
        if not cursor.rowcount:
            # Under another name until it is whole: a migration that fails leaves no template behind.
            cursor.execute(f"DROP DATABASE IF EXISTS {_UNFINISHED}")
            cursor.execute(f"CREATE DATABASE {_UNFINISHED}")
            migrate(server.url(_UNFINISHED))
            # What somebody is connected to can't be copied. Autovacuum may still connect: it gives way.
            cursor.execute(f"ALTER DATABASE {_UNFINISHED} ALLOW_CONNECTIONS false")
            cursor.execute(f"ALTER DATABASE {_UNFINISHED} RENAME TO {_TEMPLATE}")
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}")
        cursor.execute(f"GRANT CREATE ON DATABASE {name} TO {MIGRATOR}")  # which a copy lacks
    return server.url(name)
