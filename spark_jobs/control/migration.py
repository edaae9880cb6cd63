"""Brings the warehouse's schema to the newest version."""

from __future__ import annotations

from typing import cast

import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg2 import extensions

from spark_jobs.control.roles import become_migrator, entrust_noting, make_roles
from spark_jobs.errors import SchemaVersionError
from spark_jobs.settings import SHIPPED

# The release whose schema is the first migration, and its commit.
_OLDEST_RELEASE, _OLDEST_COMMIT = "0.2.0", "77d00b4"


def migrate(warehouse_url: str) -> None:
    """Run the outstanding Alembic migrations; safe to call at any time, and by several at once.

    Makes the roles of `roles.py` where it may; the migrator owns what is made, but for
    the function that notes changes of master data.

    Args:
        warehouse_url: libpq URL of the warehouse.

    Raises:
        SchemaVersionError: the schema is older than the first migration, or newer than the last one; the message says
            what to do.
    """
    engine = sqlalchemy.create_engine(
        sqlalchemy.make_url(warehouse_url).set(drivername="postgresql+psycopg2"), poolclass=sqlalchemy.NullPool
    )
    with engine.begin() as connection:
        # The lock makes a second migrator wait and then find nothing to do.
        connection.execute(sqlalchemy.text("SELECT pg_advisory_xact_lock(hashtext('freshet.migrate'))"))
        cursor = cast("extensions.cursor", connection.connection.cursor())
        make_roles(cursor)
        become_migrator(cursor)
        connection.execute(sqlalchemy.text("CREATE SCHEMA IF NOT EXISTS freshet"))
        configuration = Config()
        configuration.set_main_option("script_location", str(SHIPPED / "warehouse_schema"))
        configuration.attributes["connection"] = connection
        _check_version(cursor, ScriptDirectory.from_config(configuration))
        command.upgrade(configuration, "head")
        entrust_noting(cursor)


def _check_version(cursor: extensions.cursor, scripts: ScriptDirectory) -> None:
    cursor.execute("SELECT to_regclass('freshet.schema_version')")
    if cursor.fetchone() == (None,):
        return
    cursor.execute("SELECT version_num FROM freshet.schema_version")
    oldest = scripts.get_base()
    assert oldest is not None
    for (found,) in cursor.fetchall():
        if found < oldest:
            raise SchemaVersionError(
                f"The schema freshet of this warehouse is at revision {found}. This version begins with revision "
                f"{oldest}, that of release {_OLDEST_RELEASE}, which has to migrate it first. Stop the drivers. In a "
                f"checkout of Freshet run `git checkout {_OLDEST_COMMIT}`, `uv sync` and `uv run freshet migrate`, and "
                "start each stream once, which takes its position over. Then run `freshet migrate` of this version."
            )
        if found not in {script.revision for script in scripts.walk_revisions()}:
            raise SchemaVersionError(
                f"The schema freshet of this warehouse is at revision {found}. This version knows revisions up to "
                f"{scripts.get_current_head()}: a newer one has migrated it. Run that version, or load into another "
                "warehouse."
            )
