"""Each role is given what it needs, and refused what it should not do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from psycopg2 import errors, extensions
from sqlalchemy import make_url
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.control.migration import migrate
from spark_jobs.control.roles import LOADER, MIGRATOR, NOTER, READER, VALIDATOR, NotGranted, grant_roles
from spark_jobs.definition import PipelineDefinition, load_definition
from spark_jobs.ledger.retention import prune_all
from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE


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
        "INSERT INTO freshet.batch (pipeline, epoch) SELECT name, 1 FROM freshet.pipeline",
        "CREATE TEMPORARY TABLE staging (number bigint)",
        "SELECT FROM freshet.relation_change",
        "UPDATE freshet.validation SET result = 'error', error = 'cut off', closed_at = now() WHERE result = 'running'",
    ],
    VALIDATOR: [
        _VALIDATE,
        "SELECT FROM warehouse.fact_orders",
        "SELECT FROM master.customer",
        "UPDATE freshet.batch SET validation_id = 1",
        "SELECT event_id, place, reason FROM freshet.held_tuple",
        "SELECT relation, kind FROM freshet.relation_change",
    ],
    READER: ["SELECT FROM freshet.batch", "SELECT payload FROM freshet.held_tuple", "SELECT FROM freshet.rejected"],
    NOTER: [
        "INSERT INTO freshet.relation_change (relation, kind) VALUES ('shop.customer', 'bulk')",
        "SELECT FROM master.customer",
    ],
    MIGRATOR: ["CREATE TABLE freshet.of_a_later_version (number bigint)", "CREATE SCHEMA another"],
}
_REFUSED = {
    LOADER: [
        "UPDATE warehouse.fact_orders SET clerk = ''",
        "DELETE FROM warehouse.fact_orders",
        "TRUNCATE warehouse.fact_orders",
        "UPDATE freshet.pruned_tuple SET place = 'shed'",
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
        "SELECT former FROM freshet.relation_change",
        "SELECT keys, formers FROM freshet.relation_change",
        "SELECT key FROM freshet.relation_change",
        "SELECT payload FROM freshet.held_tuple",
        "SELECT FROM freshet.rejected",
    ],
    READER: [
        "SELECT FROM warehouse.fact_orders",
        "SELECT FROM master.customer",
        "UPDATE freshet.pipeline SET desired_state = 'draining'",
        "DELETE FROM freshet.held_tuple",
        "SELECT former FROM freshet.relation_change",
        "SELECT keys, formers FROM freshet.relation_change",
        "SELECT key FROM freshet.relation_change",
        _VALIDATE,
    ],
    NOTER: [
        "DELETE FROM freshet.relation_change",
        "SELECT FROM freshet.pipeline",
        "SELECT FROM warehouse.fact_orders",
        "UPDATE master.customer SET c_name = ''",
        "CREATE TABLE freshet.mine (number bigint)",
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


# Master data of another owner, on which the migrator and the roles have no rights at all.
_HAND_OVER = """
    ALTER TABLE master.customer OWNER TO erp_owner;
    REVOKE ALL ON master.customer FROM freshet_migrator, freshet_loader, freshet_validator;
    GRANT USAGE ON SCHEMA master TO erp_owner;
