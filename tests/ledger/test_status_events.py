"""What has happened to a pipeline, how often its target was kept, and how complete its facts are."""

from __future__ import annotations

from datetime import timedelta

from psycopg2 import extensions

from spark_jobs.control import drivers
from spark_jobs.ledger import retention
from spark_jobs.ledger.status.events import read_events
from spark_jobs.ledger.status.filled_facts import read_filled
from spark_jobs.ledger.status.history import read_history
from spark_jobs.ledger.status.objective import Kept, read_objective
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.ledger.unread import PartitionLag, Unread
from spark_jobs.reprocessing import run_ledger
from spark_jobs.reprocessing.request import ReprocessingRequest
from tests.ledger.ledger_rows import MINUTE, add_batch, drive, execute, latencies, only, register

DAY = timedelta(days=1)


def kinds(connection: extensions.connection) -> list[tuple[str, str | None]]:
    return [(event.kind, event.detail) for event in read_events(connection, "orders")]


def test_a_driver_after_one_that_failed_is_a_restart(connection: extensions.connection) -> None:
    register(connection)
    epoch = drive(connection)
    drivers.note_end(connection, "orders", epoch, "the disk is full", None)
    drive(connection)
    told = [(event.kind, event.result, event.error) for event in read_events(connection, "orders")]
    assert sorted(told, key=str) == [
        ("end", "failed", "the disk is full"),
        ("restart", None, None),
        ("start", None, None),
    ]


def test_a_change_of_the_definition_names_its_keys_and_an_equal_one_is_none(connection: extensions.connection) -> None:
    register(connection, definition='{"memory": "1GiB", "freshness": {"target": "5s"}}')
    register(connection, definition='{"freshness": {"target": "5s"}, "memory": "1GiB"}')
    assert kinds(connection) == []
    register(connection, definition='{"memory": "2GiB", "retention": null, "freshness": {"target": "5s"}}')
    assert kinds(connection) == [("definition", "memory, retention")]


def test_a_rebuild_is_an_event_and_a_learned_version_is_none(connection: extensions.connection) -> None:
    register(connection)
    execute(
        connection,
        "INSERT INTO freshet.cache (pipeline, lookup, relation, notice_changes) "
        "VALUES ('orders', 0, 'm.customer', '1 s')",
    )
    execute(connection, "UPDATE freshet.cache SET version = 2, hot_tuples = 5")
    assert kinds(connection) == []
    for _ in range(2):  # told again, it is the same one
        execute(connection, "UPDATE freshet.cache SET rebuilt_at = '2026-03-01', snapshot_at = snapshot_at")
    assert kinds(connection) == [("rebuild", "hot tuples of m.customer")]


def test_a_run_tells_who_asked_and_retention_forgets_old_events(connection: extensions.connection) -> None:
    register(connection)
    request = ReprocessingRequest(limit=10, airflow_run="manual__1", by="ada")
    run = run_ledger.open_run(connection, "orders", request)
    run_ledger.close_run(connection, run.batch_no, "finished", {"lookups": 1})
    [event] = read_events(connection, "orders")
    assert (event.asked_by, event.airflow_run, event.result) == ("ada", "manual__1", "finished")
    register(connection, definition='{"memory": "2GiB"}')
    execute(connection, "UPDATE freshet.pipeline_event SET happened_at = now() - interval '40 days'")
    connection.autocommit = True
    assert retention.prune(connection, "orders", {"ledger": "30d"})["pipeline_event"] == 1


def test_the_objective_counts_shed_events_as_late(connection: extensions.connection) -> None:
    register(connection)
    assert read_objective(connection, "nobody") is None
    for age, facts, shed, latency in ((MINUTE, 90, 10, 900), (2 * DAY, 100, 0, 60_000), (40 * DAY, 7, 0, 900)):
        execute(
            connection,
            "INSERT INTO freshet.ledger_minute VALUES ('orders', date_trunc('minute', clock_timestamp()) - %s, "
            "2, %s, %s, 0, 0, 0, 20, 5, %s, '{}')",
            age, facts, shed, latencies(*[latency] * facts),
        )  # fmt: skip
    told = read_objective(connection, "orders")
    assert told is not None
    assert (told.target_ms, told.day, told.month) == (5000.0, Kept(100, 90), Kept(200, 90))


def test_each_part_of_an_accumulating_fact_counts_in_the_objective_and_the_distribution(
    connection: extensions.connection,
) -> None:
    register(connection)
    add_batch(connection, facts=100, latencies_ms=(900.0,) * 240 + (60_000.0,) * 60, age=MINUTE)
    execute(
        connection,
        "INSERT INTO freshet.ledger_minute VALUES ('orders', date_trunc('minute', clock_timestamp()) - %s, "
        "1, 100, 20, 0, 0, 0, 0, 0, %s, '{}')",
        MINUTE, latencies(*[900.0] * 240, *[60_000.0] * 60),
    )  # fmt: skip
    told = read_objective(connection, "orders")
    assert told is not None
    assert told.day == Kept(320, 240)
    assert read_history(connection, "orders", "15m").distribution.events == 300


def test_the_distribution_is_that_of_the_whole_span(connection: extensions.connection) -> None:
    register(connection)
    add_batch(connection, facts=999, latencies_ms=(100.0,) * 999, age=MINUTE)
    add_batch(connection, facts=1, latencies_ms=(60_000.0,), age=5 * MINUTE)
    told = read_history(connection, "orders", "15m").distribution
    assert told.events == 1000
    assert told.p50_ms is not None and told.p999_ms is not None  # noqa: PT018
    assert 90 < told.p50_ms < 110
    add_batch(connection, facts=9, latencies_ms=(60_000.0,) * 9, age=5 * MINUTE)
    assert (read_history(connection, "orders", "15m").distribution.p999_ms or 0) > 50_000


def test_of_accumulating_facts_the_share_with_each_streams_part_is_told(connection: extensions.connection) -> None:
    register(connection)
    assert read_filled(connection, "orders") is None
    execute(connection, """UPDATE freshet.pipeline SET definition = '{"correlate": {"emit": "accumulate"}}'""")
    for joined in (30, 50):
        number = add_batch(connection, facts=100)
        execute(
            connection,
            "INSERT INTO freshet.batch_fate VALUES (%s, 'orders', 'joined', 100), (%s, 'paid', 'joined', %s)",
            number, number, joined,
        )  # fmt: skip
    assert read_filled(connection, "orders") == {"orders": 1.0, "paid": 0.4}


def test_the_lag_of_a_topics_partitions_is_that_of_the_drivers_last_look(connection: extensions.connection) -> None:
    register(connection)
    epoch = drive(connection)
    lag = PartitionLag("orders:3", 100, 130, "2026-03-01T10:00:00+00:00")
    drivers.heartbeat(connection, "orders", epoch, Unread(0, 3000, None, 0.0, 1, (lag,)))
    status = only(read_status(connection))
    assert status.lag.partitions == (lag,)
    assert status.to_dict()["lag"]["partitions"][0]["end"] == 130
