"""What operates beside the stream, as the status tells it: reprocessing, caches, validations, episodes."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.control import freshness_episodes
from spark_jobs.ledger.status.pipeline_status import read_status, to_json
from spark_jobs.reprocessing import run_ledger
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.validation.records import begin, one_at_a_time
from tests.ledger.ledger_rows import MINUTE, add_batch, add_run, execute, only, register
from tests.waiting import wait_for


def add_cache(connection: extensions.connection, lookup: int, relation: str, watched: str, noticed: str) -> None:
    execute(
        connection,
        "INSERT INTO freshet.cache (pipeline, lookup, relation, version, origin, hot_tuples, watched, noticed, "
        "noticed_at, notice_changes) VALUES ('orders', %s, %s, 3, 'learned', 100, %s, %s, "
        "clock_timestamp() - interval '2 s', '10 s')",
        lookup, relation, watched, noticed,
    )  # fmt: skip


def snapshot(connection: extensions.connection) -> str:
    (now,) = execute(connection, "SELECT pg_current_snapshot()::text")
    return str(now)


def change(connection: extensions.connection, relation: str, age: timedelta) -> None:
    execute(
        connection,
        "INSERT INTO freshet.relation_change (relation, kind, key, changed_at) "
        "VALUES (%s, 'insert', '{}', clock_timestamp() - %s)",
        relation, age,
    )  # fmt: skip


def test_where_nothing_was_done_nothing_is_told(connection: extensions.connection) -> None:
    register(connection)
    told = only(read_status(connection)).to_dict()
    assert told["reprocessing"] is told["validation"] is told["episode"] is told["overload_reason"] is None
    assert told["caches"] == []
    assert told["stages_ms"] == dict.fromkeys(["arrival", "waiting", "front_stage", "back_stage", "commit"])
    assert told["backlog"]["rejected"] == {"count": 0, "oldest": None, "oldest_age_ms": None}


def test_the_newest_reprocessing_run_is_told(connection: extensions.connection) -> None:
    register(connection)
    add_run(connection, facts=1, age=5 * MINUTE)
    number = add_run(connection, state="running", facts=2, unmatched=-2, due=10, taken=3, airflow_run="scheduled")
    told = only(read_status(connection)).to_dict()["reprocessing"]
    assert (told["batch_no"], told["state"], told["due"], told["taken"]) == (number, "running", 10, 3)
    assert (told["facts"], told["unmatched"], told["rejected"], told["algorithm"]) == (2, -2, 0, "auto")
    assert (told["closed_at"], told["error"], told["airflow_run"]) == (None, None, "scheduled")
    assert datetime.fromisoformat(told["started_at"]) < datetime.now(UTC)


def test_a_run_whose_driver_has_died_is_told_as_abandoned_before_anybody_has_noted_it(
    clean_warehouse: str, connection: extensions.connection
) -> None:
    register(connection)
    run = run_ledger.open_run(connection, "orders", ReprocessingRequest(limit=1)).batch_no

    def state() -> str:
        told = only(read_status(connection)).reprocessing
        assert told is not None
        assert (told.error, told.closed_at is None) in [(None, True), ("its driver has died or hangs", False)]
        return told.state

    assert state() == "running"
    with closing(psycopg2.connect(clean_warehouse)) as driver:
        run_ledger.heartbeat(driver, run)
        # Late as heartbeats are on a machine with other work: the driver's session tells that it lives.
        execute(connection, "UPDATE freshet.reprocessing_run SET heartbeat_at = heartbeat_at - interval '30 s'")
        assert state() == "running"
    wait_for(lambda: state() == "abandoned", "the end of the session to be seen")
    with closing(psycopg2.connect(clean_warehouse)) as driver:
        run_ledger.heartbeat(driver, run)
        execute(connection, "UPDATE freshet.reprocessing_run SET heartbeat_at = heartbeat_at - interval '2 min'")
        wait_for(lambda: state() == "abandoned", "the driver that hangs to be taken for dead")


def test_a_run_is_not_taken_for_dead_because_the_server_was_away(connection: extensions.connection) -> None:
    """The driver's session, and its lock, are gone with the server; it comes back with the next heartbeats."""
    register(connection)
    run_ledger.open_run(connection, "orders", ReprocessingRequest(limit=1))
    execute(connection, "UPDATE freshet.reprocessing_run SET heartbeat_at = heartbeat_at - interval '5 min'")

    def state(age: timedelta) -> str:
        """The run's state if the server was started that long ago."""
        execute(
            connection,
            "CREATE OR REPLACE FUNCTION warehouse.pg_postmaster_start_time() RETURNS timestamptz LANGUAGE sql "
            f"AS $$ SELECT clock_timestamp() - interval '{age.total_seconds()} s' $$",
        )
        execute(connection, "SET search_path = warehouse, pg_catalog")
        told = only(read_status(connection)).reprocessing
        assert told is not None
        return told.state

    assert [state(timedelta(seconds=age)) for age in (5, 11)] == ["running", "abandoned"]


