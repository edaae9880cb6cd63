"""Freshness over the last hour and day, and the ledger's sums by minute that it is made of."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from psycopg2 import extensions

from spark_jobs.ledger.latency import total
from spark_jobs.ledger.status.pipeline_status import StatusReader, read_status
from tests.ledger.ledger_rows import MINUTE, execute, latencies, only, register
from tests.loading.stream import Stream

HOUR = timedelta(hours=1)


def add_minute(connection: extensions.connection, age: timedelta, *milliseconds: float) -> None:
    """Sums of a minute that long ago, with facts of these latencies."""
    execute(
        connection,
        "INSERT INTO freshet.ledger_minute VALUES ('orders', date_trunc('minute', clock_timestamp()) - %s, "
        "1, %s, 0, 0, 0, 0, 0, 0, %s, %s)",
        age, len(milliseconds), latencies(*milliseconds), latencies(),
    )  # fmt: skip


def test_the_hour_and_the_day_tell_their_own_freshness(connection: extensions.connection) -> None:
    register(connection)
    for age, latency in ((30 * HOUR, 60_000), (5 * HOUR, 9000), (MINUTE * 30, 100), (MINUTE * 0, 100)):
        add_minute(connection, age, *[latency] * 10)
    status = only(read_status(connection))
    assert status.freshness_hour.p99_ms == pytest.approx(100, rel=0.11)
    assert status.freshness_day.p99_ms == pytest.approx(9000, rel=0.11)
    assert status.freshness_day.p50_ms == pytest.approx(100, rel=0.11)


def test_a_minute_that_still_grows_is_read_again(connection: extensions.connection) -> None:
    register(connection)
    reader = StatusReader()
    assert only(reader.read(connection)).freshness_hour.p99_ms is None
    add_minute(connection, 2 * MINUTE, *[100] * 5)
    for grown in (200, 300):
        execute(connection, "UPDATE freshet.ledger_minute SET event_latency = %s", latencies(*[grown] * 5))
        assert only(reader.read(connection)).freshness_hour.p99_ms == pytest.approx(grown, rel=0.11)
    # When a later one begins, it is over: what it has grown to counts.
    add_minute(connection, MINUTE, *[9000] * 100)
    assert only(reader.read(connection)).freshness_hour == only(read_status(connection)).freshness_hour


def test_a_batch_is_added_to_the_minute_of_its_end(orders: Stream) -> None:
    orders.load(orders.facts(range(10)), orders.held(range(20, 23)))
    with orders.batch() as loader:
        loader.load(orders.facts(range(30, 35)))
    rows = orders.query("SELECT batches, facts, shed, event_latency, arrival_latency FROM freshet.ledger_minute")
    assert sum(row[0] for row in rows) == 2
    assert sum(row[1] for row in rows) == 15
    assert sum(row[2] for row in rows) == 3
    (in_batches,) = orders.query(
        "SELECT array_agg(event_latency::text), array_agg(arrival_latency::text) FROM freshet.batch"
    )
    for column, texts in zip((3, 4), in_batches, strict=True):
        expected = total(np.array(text.strip("{}").split(","), np.int64) for text in texts)
        assert np.array_equal(total(row[column] for row in rows), expected)


def test_stage_seconds_and_hits_are_added_up(orders: Stream) -> None:
    for seconds in (0.5, 0.25):
        batch_no = orders.open()
        statistics = {"front_stage_probes": 10, "front_stage_hits": 4, "stage_seconds": {"commit": seconds}}
        orders.close_batch(batch_no, statistics=statistics)
    rows = orders.query("SELECT probes, hits, (stage_seconds ->> 'commit')::float8 FROM freshet.ledger_minute")
    assert [sum(column) for column in zip(*rows, strict=True)] == [20, 8, pytest.approx(0.75)]


def test_closing_a_batch_again_adds_nothing(orders: Stream) -> None:
    batch_no = orders.open()
    orders.loader(batch_no).load(orders.facts(range(10)))
    for _ in range(3):
        orders.close_batch(batch_no)
    assert orders.query("SELECT sum(batches), sum(facts) FROM freshet.ledger_minute") == [(1, 10)]


def test_a_batch_that_was_cut_off_counts_once_with_what_it_has_stored(orders: Stream) -> None:
    cut_off = orders.open()
    orders.loader(cut_off).load(orders.facts(range(10)))
    [batch] = orders.resume()
    orders.loader(batch.batch_no, careful=True).load(orders.facts(range(10)))
    orders.close_batch(batch.batch_no, arrived=10)
    sums = "SELECT sum(batches), sum(arrived), sum(facts), sum(duplicates) FROM freshet.ledger_minute"
    assert orders.query(sums) == [(1, 10, 10, 0)]
