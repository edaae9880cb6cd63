"""The pipelines' status: state, counts, rates and freshness, read from a real ledger."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.control import driver_requests, drivers, host_processes
from spark_jobs.ledger.status.driver_states import START_TIMEOUT
from spark_jobs.ledger.status.lookup_status import LookupStatus
from spark_jobs.ledger.status.overload import stream_load
from spark_jobs.ledger.status.pipeline_status import StatusReader, read_status, to_json
from tests.ledger.ledger_rows import MINUTE, add_batch, drive, execute, hold, only, register


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
    driver_requests.request_state(connection, "orders", "draining")
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


def test_a_driver_that_was_killed_is_down_at_once_where_its_process_can_be_seen(
    connection: extensions.connection,
) -> None:
    """Seen at once: Airflow need not have noticed, nor have 30 s of silence gone by."""
    register(connection)
    drive(connection)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    execute(connection, "UPDATE freshet.driver SET process_id = %s", gone.pid)
    status = only(read_status(connection))
    assert (status.state, status.error) == ("down", host_processes.GONE)
    execute(connection, "UPDATE freshet.driver SET host = 'elsewhere'")
    status = only(read_status(connection))
    assert (status.state, status.error) == ("running", None), "nothing is known of processes elsewhere"


def test_a_driver_that_is_being_brought_back_is_restarting(connection: extensions.connection) -> None:
    register(connection)
    epoch = drive(connection)
    assert drivers.note_end(connection, "orders", epoch, host_processes.GONE, drivers.Restart(1, 5))
    status = only(read_status(connection))
    assert (status.state, status.restart, status.error) == ("restarting", drivers.Restart(1, 5), host_processes.GONE)
    assert status.state_in_words == "restarting (try 1 of 5)"
    assert status.to_dict()["restart"] == {"number": 1, "most": 5}
    drivers.note_end(connection, "orders", epoch, "the next one did not come", drivers.Restart(2, 5))
    status = only(read_status(connection))
    assert (status.state_in_words, status.error) == ("restarting (try 2 of 5)", host_processes.GONE)
    drivers.note_end(connection, "orders", epoch, "the next one did not come", None)
    status = only(read_status(connection))
    assert (status.state, status.restart) == ("down", None), "no further try is allowed"


def test_a_restart_that_does_not_come_is_down(connection: extensions.connection) -> None:
    """As when Airflow is killed between noticing the end and launching the next driver."""
    register(connection)
    epoch = drive(connection)
    drivers.note_end(connection, "orders", epoch, host_processes.GONE, drivers.Restart(1, 5))
    execute(connection, "UPDATE freshet.driver SET restart_noted_at = restart_noted_at - %s", START_TIMEOUT)
    assert only(read_status(connection)).state == "down"
    drive(connection)
    assert only(read_status(connection)).state == "running"


def test_what_a_driver_said_of_its_own_end_stands(connection: extensions.connection) -> None:
    register(connection)
    epoch = drive(connection)
    drivers.finish(connection, "orders", epoch, "failed", "out of luck")
    drivers.note_end(connection, "orders", epoch, host_processes.GONE, None)
    assert only(read_status(connection)).error == "out of luck"
    epoch = drive(connection)
    drivers.finish(connection, "orders", epoch, "stopped")
    assert not drivers.note_end(connection, "orders", epoch, host_processes.GONE, drivers.Restart(1, 5))
    assert only(read_status(connection)).state == "stopped"


def test_a_driver_that_can_not_go_on_is_blocked_with_the_reason_until_it_goes_on(
    connection: extensions.connection,
) -> None:
    register(connection)
    epoch = drive(connection)
    drivers.unblock(connection, "orders", epoch)
    assert only(read_status(connection)).state == "running"
    drivers.block(connection, "orders", epoch, "no partition for May")
    first = only(read_status(connection))
    assert (first.state, first.blocked_by) == ("blocked", "no partition for May")
    assert first.blocked_since is not None
    drivers.block(connection, "orders", epoch, "no partition for June")
    driver_requests.request_state(connection, "orders", "draining")
    again = only(read_status(connection))
    assert (again.state, again.blocked_by) == ("blocked", "no partition for June"), "it has drained nothing yet"
    assert again.blocked_since == first.blocked_since
    assert again.to_dict()["blocked_since"] == first.blocked_since.isoformat()
    drivers.unblock(connection, "orders", epoch)
    status = only(read_status(connection))
    assert (status.state, status.blocked_by, status.blocked_since) == ("draining", None, None)


def test_a_blocked_driver_that_failed_or_was_replaced_blocks_no_more(connection: extensions.connection) -> None:
    register(connection)
    former = drive(connection)
    drivers.block(connection, "orders", former, "no partition for May")
    epoch = drive(connection)
    drivers.block(connection, "orders", former, "no partition for June")
    assert only(read_status(connection)).state == "running"
    drivers.block(connection, "orders", epoch, "disk full")
    drivers.finish(connection, "orders", epoch, "failed", "out of luck")
    status = only(read_status(connection))
    assert (status.state, status.blocked_by, status.blocked_since) == ("down", None, None)


def ready(connection: extensions.connection, seconds: float) -> None:
    """A driver that has been ready for this many seconds."""
    drive(connection)
    execute(connection, "UPDATE freshet.driver SET started_at = clock_timestamp() - %s", timedelta(seconds=seconds))


def test_what_had_to_wait_until_a_driver_was_ready_is_caught_up_with_and_no_overload(
    connection: extensions.connection,
) -> None:
    register(connection)
    ready(connection, seconds=12)
    add_batch(connection, age=timedelta(seconds=4), facts=9, latencies_ms=(30_000,) * 9)
    status = only(read_status(connection))
    assert status.state == "catching up"
    assert "until a driver was ready" in str(status.overload_reason)
    assert stream_load(connection, "orders").overloaded, "it has no time to spare"
    add_batch(connection, facts=9, latencies_ms=(6_000,) * 9)
    assert only(read_status(connection)).state == "catching up", "they had to wait behind the backlog"
    add_batch(connection, facts=9, shed=1, latencies_ms=(6_000,) * 9)
    assert only(read_status(connection)).state == "overloaded"


def test_catching_up_may_take_longer_than_the_window(connection: extensions.connection) -> None:
    """Loading what had waited takes 10 minutes, and what landed meanwhile is under way for 5."""
    register(connection)
    ready(connection, seconds=910)
    looking = StatusReader()
    for age, late in ((900, 1500), (600, 1000), (310, 700), (200, 700), (0, 400)):
        add_batch(connection, age=timedelta(seconds=age), facts=9, latencies_ms=(late * 1000,) * 9)
        looking.read(connection)
    assert only(looking.read(connection)).state == only(read_status(connection)).state == "catching up"


def test_a_driver_that_gets_later_and_later_is_overloaded_though_it_began_with_a_backlog(
    connection: extensions.connection,
) -> None:
    register(connection)
    ready(connection, seconds=30)
    for age, late in ((25, 10_000), (18, 10_000), (8, 12_000)):
        add_batch(connection, age=timedelta(seconds=age), facts=9, latencies_ms=(late,) * 9)
    assert only(read_status(connection)).state == "overloaded"


def test_late_facts_of_a_driver_that_has_long_been_ready_are_overload(connection: extensions.connection) -> None:
    register(connection)
    ready(connection, seconds=300)
    add_batch(connection, facts=9, latencies_ms=(9_000,) * 9)
    assert only(read_status(connection)).state == "overloaded"


def test_a_driver_that_can_not_beat_because_the_server_takes_no_writes_is_blocked(
    connection: extensions.connection,
) -> None:
    register(connection)
    drive(connection)
    execute(connection, "UPDATE freshet.driver SET heartbeat_at = heartbeat_at - interval '31 s'")
    database = connection.info.dbname
    execute(connection, f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    try:
        with closing(psycopg2.connect(connection.dsn)) as reader:
            status = only(read_status(reader))
    finally:
        execute(connection, f"ALTER DATABASE {database} RESET default_transaction_read_only")
    assert status.state == "blocked"
    assert "takes no writes" in (status.blocked_by or "")
    assert status.blocked_since is not None
    assert only(read_status(connection)).state == "down"


def make_wish_older(connection: extensions.connection, age: timedelta) -> None:
    execute(connection, "UPDATE freshet.pipeline SET desired_at = desired_at - %s", age)
    execute(connection, "UPDATE freshet.driver SET stopped_at = stopped_at - %s", age)


def test_a_start_that_no_driver_follows_is_starting_and_then_down(connection: extensions.connection) -> None:
    register(connection)
    epoch = drive(connection)
    driver_requests.request_state(connection, "orders", "draining")
    drivers.finish(connection, "orders", epoch, "stopped")
    make_wish_older(connection, timedelta(days=1))
    status = only(read_status(connection))
    assert (status.state, status.start_wanted_at) == ("stopped", None)
    driver_requests.request_state(connection, "orders", "running")
    assert only(read_status(connection)).state == "starting", "however long it was stopped"
    make_wish_older(connection, START_TIMEOUT - MINUTE)
    assert only(read_status(connection)).state == "starting"
    make_wish_older(connection, 2 * MINUTE)
    status = only(read_status(connection))
    assert status.state == "down"
    assert status.start_wanted_at is not None
    assert timedelta() < datetime.now(UTC) - status.start_wanted_at - START_TIMEOUT < 2 * MINUTE
    driver_requests.request_state(connection, "orders", "running")
    assert only(read_status(connection)).state == "starting", "a new start has a time of its own"
    driver_requests.request_state(connection, "orders", "draining")
    assert only(read_status(connection)).state == "stopped"
    driver_requests.request_state(connection, "orders", "running")
    drive(connection)
    status = only(read_status(connection))
    assert (status.state, status.start_wanted_at) == ("running", None)


def test_a_first_start_that_no_driver_follows_is_told_too(connection: extensions.connection) -> None:
    register(connection)
    driver_requests.request_state(connection, "orders", "running")
    assert only(read_status(connection)).state == "starting"
    make_wish_older(connection, START_TIMEOUT)
    assert only(read_status(connection)).state == "down"


def test_a_driver_that_ends_by_itself_leaves_a_stopped_stream(connection: extensions.connection) -> None:
    """As after `freshet load --once`: it was not asked to drain, nor was another driver asked for."""
    register(connection)
    driver_requests.request_state(connection, "orders", "running")
    drivers.finish(connection, "orders", drive(connection), "stopped")
    make_wish_older(connection, timedelta(days=1))
    assert only(read_status(connection)).state == "stopped"


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


def test_a_stream_that_sheds_or_is_late_is_overloaded(connection: extensions.connection) -> None:
    register(connection)
    drive(connection)
    add_batch(connection, facts=10, latencies_ms=(100,) * 10)
    assert only(read_status(connection)).state == "running"
    add_batch(connection, facts=10, shed=1, latencies_ms=(100,) * 10)
    status = only(read_status(connection))
    assert status.state == "overloaded"
    assert status.overload_reason == stream_load(connection, "orders").reason


def test_auto_that_had_nothing_to_choose_says_so(connection: extensions.connection) -> None:
    register(connection)
    lookups = [
        {"relation": "master.customer", "algorithm": "auto", "reason": None, "probes": 9, "hits": 9},
        {"relation": "master.part", "algorithm": "auto", "reason": None, "probes": 0, "hits": 0},
        {"relation": "master.supplier", "algorithm": "hybrid_join", "reason": "1 s against 4 s", "asked": 3},
    ]
    add_batch(connection, facts=9, statistics={"lookups": lookups})
    assert [lookup.reason for lookup in only(read_status(connection)).lookups] == [
        "nothing to choose in the newest batch: every key was hot",
        "nothing to choose in the newest batch: no tuple asked for it",
        "1 s against 4 s",
    ]


def test_overload_ends_when_nothing_was_shed_for_a_while(connection: extensions.connection) -> None:
    register(connection)
    drive(connection)
    add_batch(connection, age=MINUTE / 2, facts=10, shed=1, latencies_ms=(9000,) * 10)
    status = only(read_status(connection))
    assert (status.state, status.overload_reason) == ("running", None)
    assert status.freshness_window.p99_ms == pytest.approx(9000, rel=0.11)


def test_a_stream_without_a_driver_is_not_overloaded(connection: extensions.connection) -> None:
    register(connection)
    add_batch(connection, facts=10, shed=1)
    assert not stream_load(connection, "orders").overloaded
    assert (only(read_status(connection)).state, only(read_status(connection)).overload_reason) == ("stopped", None)


def test_arrivals_are_all_events_that_were_stored_anywhere(connection: extensions.connection) -> None:
    register(connection)
    add_batch(connection, age=2 * MINUTE, facts=1)
    add_batch(connection, facts=60, shed=30, unmatched=20, rejected=10, duplicates=500)
    status = only(read_status(connection))
    assert status.arrival_rate == pytest.approx(2.0)
    assert status.service_rate == pytest.approx(1.0)


def test_stages_add_up_to_the_time_from_the_event_to_the_fact(connection: extensions.connection) -> None:
    register(connection)
    add_batch(connection, age=2 * MINUTE, facts=9, statistics={"stage_seconds": {"waiting": 60.0}})
    stages = {"waiting": 0.2, "front_stage": 0.1, "back_stage": 0.3, "commit": 0.4}
    add_batch(connection, facts=10, latencies_ms=(1500,) * 10, arrival_ms=(1000,) * 10,
              statistics={"stage_seconds": stages})  # fmt: skip
    means = only(read_status(connection)).stages_ms
    assert (means.waiting, means.front_stage, means.back_stage, means.commit) == (200, 100, 300, 400)
    assert means.arrival == pytest.approx(500, abs=100)


def test_a_large_batch_weighs_more_in_the_stages(connection: extensions.connection) -> None:
    register(connection)
    add_batch(connection, facts=30, statistics={"stage_seconds": {"commit": 1.0}})
    add_batch(connection, shed=10, statistics={"stage_seconds": {"commit": 0.2}})
    add_batch(connection, statistics={"stage_seconds": {"commit": 50.0}})
    means = only(read_status(connection)).stages_ms
    assert means.commit == pytest.approx(800)
    assert means.arrival is means.waiting is None


def test_a_reader_tells_the_same_as_one_that_has_just_begun(connection: extensions.connection) -> None:
    register(connection)
    drive(connection)
    reader = StatusReader()
    for number in range(6):
        state = "abandoned" if number == 4 else "committed"
        add_batch(
            connection, state=state, age=(6 - number) * MINUTE / 4, facts=number, shed=number % 2,
            latencies_ms=(100.0 * number,) * number, statistics={"front_stage_probes": 10, "front_stage_hits": number},
        )  # fmt: skip
        told, fresh = only(reader.read(connection)), only(read_status(connection))
        for name in ("batches", "arrived", "loaded", "shed", "freshness_window", "freshness_whole", "hit_ratio",
                     "last_commit", "state", "service_rate", "stages_ms"):  # fmt: skip
            assert getattr(told, name) == getattr(fresh, name)


def test_a_stream_that_makes_no_facts_of_half_of_its_tuples_is_rejecting(connection: extensions.connection) -> None:
    register(connection)
    drive(connection)
    add_batch(connection, age=2 * MINUTE, rejected=1000, arrival_ms=(100,))
    add_batch(connection, facts=11, rejected=9, latencies_ms=(100,) * 11)
    assert only(read_status(connection)).state == "running", "most became facts"
    batch = add_batch(connection, facts=0, rejected=1, unmatched=1, arrival_ms=(100, 100))
    now = datetime.now(UTC)
    hold(connection, "1", "rejected", batch, now)
    for number in ("2", "3"):
        hold(connection, number, "rejected", batch, now)
        execute(connection, "UPDATE freshet.held_tuple SET reason = %s WHERE event_id = %s", f"a: {number}", number)
    status = only(read_status(connection))
    assert status.state == "rejecting"
    assert status.overload_reason is not None
    assert status.overload_reason.startswith("11 of the newest 22 tuples are")
    assert status.overload_reason.endswith("are rejected or unmatched; most often: a: 2"), (
        "reasons that differ by number"
    )


def reject(connection: extensions.connection, number: int, age: timedelta = timedelta()) -> None:
    """A batch that rejects so many, of which one is held here."""
    batch_no = add_batch(connection, age=age, rejected=number, arrival_ms=(100,))
    hold(connection, str(batch_no), "rejected", batch_no, datetime.now(UTC))


def test_few_tuples_tell_nothing_and_a_rejecting_stream_recovers(connection: extensions.connection) -> None:
    register(connection)
    drive(connection)
    add_batch(connection, facts=1, latencies_ms=(100,))
    reject(connection, 18)
    assert only(read_status(connection)).state == "running"
    reject(connection, 1)
    assert only(read_status(connection)).state == "rejecting"
    add_batch(connection, facts=18, latencies_ms=(100,) * 18)
    assert only(read_status(connection)).state == "rejecting"
    add_batch(connection, facts=2, latencies_ms=(100,) * 2)
    assert only(read_status(connection)).state == "running"


def test_where_all_are_rejected_few_tell(connection: extensions.connection) -> None:
    register(connection)
    drive(connection)
    reject(connection, 4)
    assert only(read_status(connection)).state == "running"
    reject(connection, 1)
    assert only(read_status(connection)).state == "rejecting"


def test_a_slow_stream_is_judged_by_its_newest_tuples_of_a_day(connection: extensions.connection) -> None:
    register(connection)
    drive(connection)
    add_batch(connection, age=1500 * MINUTE, facts=1000, latencies_ms=(100,) * 1000)
    for number in range(5):
        reject(connection, 1, age=(50 - 10 * number) * MINUTE)
    assert only(read_status(connection)).state == "rejecting"
    add_batch(connection, facts=6, latencies_ms=(100,) * 6)
    assert only(read_status(connection)).state == "running"


@pytest.mark.parametrize("done", ["DELETE FROM freshet.held_tuple", "UPDATE freshet.held_tuple SET place = 'shed'"])
def test_a_stream_that_falls_silent_after_it_rejected_all_is_not_well_until_that_is_settled(
    connection: extensions.connection, done: str
) -> None:
    register(connection)
    drive(connection)
    reject(connection, 1000, age=10 * MINUTE)
    for _ in range(3):  # events that come again are no news
        add_batch(connection, duplicates=100, arrival_ms=(100,))
    assert only(read_status(connection)).state == "rejecting"
    execute(connection, done)
    assert only(read_status(connection)).state != "rejecting"
