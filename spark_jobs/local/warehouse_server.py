"""The warehouse of an installation: the server that FRESHET_WAREHOUSE_URL names, or the embedded one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from datetime import timedelta

import psycopg2

from spark_jobs.definition import PipelineDefinition
from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.local.warehouse_users import admit_users, as_user
from spark_jobs.settings import WAREHOUSE_URL_VARIABLE, Home
from spark_jobs.warehouse.connection import connect

DATABASE = "freshet"
PATIENCE = timedelta(seconds=5)  # a user sits at the terminal and waits


@contextlib.contextmanager
def warehouse(home: Home, *, create: bool = True) -> Iterator[str]:
    """Have the warehouse at hand for the time of the block; yields its libpq URL.

    The embedded server is started where it does not run, and stopped afterwards unless others use it.

    Args:
        home: the installation.
        create: make the embedded server and its database where they do not exist yet, for the schema to be
            migrated into. Otherwise the warehouse must be there, with its schema.

    Raises:
        WarehouseUnavailableError: there is no answer at the URL, or no warehouse and none is to be made.
        PlatformError: the embedded server does not start.
    """
    configured = os.environ.get(WAREHOUSE_URL_VARIABLE)
    if configured:
        _check(configured, has_schema=not create)
        yield configured
        return
    if not create and not (home.postgres / "PG_VERSION").exists():
        raise WarehouseUnavailableError(
            f"There is no warehouse in {home.root} yet. Run `freshet up`, or point FRESHET_HOME at an installation "
            f"or {WAREHOUSE_URL_VARIABLE} at a PostgreSQL server."
        )
    with EmbeddedPostgres(home.postgres).use() as server:
        if create:
            _create_database(server.url())
        _check(server.url(DATABASE), has_schema=not create)
        yield server.url(DATABASE)


@contextlib.contextmanager
def warehouse_as(user: str, home: Home, definitions: Iterable[PipelineDefinition] = ()) -> Iterator[str]:
    """Have the warehouse, which must be there, at hand for what needs few rights; yields its libpq URL.

    Args:
        user: who comes to the embedded server, of `warehouse_users`. FRESHET_WAREHOUSE_URL names a user itself.
        home: the installation.
        definitions: pipelines whose tables the user has to read.

    Raises:
        WarehouseUnavailableError, PlatformError: see `warehouse`.
    """
    with warehouse(home, create=False) as url:
        if is_embedded():
            admit_users(url, definitions)
            yield as_user(url, user)
        else:
            yield url


def is_embedded() -> bool:
    """Whether an installation's warehouse is the embedded server: no other is named."""
    return not os.environ.get(WAREHOUSE_URL_VARIABLE)


def _check(url: str, *, has_schema: bool) -> None:
    """Refuse a warehouse that does not answer, or that lacks its schema where it must have one."""
    with contextlib.closing(connect(url, patience=PATIENCE)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('freshet.pipeline') IS NOT NULL")
        if has_schema and cursor.fetchone() != (True,):
            raise WarehouseUnavailableError("This warehouse has no tables of Freshet yet. Run `freshet migrate` first.")


def _create_database(server_url: str) -> None:
    with contextlib.closing(connect(server_url, patience=PATIENCE)) as connection:
        connection.autocommit = True  # CREATE DATABASE runs in no transaction
        with connection.cursor() as cursor:
            cursor.execute("SELECT FROM pg_database WHERE datname = %s", (DATABASE,))
            if cursor.fetchone() is None:
                # Two commands that start at once may both come here.
                with contextlib.suppress(psycopg2.errors.DuplicateDatabase, psycopg2.errors.UniqueViolation):
                    cursor.execute(f"CREATE DATABASE {DATABASE}")
