"""Brings the warehouse's schema to the newest version."""

from __future__ import annotations

from typing import cast

import sqlalchemy
from alembic import command
from alembic.config import Config
from psycopg2 import extensions

from spark_jobs.control.roles import become_migrator, entrust_noting, make_roles
from spark_jobs.settings import PROJECT_ROOT


def migrate(warehouse_url: str, revision: str = "head") -> None:
    """Run the outstanding Alembic migrations; safe to call at any time, and by several at once.

    Makes the roles of `roles.py` where it may; the migrator owns what is made, but for
    the function that notes changes of master data.

    Args:
        warehouse_url: libpq URL of the warehouse.
        revision: Alembic revision to end at.
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
        configuration.set_main_option("script_location", str(PROJECT_ROOT / "warehouse_schema"))
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)
        entrust_noting(cursor)
