from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.warehouse import drivers
from spark_jobs.warehouse.latency import histogram
from spark_jobs.warehouse.status import LookupStatus, PipelineStatus, StatusReader, read_status, to_json

MINUTE = timedelta(minutes=1)


@pytest.fixture
def connection(warehouse_url: str) -> Iterator[extensions.connection]:
    connection = psycopg2.connect(warehouse_url)
    yield connection
    connection.close()


def execute(connection: extensions.connection, statement: str, *arguments: Any) -> Any:
    with connection, connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchone() if cursor.description else None


def register(connection: extensions.connection, name: str = "orders") -> None:
    drivers.register_pipeline(connection, name, timedelta(seconds=5), "{}")


def add_batch(
    connection: extensions.connection,
    *,
    age: timedelta = timedelta(),
    pipeline: str = "orders",
    state: str = "committed",
    latencies_ms: tuple[float, ...] = (),
    statistics: dict[str, Any] | None = None,
    **counts: int,
) -> int:
    """A batch that was closed so long ago, having lasted a second."""
    latency = histogram((np.array(latencies_ms) * 1000).astype(np.int64)).tolist()
    values = {name: counts.get(name, 0) for name in ("facts", "shed", "unmatched", "rejected", "duplicates")}
    row = execute(
        connection,
        """
        INSERT INTO freshet.batch (pipeline, epoch, spark_batch_id, state, started_at, closed_at, facts, shed,
            unmatched, rejected, duplicates, event_latency, arrival_latency, statistics)
        VALUES (%s, 1, 0, %s, clock_timestamp() - %s - interval '1 s', clock_timestamp() - %s, %s, %s,
            %s, %s, %s, %s, %s, %s)
        RETURNING batch_no
        """,
        pipeline, state, age, age, *values.values(), latency, latency, json.dumps(statistics or {}),
    )  # fmt: skip
    return int(row[0])


def hold(connection: extensions.connection, event_id: str, place: str, batch_no: int, arrived_at: datetime) -> None:
    execute(
        connection,
        "INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, reason, payload, payload_encoding, "
        "arrived_at, batch_no) VALUES ('orders', %s, 0, %s, 'r', '{}', 'json', %s, %s)",
        event_id, place, arrived_at, batch_no,
    )  # fmt: skip


def only(statuses: list[PipelineStatus]) -> PipelineStatus:
    (status,) = statuses
    return status


def test_an_unknown_pipeline_is_not_there(connection: extensions.connection) -> None:
    assert read_status(connection) == []
    assert to_json([]) == "[]"


def test_a_pipeline_that_never_ran_is_stopped_and_empty(connection: extensions.connection) -> None:
    register(connection)
    status = only(read_status(connection))
    assert (status.name, status.state, status.epoch) == ("orders", "stopped", 0)
    assert (status.batches, status.arrived, status.service_rate) == (0, 0, 0.0)
    assert status.freshness_whole.p99_ms is status.last_commit is status.hit_ratio is status.heartbeat_age_ms is None
    assert status.target_ms == 5000


def test_the_state_follows_the_driver(connection: extensions.connection) -> None:
    register(connection)
    epoch = drivers.take_over(connection, "orders", log_file="/logs/driver-orders.log", spark_ui_url="http://ui")
    status = only(read_status(connection))
    assert status.state == "starting"
    assert (status.log_file, status.spark_ui_url, status.epoch) == ("/logs/driver-orders.log", "http://ui", epoch)
    execute(connection, "UPDATE freshet.driver SET started_at = started_at - interval '1 min'")
    drivers.heartbeat(connection, "orders", epoch)
    assert only(read_status(connection)).state == "running"
    drivers.request_state(connection, "orders", "draining")
    assert only(read_status(connection)).state == "draining"
    drivers.finish(connection, "orders", epoch, "stopped")
    assert only(read_status(connection)).state == "stopped"


def test_a_driver_that_failed_or_fell_silent_is_down(connection: extensions.connection) -> None:
    register(connection)
    epoch = drivers.take_over(connection, "orders", log_file=None)
    execute(connection, "UPDATE freshet.driver SET started_at = started_at - interval '10 min', "
            "heartbeat_at = heartbeat_at - interval '31 s'")  # fmt: skip
    status = only(read_status(connection))
    assert status.state == "down"
    assert status.heartbeat_age_ms is not None
    assert status.heartbeat_age_ms > 31_000
    drivers.take_over(connection, "orders", log_file=None)
    assert only(read_status(connection)).state == "starting"
    drivers.finish(connection, "orders", epoch + 1, "failed", "out of luck")
    status = only(read_status(connection))
    assert (status.state, status.error) == ("down", "out of luck")


