"""Owners of master data gain no rights by the triggers on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from psycopg2 import extensions

from spark_jobs.control.roles import NOTER
from spark_jobs.lookup.changes.triggers import watch_relations
from tests.lookup.changes.conftest import CustomerLookup

LOOKUP = replace(CustomerLookup(), relation="shop.member")

# PostgreSQL makes JSON of such a value by the cast, and may compare two of them by the operators.
PLANTED = """
    CREATE ROLE seller; GRANT USAGE, CREATE ON SCHEMA shop TO seller;
    SET LOCAL ROLE seller;
    CREATE TYPE shop.tag AS ENUM ('x', 'z');
    CREATE FUNCTION shop.plant() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
        CREATE TABLE shop.reached AS SELECT current_user AS by_whom;
        BEGIN
            DELETE FROM freshet.pipeline;
        EXCEPTION WHEN insufficient_privilege THEN NULL;
        END;
    EXCEPTION WHEN insufficient_privilege OR duplicate_table THEN NULL;
    END $$;
    CREATE FUNCTION shop.as_json(shop.tag) RETURNS json LANGUAGE plpgsql AS
        $$ BEGIN PERFORM shop.plant(); RETURN '{}'; END $$;
    CREATE CAST (shop.tag AS json) WITH FUNCTION shop.as_json(shop.tag);
    CREATE FUNCTION shop.as_text(shop.tag) RETURNS text LANGUAGE plpgsql AS
        $$ BEGIN PERFORM shop.plant(); RETURN ''; END $$;
    CREATE CAST (shop.tag AS text) WITH FUNCTION shop.as_text(shop.tag) AS IMPLICIT;
    CREATE FUNCTION shop.same(shop.tag, shop.tag) RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN PERFORM shop.plant(); RETURN false; END $$;
    CREATE OPERATOR shop.= (LEFTARG = shop.tag, RIGHTARG = shop.tag, FUNCTION = shop.same);
    CREATE OPERATOR shop.*= (LEFTARG = shop.tag, RIGHTARG = shop.tag, FUNCTION = shop.same);
    CREATE TABLE shop.member (id bigint PRIMARY KEY, city shop.tag, note text);
    INSERT INTO shop.member SELECT id, 'x'::shop.tag, 'y' FROM generate_series(1, 100) AS id;
    RESET ROLE;
    GRANT USAGE, CREATE ON SCHEMA shop TO PUBLIC;
    INSERT INTO freshet.pipeline (name, freshness_target, definition) VALUES ('p', '5s', '{"lookups": []}');
"""


@pytest.fixture
def planted(connection: extensions.connection) -> Iterator[extensions.connection]:
    """A table whose owner has planted what an update of it may run."""
    _run(connection, PLANTED)
    yield connection
    connection.rollback()
    _run(connection, "RESET ROLE; DROP OWNED BY seller CASCADE; DROP ROLE seller")


def _run(connection: extensions.connection, statement: str) -> None:
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)


def _rows(connection: extensions.connection, query: str) -> list[tuple[object, ...]]:
    with connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


@pytest.mark.parametrize("writer", ["seller", "postgres"])
def test_what_a_tables_owner_has_planted_is_not_run(planted: extensions.connection, writer: str) -> None:
    assert watch_relations(planted, [LOOKUP])["shop.member"].refusal is None
    for condition in ("id = 1", "id <= 50", "true"):
        _run(planted, f"SET LOCAL ROLE {writer}; UPDATE shop.member SET city = 'z', note = 'n' WHERE {condition}")
    _run(planted, f"SET LOCAL ROLE {writer}; DELETE FROM shop.member WHERE id = 1; TRUNCATE shop.member")
    assert _rows(planted, "SELECT to_regclass('shop.reached')") == [(None,)]
    assert _rows(planted, "SELECT name FROM freshet.pipeline") == [("p",)]
    noted = _rows(planted, "SELECT kind, count(*) FROM freshet.relation_change GROUP BY 1 ORDER BY 1")
    assert noted == [("delete", 1), ("truncate", 1), ("update", 151)]


def test_the_triggers_function_runs_as_a_role_that_may_note_changes_only(connection: extensions.connection) -> None:
    owner = "SELECT proowner::regrole::text FROM pg_proc WHERE oid = 'freshet.note_relation_change'::regproc"
    assert _rows(connection, owner) == [(NOTER,)]


def test_without_that_role_only_tables_of_whoever_migrates_get_triggers(planted: extensions.connection) -> None:
    _run(planted, "ALTER FUNCTION freshet.note_relation_change() OWNER TO freshet_migrator")
    refusal = str(watch_relations(planted, [LOOKUP])["shop.member"].refusal)
    assert "with the rights of freshet_migrator: have an administrator run CREATE ROLE freshet_change_noter" in refusal
    assert _rows(planted, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'shop.member'::regclass") == [(0,)]
    _run(planted, "ALTER TABLE shop.member OWNER TO freshet_migrator")
    assert watch_relations(planted, [LOOKUP])["shop.member"].refusal is None
    _run(planted, "ALTER TABLE shop.member OWNER TO seller")
    assert watch_relations(planted, [LOOKUP])["shop.member"].refusal == refusal, "it has triggers, and is not watched"
