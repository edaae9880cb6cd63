"""The balance over batches, reprocessing runs and retention, and the backlogs with their ages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from psycopg2 import extensions

from spark_jobs.ledger.retention import prune
from spark_jobs.ledger.status.pipeline_status import StatusReader, read_status
from tests.ledger.ledger_rows import MINUTE, add_batch, add_run, execute, hold, only, register

DAY = timedelta(days=1)


def balance(connection: extensions.connection, reader: StatusReader | None = None) -> tuple[int, ...]:
    """Arrived, loaded, shed, unmatched, rejected and pruned; the law holds for them."""
    status = only((reader or StatusReader()).read(connection))
    assert status.arrived == status.loaded + status.shed + status.unmatched + status.rejected + status.pruned
    return status.arrived, status.loaded, status.shed, status.unmatched, status.rejected, status.pruned


def test_reprocessing_moves_events_within_the_balance(connection: extensions.connection) -> None:
    register(connection)
    reader = StatusReader()
    add_batch(connection, facts=10, shed=5, unmatched=3)
    assert balance(connection, reader) == (18, 10, 5, 3, 0, 0)
    add_run(connection, facts=4, shed=-4, age=2 * MINUTE)
    running = add_run(connection, state="running", facts=1, shed=-1)
    add_run(connection, state="yielded", unmatched=-1, rejected=1, age=2 * MINUTE)
    for who in (reader, None, reader):
        assert balance(connection, who) == (18, 15, 0, 2, 1, 0)
    execute(connection, "UPDATE freshet.reprocessing_run SET facts = 2, unmatched = -1 WHERE batch_no = %s", running)
    for who in (reader, None):
        assert balance(connection, who) == (18, 16, 0, 1, 1, 0)


def test_what_a_run_has_loaded_is_late_by_design_and_no_matter_of_freshness(connection: extensions.connection) -> None:
    register(connection)
    add_batch(connection, facts=10, shed=5, latencies_ms=(100,) * 10)
    add_run(connection, facts=5, shed=-5, event_latency=[0] * 150 + [5] + [0] * 42)
    status = only(read_status(connection))
    assert status.freshness_whole.p99_ms == pytest.approx(100, rel=0.11)
    assert status.arrival_rate == pytest.approx(status.service_rate * 1.5)


def test_retention_changes_neither_the_balance_nor_freshness(connection: extensions.connection) -> None:
    register(connection)
    reader = StatusReader()
    for number in range(4):
        add_batch(connection, age=(10 - number) * DAY, facts=10, shed=1, unmatched=1, latencies_ms=(100.0,) * 10)
    add_run(connection, facts=2, shed=-2, age=5 * DAY)
    newest = add_batch(connection, facts=1, latencies_ms=(9000.0,))
    for number in range(4):
        hold(connection, f"[{number}]", "unmatched", newest, datetime.now(UTC))
    execute(connection, "UPDATE freshet.held_tuple SET held_at = held_at - interval '9 days' WHERE event_id <> '[3]'")
    before = only(reader.read(connection))
    assert balance(connection, reader) == (49, 43, 2, 4, 0, 0)
    connection.autocommit = True
    assert prune(connection, "orders", {"ledger": "8d12h", "unmatched": "8d"})["batch"] == 2
    connection.autocommit = False
    for who in (reader, StatusReader()):
        if who is reader:  # the tuples that were pruned are counted once a minute
            assert balance(connection, reader)[:2] == (49, 43)
        else:
            assert balance(connection, who) == (49, 43, 2, 1, 0, 3)
        after = only(who.read(connection))
        assert (after.batches, after.freshness_whole) == (before.batches, before.freshness_whole)
    connection.autocommit = True
    assert prune(connection, "orders", {"ledger": "1d"})["reprocessing_run"] == 1
    connection.autocommit = False
    for who in (reader, StatusReader()):
        assert balance(connection, who)[:2] == (49, 43)
        assert only(who.read(connection)).batches == before.batches


def test_more_pruned_than_the_ledger_counts_is_a_negative_number(connection: extensions.connection) -> None:
    register(connection)
    add_batch(connection, facts=10, shed=1)
    execute(
        connection,
        "INSERT INTO freshet.pruned_tuple (pipeline, event_id, event_hash, batch_no, place) "
        "VALUES ('orders', '[1]', 1, 1, 'shed'), ('orders', '[2]', 2, 1, 'shed')",
    )
    assert balance(connection) == (11, 10, -1, 0, 0, 2), "it adds up all the same"


def test_each_place_tells_how_many_wait_and_since_when(connection: extensions.connection) -> None:
    register(connection)
    register(connection, "another")
    reader = StatusReader()
    first = add_batch(connection, shed=2, unmatched=1)
    second = add_batch(connection, shed=1, rejected=2)
    start = datetime.now(UTC) - timedelta(hours=5)
    for number, (place, batch_no) in enumerate(
        [("shed", first), ("shed", first), ("unmatched", first), ("shed", second), ("rejected", second)]
    ):
        hold(connection, f"[{number}]", place, batch_no, start + number * MINUTE)
    hold(connection, "[0]", "shed", first, start - DAY, pipeline="another")
    another, orders = reader.read(connection)
    assert (orders.backlog.shed.count, orders.backlog.shed.oldest) == (3, start)
    assert orders.backlog.unmatched.oldest == start + 2 * MINUTE
    assert (orders.backlog.rejected.count, orders.backlog.rejected.oldest) == (2, start + 4 * MINUTE)
    assert orders.backlog.shed.oldest_age_ms == pytest.approx(5 * 3_600_000, rel=0.01)
    assert (another.backlog.shed.count, another.backlog.shed.oldest) == (0, None)
    plain = orders.to_dict()["backlog"]["shed"]
    assert (plain["count"], plain["oldest"]) == (3, start.isoformat())
    # The oldest are worked off, and the next ones are the oldest.
    execute(connection, "DELETE FROM freshet.held_tuple WHERE batch_no = %s", first)
    add_run(connection, facts=3, shed=-2, unmatched=-1)
    orders = reader.read(connection)[1]
    assert (orders.backlog.shed.count, orders.backlog.shed.oldest) == (1, start + 3 * MINUTE)
    assert (orders.backlog.unmatched.count, orders.backlog.unmatched.oldest) == (0, None)


def test_a_tuple_that_reprocessing_rejects_may_be_older_than_those_rejected_before(
    connection: extensions.connection,
) -> None:
    register(connection)
    reader = StatusReader()
    first, second = add_batch(connection, unmatched=1), add_batch(connection, rejected=1)
    start = datetime.now(UTC) - timedelta(hours=5)
    hold(connection, "[1]", "unmatched", first, start)
    hold(connection, "[2]", "rejected", second, start + MINUTE)
    assert only(reader.read(connection)).backlog.rejected.oldest == start + MINUTE
    execute(connection, "UPDATE freshet.held_tuple SET place = 'rejected', fate = 'rejected' WHERE event_id = '[1]'")
    add_run(connection, unmatched=-1, rejected=1)
    assert only(reader.read(connection)).backlog.rejected.oldest == start