def test_counts_are_those_of_all_batches_and_rates_those_of_the_window(connection: extensions.connection) -> None:
    register(connection)
    hits = {"front_stage_probes": 100, "front_stage_hits": 10}
    add_batch(
        connection, age=timedelta(hours=1), facts=1000, shed=5, rejected=1, statistics=hits, latencies_ms=(9000,) * 99
    )
    hits = {"front_stage_probes": 200, "front_stage_hits": 150}
    add_batch(connection, age=MINUTE / 2, facts=50, unmatched=2, duplicates=3, statistics=hits, latencies_ms=(100,))
    add_batch(connection, state="abandoned", facts=10)
    status = only(read_status(connection, MINUTE))
    assert (status.batches, status.loaded, status.shed, status.unmatched, status.rejected) == (3, 1060, 5, 2, 1)
    assert status.arrived == 1068
    assert status.duplicates == 3
    assert status.service_rate == pytest.approx(1.0)
    assert status.hit_ratio == pytest.approx(0.75)
    assert status.freshness_window.p50_ms == pytest.approx(100, rel=0.11)
    assert status.freshness_whole.p50_ms == pytest.approx(9000, rel=0.11)
    assert status.last_commit is not None
    age = datetime.now(UTC) - status.last_commit
    assert MINUTE / 2 <= age < 2 * MINUTE  # the abandoned batch was never committed


def test_the_rate_of_a_young_pipeline_counts_from_its_first_batch(connection: extensions.connection) -> None:
    register(connection)
    add_batch(connection, age=timedelta(seconds=9), facts=1000)
    assert only(read_status(connection, timedelta(hours=1))).service_rate > 10


def test_what_an_open_batch_has_stored_so_far_counts(connection: extensions.connection) -> None:
    register(connection)
    batch_no = add_batch(connection, state="started")
    execute(
        connection,
        "INSERT INTO freshet.batch_part "
        "SELECT gen_random_uuid(), %s, 7, 1, 0, 0, 0, '{}', '{}' FROM generate_series(1, 2)",
        batch_no,
    )
    status = only(read_status(connection))
    assert (status.batches, status.loaded, status.shed, status.arrived) == (0, 14, 2, 16)


def test_a_reader_adds_what_is_new_to_what_it_has_read(connection: extensions.connection) -> None:
    register(connection)
    reader = StatusReader()
    first = add_batch(connection, facts=10, latencies_ms=(100,) * 10)
    open_batch = add_batch(connection, state="started")
    assert only(reader.read(connection)).loaded == 10
    # What was read is not read again: a change of it goes unseen, a new reader sees it.
    execute(connection, "UPDATE freshet.batch SET facts = 11 WHERE batch_no = %s", first)
    execute(connection, "UPDATE freshet.batch SET state = 'committed', facts = 5 WHERE batch_no = %s", open_batch)
    add_batch(connection, facts=1, latencies_ms=(9000,) * 90)
    register(connection, "another")
    another, orders = reader.read(connection)
    assert (orders.loaded, orders.batches, another.loaded) == (16, 3, 0)
    assert orders.freshness_whole.p50_ms == pytest.approx(9000, rel=0.11)
    assert read_status(connection)[1].loaded == 17


def test_pipelines_are_told_apart(connection: extensions.connection) -> None:
    for name, facts in (("orders", 1), ("order_lines", 2)):
        register(connection, name)
        add_batch(connection, pipeline=name, facts=facts)
        add_batch(connection, pipeline=name, facts=facts, age=timedelta(seconds=1))
    assert [(status.name, status.loaded) for status in read_status(connection)] == [("order_lines", 4), ("orders", 2)]


def test_the_oldest_held_events_and_the_lookups_are_told(connection: extensions.connection) -> None:
    register(connection)
    lookups = [{"relation": "master.customer", "algorithm": "hybrid_join", "reason": "R is large"}]
    first = add_batch(connection, shed=2, unmatched=1, statistics={"lookups": []})
    second = add_batch(connection, shed=1, statistics={"lookups": lookups})
    start = datetime(2024, 5, 1, tzinfo=UTC)
    hold(connection, "[1]", "shed", first, start + MINUTE)
    hold(connection, "[2]", "shed", first, start)
    hold(connection, "[3]", "unmatched", first, start + 2 * MINUTE)
    hold(connection, "[4]", "shed", second, start + 3 * MINUTE)
    status = only(read_status(connection))
    assert status.oldest_shed == start
    assert status.oldest_unmatched == start + 2 * MINUTE
    assert status.lookups == (LookupStatus("master.customer", "hybrid_join", "R is large"),)
    plain = json.loads(to_json([status]))[0]
    assert plain["oldest_shed"] == "2024-05-01T00:00:00+00:00"
    assert plain["lookups"] == lookups
    assert plain["freshness_window"] == {"p50_ms": None, "p99_ms": None}
    # The backlog has been worked off; the ledger still knows of it.
    execute(connection, "DELETE FROM freshet.held_tuple")
    assert only(read_status(connection)).oldest_shed is None