def test_a_cache_is_as_stale_as_the_oldest_change_that_has_not_reached_it(connection: extensions.connection) -> None:
    register(connection)
    change(connection, "master.customer", 9 * MINUTE)
    noticed = snapshot(connection)
    add_cache(connection, 0, "master.customer", "triggers", noticed)
    add_cache(connection, 1, "master.part", "rereading", noticed)
    add_cache(connection, 2, "master.supplier", "nothing", noticed)
    fresh, reread, unwatched = only(read_status(connection)).caches
    assert (fresh.staleness_ms, unwatched.staleness_ms) == (0.0, None)
    assert reread.staleness_ms is not None
    assert reread.staleness_ms >= 2000
    for age in (3 * MINUTE, MINUTE):
        change(connection, "master.customer", age)
        change(connection, "master.other", 8 * MINUTE)
        (stale, *_) = only(read_status(connection)).caches
        assert stale.staleness_ms == pytest.approx(3 * MINUTE / timedelta(milliseconds=1), rel=0.2)
    assert (stale.lookup, stale.relation, stale.version, stale.origin) == (0, "master.customer", 3, "learned")
    assert (stale.hot_tuples, stale.watched, stale.notice_changes_ms) == (100, "triggers", 10_000)
    execute(connection, "UPDATE freshet.cache SET noticed = pg_current_snapshot()")
    assert only(read_status(connection)).caches[0].staleness_ms == 0


def test_the_newest_validation_tells_which_expectations_failed(connection: extensions.connection) -> None:
    register(connection)
    add_batch(connection, facts=1)
    for result in ("passed", "failed"):
        execute(
            connection,
            "INSERT INTO freshet.validation (pipeline, scope, result, facts, expectations, failed, closed_at, page) "
            "VALUES ('orders', 'batches 1 to 2', %s, 30, 3, 2, clock_timestamp(), 'index.html')",
            result,
        )
    execute(
        connection,
        "INSERT INTO freshet.validation_result (validation_id, number, expectation, passed, message) "
        "SELECT validation_id, number, 'e' || number, number = 2, CASE WHEN number = 1 THEN '7 lack a customer' END "
        "FROM freshet.validation, generate_series(1, 3) AS number",
    )
    # Nothing was found to look at: that does not hide what the one before has found.
    execute(connection, "INSERT INTO freshet.validation (pipeline, scope, result) VALUES ('orders', 'none', 'no data')")
    told = only(read_status(connection)).to_dict()["validation"]
    assert (told["result"], told["scope"], told["facts"]) == ("failed", "batches 1 to 2", 30)
    assert (told["expectations"], told["failed"]) == (3, 2)
    assert told["failures"] == ["7 lack a customer", "e3"]
    assert told["page"] == "index.html"


def test_a_validation_that_runs_or_was_cut_off_hides_no_result(
    clean_warehouse: str, connection: extensions.connection
) -> None:
    register(connection)

    def told() -> tuple[str, bool]:
        validation = only(read_status(connection)).validation
        assert validation is not None
        return validation.result, validation.running_since is not None

    def validate() -> None:
        with closing(psycopg2.connect(clean_warehouse)) as validator, one_at_a_time(validator, "orders"):
            begin(validator, "orders", "all", None)
            assert told() == (last, True)
        wait_for(lambda: told() != (last, True), "its end to be seen")

    last = "running"
    validate()
    assert told() == ("cut off", False)
    last = "failed"
    execute(connection, "INSERT INTO freshet.validation (pipeline, scope, result) VALUES ('orders', 'all', 'failed')")
    validate()
    assert told() == ("failed", False)


def test_an_open_episode_is_told_until_it_is_over(connection: extensions.connection) -> None:
    register(connection)
    began_at = datetime.now(UTC) - MINUTE
    freshness_episodes.begin(connection, "orders", began_at, "late")
    episode = json.loads(to_json(read_status(connection)))[0]["episode"]
    assert episode == {"began_at": began_at.isoformat(), "reason": "late", "alerted_at": None}
    freshness_episodes.end(connection, "orders")
    assert only(read_status(connection)).episode is None