"""


@pytest.fixture(scope="module")
def erp_users(postgres_database: str) -> None:
    """An owner of master data, and a user that may migrate and no more."""
    migrate(postgres_database)  # makes the roles
    _run(postgres_database, "CREATE ROLE erp_owner NOLOGIN; CREATE ROLE erp_migrate LOGIN IN ROLE freshet_migrator")


def _run(url: str, *statements: str) -> None:
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _may_read(url: str, role: str, table: str) -> bool:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET ROLE {role}")
        try:
            cursor.execute(f"SELECT FROM {table}")
        except errors.InsufficientPrivilege:
            return False
        return True


def _as_migrator(url: str) -> str:
    return make_url(url).set(username="erp_migrate").render_as_string(hide_password=False)


@pytest.mark.parametrize("right", [None, "SELECT"])
@pytest.mark.usefixtures("erp_users")
def test_migrate_grants_what_it_may_and_names_the_statement_for_each_table_of_another(
    warehouse_url: str, tmp_path: Path, right: str | None
) -> None:
    """Without any right a GRANT fails; with a right that we may not pass on it changes nothing, without an error."""
    _run(warehouse_url, _HAND_OVER, *([f"GRANT {right} ON master.customer TO freshet_migrator"] if right else []))
    environment = {WAREHOUSE_URL_VARIABLE: _as_migrator(warehouse_url), HOME_VARIABLE: str(tmp_path)}
    told = CliRunner().invoke(app, ["migrate"], env=environment)
    assert told.exit_code == 0, told.output
    lines = [line.split("; let its owner erp_owner run: ") for line in told.stdout.splitlines() if "GRANT" in line]
    assert lines == [
        [f"{role} may not read master.customer", f"GRANT SELECT ON TABLE master.customer TO {role}"]
        for role in (LOADER, VALIDATOR, NOTER)
    ]
    assert _may_read(warehouse_url, LOADER, "master.supplier"), "all else is granted"
    assert _may_read(warehouse_url, READER, "freshet.batch")
    _run(warehouse_url, "SET ROLE erp_owner", *(statement for _, statement in lines))
    assert _may_read(warehouse_url, LOADER, "master.customer")
    assert _may_read(warehouse_url, VALIDATOR, "master.customer")
    assert "GRANT" not in CliRunner().invoke(app, ["migrate"], env=environment).stdout


@pytest.mark.usefixtures("erp_users")
def test_a_schema_of_another_is_named_once(warehouse_url: str) -> None:
    """The name of a table there that is a word of SQL is quoted; a table that there is not is left out."""
    _run(
        warehouse_url,
        'CREATE SCHEMA erp AUTHORIZATION erp_owner; SET ROLE erp_owner; CREATE TABLE erp."order" (number bigint);'
        "CREATE TABLE erp.clerk (name text)",
    )
    definition = _referring("erp.order", "erp.clerk", "erp.absent")
    with closing(psycopg2.connect(_as_migrator(warehouse_url))) as connection:
        lacking = grant_roles(connection, [definition, definition])
    assert [(right.who, right.statement) for right in lacking] == [
        ("its owner erp_owner", statement)
        for statement in (
            "GRANT USAGE ON SCHEMA erp TO freshet_validator",
            'GRANT SELECT ON TABLE erp."order" TO freshet_validator',
            "GRANT SELECT ON TABLE erp.clerk TO freshet_validator",
        )
    ]
    _run(warehouse_url, *(right.statement for right in lacking))
    with closing(psycopg2.connect(_as_migrator(warehouse_url))) as connection:
        assert grant_roles(connection, [definition]) == []


@pytest.mark.usefixtures("erp_users")
def test_the_right_to_load_facts_into_a_table_of_another_is_told(warehouse_url: str) -> None:
    _run(
        warehouse_url,
        "ALTER TABLE warehouse.fact_orders OWNER TO erp_owner",
        "GRANT SELECT ON warehouse.fact_orders TO freshet_migrator WITH GRANT OPTION",
    )
    with closing(psycopg2.connect(_as_migrator(warehouse_url))) as connection:
        assert grant_roles(connection, [load_definition("orders")]) == [
            NotGranted(
                "freshet_loader may not load facts into warehouse.fact_orders",
                "its owner erp_owner",
                "GRANT INSERT ON TABLE warehouse.fact_orders TO freshet_loader",
            )
        ]
    assert _may_read(warehouse_url, VALIDATOR, "warehouse.fact_orders")


def test_the_validator_may_read_what_expectations_refer_to(warehouse_url: str) -> None:
    _run(warehouse_url, "CREATE SCHEMA shop; CREATE TABLE shop.clerk (name text)")
    with closing(psycopg2.connect(warehouse_url)) as connection:
        assert grant_roles(connection, [_referring("shop.clerk")]) == []
    assert _may_read(warehouse_url, VALIDATOR, "shop.clerk")
    assert not _may_read(warehouse_url, LOADER, "shop.clerk")


def _referring(*relations: str) -> PipelineDefinition:
    """The orders, whose clerks must be in these tables."""
    content = load_definition("orders").model_dump(mode="json", by_alias=True, exclude_defaults=True)
    content["validation"] = {
        "expectations": [
            {"references": {"column": "clerk", "relation": relation, "key": "name"}} for relation in relations
        ]
    }
    return PipelineDefinition.model_validate(content)
