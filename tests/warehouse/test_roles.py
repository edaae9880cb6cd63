"""Each role is given what it needs, and refused what it should not do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from psycopg2 import errors, extensions
from sqlalchemy import make_url

from spark_jobs.pipeline.definition import load_definition
from spark_jobs.warehouse.migration import migrate
from spark_jobs.warehouse.retention.pruning import prune_all
from spark_jobs.warehouse.roles import LOADER, MIGRATOR, READER, VALIDATOR, grant_roles


@pytest.fixture(scope="module")
def granted_url(postgres_database: str) -> str:
    """A migrated warehouse whose roles have their rights."""
    migrate(postgres_database)
    with closing(psycopg2.connect(postgres_database)) as connection:
        assert grant_roles(connection, [load_definition("orders")]) == []
        assert grant_roles(connection, [load_definition("orders")]) == []
    return postgres_database


@pytest.fixture
def session(granted_url: str, request: pytest.FixtureRequest) -> Iterator[extensions.cursor]:
    with closing(psycopg2.connect(granted_url)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET ROLE {request.param}")
        yield cursor


_REGISTER = (
    "INSERT INTO freshet.pipeline (name, freshness_target, definition) VALUES ('p', '5s', '{}') ON CONFLICT DO NOTHING"
)
_VALIDATE = "INSERT INTO freshet.validation (pipeline, scope) SELECT name, 'all' FROM freshet.pipeline"
_ALLOWED = {
    LOADER: [
        _REGISTER,
        "INSERT INTO warehouse.fact_orders SELECT * FROM warehouse.fact_orders",
        "SELECT FROM master.customer",
        "DELETE FROM freshet.held_tuple",
        "INSERT INTO freshet.batch (pipeline, epoch, spark_batch_id) SELECT name, 1, 1 FROM freshet.pipeline",
        "CREATE TEMPORARY TABLE staging (number bigint)",
        "SELECT FROM freshet.relation_change",
        "UPDATE freshet.validation SET result = 'error', error = 'cut off', closed_at = now() WHERE result = 'running'",
    ],
    VALIDATOR: [
        _VALIDATE,
        "SELECT FROM warehouse.fact_orders",
        "SELECT FROM master.customer",
        "UPDATE freshet.batch SET validation_id = 1",
    ],
    READER: ["SELECT FROM freshet.batch", "SELECT FROM freshet.held_tuple"],
    MIGRATOR: ["CREATE TABLE freshet.of_a_later_version (number bigint)", "CREATE SCHEMA another"],
}
_REFUSED = {
    LOADER: [
        "UPDATE warehouse.fact_orders SET clerk = ''",
        "DELETE FROM warehouse.fact_orders",
        "TRUNCATE warehouse.fact_orders",
        "UPDATE master.customer SET c_name = ''",
        "DELETE FROM freshet.pipeline",
        _VALIDATE,
        "CREATE TABLE freshet.mine (number bigint)",
        "ALTER TABLE freshet.batch ADD COLUMN mine bigint",
    ],
    VALIDATOR: [
        "INSERT INTO warehouse.fact_orders SELECT * FROM warehouse.fact_orders",
        "UPDATE freshet.batch SET facts = 0",
        "DELETE FROM freshet.held_tuple",
        "UPDATE freshet.pipeline SET epoch = 0",
        "UPDATE master.customer SET c_name = ''",
    ],
    READER: [
        "SELECT FROM warehouse.fact_orders",
        "SELECT FROM master.customer",
        "UPDATE freshet.pipeline SET desired_state = 'draining'",
        "DELETE FROM freshet.held_tuple",
        _VALIDATE,
    ],
    MIGRATOR: ["CREATE ROLE somebody", "CREATE TABLE pg_catalog.mine (number bigint)"],
}


def _cases(statements: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(role, statement) for role, its in statements.items() for statement in its]


@pytest.mark.parametrize(("session", "statement"), _cases(_ALLOWED), indirect=["session"])
def test_a_role_may_do_its_work(session: extensions.cursor, statement: str) -> None:
    session.execute(statement)


@pytest.mark.parametrize(("session", "statement"), _cases(_REFUSED), indirect=["session"])
def test_a_role_is_refused_what_is_not_its_work(session: extensions.cursor, statement: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        session.execute(statement)


def test_the_loader_may_prune_every_table(granted_url: str) -> None:
    with closing(psycopg2.connect(granted_url)) as connection:
        with connection, connection.cursor() as cursor:
            cursor.execute(_REGISTER)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"SET ROLE {LOADER}")
        assert set(prune_all(connection)) == {"p", "*"}


def test_what_is_migrated_belongs_to_the_migrator(granted_url: str) -> None:
    with closing(psycopg2.connect(granted_url)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT relowner::regrole::text FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE nspname IN ('freshet', 'master', 'warehouse')"
        )
        assert cursor.fetchall() == [(MIGRATOR,)]


def test_an_ordinary_user_may_migrate_a_database_of_its_own(postgres_database: str) -> None:
    """Without the right to make roles everything belongs to that user, and works as before."""
    with closing(psycopg2.connect(postgres_database)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("DROP ROLE IF EXISTS plain_user")
            cursor.execute("CREATE ROLE plain_user LOGIN")
            cursor.execute("CREATE DATABASE plain OWNER plain_user")
    url = make_url(postgres_database).set(username="plain_user", database="plain").render_as_string(hide_password=False)
    migrate(url)
    migrate(url)
    with closing(psycopg2.connect(url)) as connection:
        assert grant_roles(connection, [load_definition("orders")]) == []
