"""Rates, freshness and hit ratio over time."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import timedelta

import pytest
from psycopg2 import extensions

from spark_jobs.ledger.status.history import HistorySpan, read_history
from tests.ledger.ledger_rows import MINUTE, add_batch, execute, latencies, register

SECOND = timedelta(seconds=1)
HITS = {"front_stage_probes": 20, "front_stage_hits": 5}


def add_minute(connection: extensions.connection, age: timedelta, facts: int, latency_ms: float) -> None:
    execute(
        connection,
        "INSERT INTO freshet.ledger_minute VALUES ('orders', date_trunc('minute', clock_timestamp()) - %s, "
        "2, %s, 60, 0, 0, 0, 20, 5, %s, '{}')",
        age, facts, latencies(*[latency_ms] * 10),
    )  # fmt: skip


@pytest.mark.parametrize(("span", "steps", "seconds"), [("15m", 180, 5), ("1h", 60, 60), ("1d", 288, 300)])
def test_all_lists_are_as_long_as_the_span_has_steps(
    connection: extensions.connection, span: HistorySpan, steps: int, seconds: int
) -> None:
    register(connection)
    history = asdict(read_history(connection, "orders", span))
    assert history.pop("step_seconds") == seconds
    assert history.pop("distribution") == dict.fromkeys(["p50_ms", "p90_ms", "p99_ms", "p999_ms"]) | {"events": 0}
    assert {name: len(values) for name, values in history.items()} == dict.fromkeys(history, steps)
    assert history["at"][1] - history["at"][0] == seconds
    assert history["at"][-1] <= time.time() < history["at"][-1] + seconds + 1
    assert set(history["arrived"]) == {0.0}
    assert set(history["p50_ms"]) == set(history["p99_ms"]) == set(history["hit_ratio"]) == {None}


def test_batches_count_in_the_step_in_which_they_were_closed(connection: extensions.connection) -> None:
    register(connection)
    register(connection, "another")
    add_batch(connection, age=30 * MINUTE, facts=1000)
    add_batch(connection, age=40 * SECOND, facts=10, latencies_ms=(100,) * 10, statistics=HITS)
    add_batch(connection, age=20 * SECOND, facts=5, shed=4, unmatched=3, rejected=2, duplicates=100)
    add_batch(connection, facts=1000, pipeline="another")
    add_batch(connection, state="started")
    history = read_history(connection, "orders", "15m")
    (first, second) = (k for k, rate in enumerate(history.arrived) if rate)
    assert (second - first) * 5 == pytest.approx(20, abs=5)
    assert (history.loaded[first], history.arrived[first]) == (2.0, 2.0)
    rates = [getattr(history, name)[second] for name in ("loaded", "shed", "unmatched", "rejected", "arrived")]
    assert rates == [1.0, 0.8, 0.6, 0.4, 2.8]
    assert history.p50_ms[first] == pytest.approx(100, rel=0.11)
    assert history.p99_ms[second] is None
    assert (history.hit_ratio[first], history.hit_ratio[second]) == (0.25, None)


@pytest.mark.parametrize(("span", "age", "seconds"), [("1h", 30 * MINUTE, 60), ("1d", 300 * MINUTE, 300)])
def test_longer_spans_are_made_of_the_sums_by_minute(
    connection: extensions.connection, span: HistorySpan, age: timedelta, seconds: int
) -> None:
    register(connection)
    add_minute(connection, timedelta(days=2), 10_000, 9000)
    add_minute(connection, age, 600, 100)
    add_batch(connection, age=age, facts=1)  # is in the sums already
    history = read_history(connection, "orders", span)
    (step,) = (k for k, rate in enumerate(history.arrived) if rate)
    assert history.loaded[step] == pytest.approx(600 / seconds)
    assert history.shed[step] == pytest.approx(60 / seconds)
    assert history.p99_ms[step] == pytest.approx(100, rel=0.11)
    assert history.hit_ratio[step] == 0.25


def test_the_step_that_is_filling_counts_for_the_time_it_has_lasted(connection: extensions.connection) -> None:
    register(connection)
    add_batch(connection, facts=120)
    # It has lasted a second at least, and five at most; or it is over by now.
    assert 24 <= max(read_history(connection, "orders", "15m").loaded[-2:]) <= 120


def test_a_pipeline_that_is_not_known_has_an_empty_history(connection: extensions.connection) -> None:
    assert set(read_history(connection, "unknown", "1d").arrived) == {0.0}
