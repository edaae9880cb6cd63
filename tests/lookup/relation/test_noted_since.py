"""Whether changes of a relation have been noted without a gap since a snapshot: only where its triggers are older."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.lookup.changes.triggers import watch_relations
from spark_jobs.lookup.changes.unnoticed import current_snapshot
from spark_jobs.lookup.changes.watched_tables import noted_since

LOOKUP = SimpleNamespace(relation="public.r", on={"k": "id"}, fetch={"part": "part"}, validity=None)


@pytest.fixture
def connection(warehouse_url: str) -> Iterator[extensions.connection]:
    with closing(psycopg2.connect(warehouse_url)) as connection:
        with connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE r (id bigint, part integer, PRIMARY KEY (id, part)) PARTITION BY LIST (part)")
            cursor.execute("CREATE TABLE r1 PARTITION OF r FOR VALUES IN (1)")
        yield connection


def snapshot(connection: extensions.connection) -> str:
    with connection:
        return current_snapshot(connection)


def run(connection: extensions.connection, statement: str) -> None:
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)


def test_noted_from_the_first_snapshot_after_the_triggers_were_made(connection: extensions.connection) -> None:
    before = snapshot(connection)
    assert not noted_since(connection, "public.r", before)
    watch_relations(connection, [LOOKUP])
    assert not noted_since(connection, "public.r", before)
    after = snapshot(connection)
    run(connection, "INSERT INTO r VALUES (1, 1)")
    assert noted_since(connection, "public.r", after)
    assert noted_since(connection, "public.r", snapshot(connection))


@pytest.mark.parametrize(
    "gap",
    [
        "ALTER TABLE r DISABLE TRIGGER USER; ALTER TABLE r ENABLE TRIGGER USER",
        "ALTER TABLE r1 DISABLE TRIGGER freshet_delete; ALTER TABLE r1 ENABLE TRIGGER freshet_delete",
        "DROP TRIGGER freshet_update ON r1",
        "ALTER TABLE r DISABLE TRIGGER freshet_insert",
        "CREATE TABLE r2 PARTITION OF r FOR VALUES IN (2)",
        "ALTER TABLE r DETACH PARTITION r1; ALTER TABLE r ATTACH PARTITION r1 FOR VALUES IN (1)",
        "ALTER TABLE r ALTER id TYPE bigint USING id + 1",
    ],
)
def test_a_gap_counts_until_the_next_snapshot(connection: extensions.connection, gap: str) -> None:
    watch_relations(connection, [LOOKUP])
    taken = snapshot(connection)
    for statement in gap.split("; "):
        run(connection, statement)
    assert not noted_since(connection, "public.r", taken)
    run(connection, "ALTER TABLE r ENABLE TRIGGER USER; ALTER TABLE r1 ENABLE TRIGGER USER")
    watch_relations(connection, [LOOKUP])
    assert not noted_since(connection, "public.r", taken)
    assert noted_since(connection, "public.r", snapshot(connection))


def test_a_relation_that_is_not_there_is_not_noted(connection: extensions.connection) -> None:
    assert not noted_since(connection, "public.none", snapshot(connection))
