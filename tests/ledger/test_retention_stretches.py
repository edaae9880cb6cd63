"""How retention goes through large tables: all that is old goes, each row is looked at once, and sums stay right."""

from __future__ import annotations

from datetime import timedelta

import pytest
from psycopg2 import extensions

from spark_jobs.ledger.retention import prune_changes, prune_held
from tests.ledger.ledger_rows import execute

MONTH = timedelta(days=30)
HOLD = """
    INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, fate, reason, payload, payload_encoding,
        arrived_at, held_at, batch_no)
    SELECT 'orders', '[' || n || ']', 0, place, place, 'r', '{}', 'json',
        now(), now() - interval '40 days', 1
    FROM generate_series(1, %s) AS n,
        LATERAL (SELECT CASE WHEN n %% 5 = 0 THEN 'shed' ELSE 'rejected' END) AS of (place)
"""
CHANGE = """
    INSERT INTO freshet.relation_change (relation, changed_at, kind, key)
    SELECT 'master.customer', now() - interval '40 days', 'insert', '{}' FROM generate_series(1, %s)
"""


@pytest.fixture
def warehouse(connection: extensions.connection) -> extensions.connection:
    """A connection to an empty warehouse, in autocommit mode."""
    connection.autocommit = True
    return connection


def pages_read(connection: extensions.connection, table: str) -> int:
    """Pages of a table and its indexes that this database's sessions have looked at so far."""
    execute(connection, "SELECT pg_stat_force_next_flush()")
    row = execute(
        connection,
        "SELECT heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit FROM pg_statio_user_tables "
        "WHERE relid = %s::regclass",
        table,
    )
    return int(row[0])


def walked(connection: extensions.connection, table: str, rows: int) -> int:
    """Pages that are looked at to delete this many old rows, a hundred at a time, from a table that was empty."""
    held = table == "freshet.held_tuple"
    execute(connection, f"TRUNCATE {table}, freshet.pruned_tuple")
    execute(connection, HOLD if held else CHANGE, rows)
    execute(connection, f"ANALYZE {table}")
    before = pages_read(connection, table)
    if held:
        assert prune_held(connection, "orders", "rejected", MONTH, most=100) == rows * 4 // 5
    else:
        assert prune_changes(connection, MONTH, most=100) == rows
    return pages_read(connection, table) - before


@pytest.mark.parametrize("table", ["freshet.held_tuple", "freshet.relation_change"])
def test_four_times_as_many_rows_take_not_much_more_than_four_times_the_work(
    warehouse: extensions.connection, table: str
) -> None:
    """Not sixteen times, as when each transaction passes by the dead rows of those before it."""
    execute(warehouse, f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    few, many = walked(warehouse, table, 4_000), walked(warehouse, table, 16_000)
    execute(warehouse, f"ALTER TABLE {table} RESET (autovacuum_enabled)")
    assert many < 8 * few


def test_of_noted_changes_only_old_ones_go(warehouse: extensions.connection) -> None:
    execute(warehouse, CHANGE, 25)
    execute(warehouse, "UPDATE freshet.relation_change SET changed_at = now() WHERE change_no > (SELECT max(change_no) "
                       "FROM freshet.relation_change) - 7")  # fmt: skip
    assert prune_changes(warehouse, MONTH, most=10) == 18
    assert prune_changes(warehouse, MONTH, most=10) == 0


def test_held_tuples_of_other_pipelines_places_and_of_late_are_passed_by(warehouse: extensions.connection) -> None:
    execute(warehouse, HOLD, 30)
    execute(warehouse, "UPDATE freshet.held_tuple SET held_at = now() WHERE event_id LIKE '[1%'")
    execute(warehouse, "UPDATE freshet.held_tuple SET pipeline = 'returns' WHERE event_id LIKE '[2%'")
    assert prune_held(warehouse, "orders", "rejected", MONTH, most=4) == 6  # 3, 4, 6, 7, 8, 9
    assert execute(warehouse, "SELECT count(*) FROM freshet.held_tuple")[0] == 24
