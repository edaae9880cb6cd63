"""The event triggers over a real warehouse: when they fire, and when they do not fire again."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import pytest
from airflow._shared.module_loading import import_string
from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import SharedStreamManager
from freshet_airflow.assets import backlog, fact_table, facts_loaded, freshness_alert
from freshet_airflow.backlog_trigger import BacklogTrigger
from freshet_airflow.facts_loaded_trigger import FactsLoadedTrigger
from freshet_airflow.freshness_trigger import FreshnessTrigger
from freshet_airflow.new_facts_trigger import AT_MOST_EVERY, NewFactsTrigger
from freshet_airflow.stream_job_trigger import StreamJobTrigger
from freshet_airflow.warehouse_trigger import WarehouseTrigger
from freshet_airflow.warehouse_watch import WINDOW
from psycopg2 import extensions

from spark_jobs.control import driver_requests, drivers, freshness_episodes
from spark_jobs.control.migration import migrate
from spark_jobs.ledger.status.driver_states import START_TIMEOUT
from spark_jobs.settings import Home
from spark_jobs.validation.records import begin, one_at_a_time
from spark_jobs.waiting_work import WaitingWork, WaitingWorkReader
from tests.ledger.ledger_rows import MINUTE, add_batch, add_run, drive, execute, hold, register
from tests.waiting import wait_for

SECOND = timedelta(seconds=1)


@pytest.fixture
def warehouse_url(migrated_database: str) -> str:
    """The same for all tests here, emptied for each."""
    with closing(psycopg2.connect(migrated_database)) as connection:
        execute(connection, "TRUNCATE freshet.pipeline, freshet.held_tuple CASCADE")
    return migrated_database


class Looks:
    """Looks of one trigger at the pipeline orders, as many and as late as a test wants them."""

    def __init__(self, trigger: WarehouseTrigger, connection: extensions.connection) -> None:
        self._trigger = trigger
        self._connection = connection

    def waiting(self) -> WaitingWork:
        """What there is to see now; nothing remembered from earlier looks."""
        return WaitingWorkReader(WINDOW).read(self._connection)["orders"]

    def fires(self, later: timedelta = timedelta()) -> dict[str, Any] | None:
        """What the trigger tells about this waiting work, if it is seen that much later."""
        waiting = self.waiting()
        return asyncio.run(self._trigger.look(replace(waiting, read_at=waiting.read_at + later)))


@pytest.fixture
def facts(home: Home, connection: extensions.connection) -> Looks:
    register(connection)
    drive(connection)
    return Looks(FactsLoadedTrigger(pipeline="orders"), connection)


@pytest.fixture
def new_facts(home: Home, connection: extensions.connection) -> Looks:
    register(connection)
    drive(connection)
    return Looks(NewFactsTrigger(pipeline="orders"), connection)


@pytest.fixture
def tuples(home: Home, connection: extensions.connection) -> Looks:
    register(connection)
    drive(connection)
    return Looks(BacklogTrigger(pipeline="orders"), connection)


@pytest.fixture
def freshness(home: Home, connection: extensions.connection) -> Looks:
    register(connection)
    drive(connection)
    return Looks(FreshnessTrigger(pipeline="orders"), connection)


def validate(connection: extensions.connection, *, ago: timedelta, result: str = "passed") -> int:
    """A validation that began so long ago, and looked at all facts there are; its number."""
    row = execute(
        connection,
        "INSERT INTO freshet.validation (pipeline, scope, result, started_at) "
        "VALUES ('orders', 'new', %s, clock_timestamp() - %s) RETURNING validation_id",
        result, ago,
    )  # fmt: skip
    execute(connection, "UPDATE freshet.batch SET validation_id = %s", row[0])
    return int(row[0])


def test_new_facts_are_told_once_a_minute_at_most_and_all_of_them(
    new_facts: Looks, connection: extensions.connection
) -> None:
    assert new_facts.fires() is None
    add_batch(connection, unmatched=5)
    assert new_facts.fires() is None
    add_batch(connection, facts=5)
    assert new_facts.fires() == {"loaded": 5}
    assert new_facts.fires(later=60 * MINUTE) is None
    add_batch(connection, facts=2)
    assert new_facts.fires() is None
    assert new_facts.fires(later=AT_MOST_EVERY) == {"loaded": 7}


def test_facts_that_nobody_has_validated_are_told_once(facts: Looks, connection: extensions.connection) -> None:
    assert facts.fires(later=6 * MINUTE) is None
    add_batch(connection, shed=5)
    assert facts.fires(later=6 * MINUTE) is None
    add_batch(connection, facts=5)
    assert facts.fires() is None  # they may wait 5 minutes, unless the pipeline's file says otherwise
    assert facts.fires(later=6 * MINUTE) == {"last_validation": None}
    add_batch(connection, facts=5)
    assert facts.fires(later=6 * MINUTE) is None


def test_the_next_validation_is_wanted_when_new_facts_have_waited_long_enough(
    facts: Looks, connection: extensions.connection
) -> None:
    add_batch(connection, facts=5)
    last = validate(connection, ago=60 * MINUTE)
    assert facts.fires(later=6 * MINUTE) is None
    add_batch(connection, facts=5)
    assert facts.fires() is None
    assert facts.fires(later=6 * MINUTE) == {"last_validation": last}


def test_a_validation_that_runs_is_waited_for_and_one_that_was_cut_off_is_not(
    facts: Looks, connection: extensions.connection, warehouse_url: str
) -> None:
    add_batch(connection, facts=5)
    with closing(psycopg2.connect(warehouse_url)) as validator, one_at_a_time(validator, "orders"):
        cut_off = begin(validator, "orders", "new", None)
        assert facts.fires(later=2 * 60 * MINUTE) is None
    assert facts.fires(later=6 * MINUTE) == {"last_validation": cut_off}


def test_the_last_facts_are_validated_when_the_stream_has_ended(
    facts: Looks, connection: extensions.connection
) -> None:
    add_batch(connection, facts=5)
    last = validate(connection, ago=SECOND)
    add_batch(connection, facts=5)
    assert facts.fires() is None
    drivers.finish(connection, "orders", 1, "stopped")
    assert facts.fires() == {"last_validation": last}
    assert facts.fires() is None


def test_facts_of_reprocessing_are_to_be_validated_too(facts: Looks, connection: extensions.connection) -> None:
    add_run(connection, state="running", facts=3, shed=-3)
    assert facts.fires(later=6 * MINUTE) is None
    add_run(connection, facts=3, shed=-3)
    assert facts.fires(later=6 * MINUTE) is not None


def test_for_the_same_matter_it_fires_again_after_pauses_that_double(
    facts: Looks, connection: extensions.connection
) -> None:
    add_batch(connection, facts=5)
    fired = [minute for minute in range(60) if facts.fires(later=(minute + 6) * MINUTE)]
    assert fired == [0, 1, 3, 7, 15, 31]


def test_validations_that_end_in_errors_are_wanted_again_after_pauses_that_double(
    facts: Looks, connection: extensions.connection
) -> None:
    """Each has a number of its own, and leaves the facts as it found them: those of a stream that has ended, too."""
    add_batch(connection, facts=5)
    drivers.finish(connection, "orders", 1, "stopped")
    fired = []
    for minute in range(40):
        if facts.fires(later=minute * MINUTE):
            fired.append(minute)
            validate(connection, ago=SECOND, result="error")
            execute(connection, "UPDATE freshet.batch SET validation_id = NULL")
    assert fired == [0, 1, 2, 4, 8, 16, 32]


def shed(connection: extensions.connection) -> int:
    """A batch that shed a tuple half a minute ago; its number."""
    batch_no = add_batch(connection, age=MINUTE / 2, shed=1)
    hold(connection, f"[{batch_no}]", "shed", batch_no, datetime.now(UTC))
    return batch_no


def test_a_backlog_is_told_once_when_the_stream_has_time_to_spare(
    tuples: Looks, connection: extensions.connection
) -> None:
    assert tuples.fires() is None
    shed(connection)
    assert tuples.fires() == {"shed": 1, "unmatched": 0}
    shed(connection)
    assert tuples.fires() is None
    # After a run, it is a new matter; but not at once.
    run = add_run(connection, age=timedelta())
    assert tuples.fires() is None
    assert tuples.fires(later=MINUTE / 2) is not None
    execute(connection, "UPDATE freshet.reprocessing_run SET state = 'failed' WHERE batch_no = %s", run)
    assert tuples.fires(later=MINUTE / 2) is None


@pytest.mark.parametrize("state", ["failed", "abandoned"])
def test_runs_that_come_to_nothing_are_wanted_again_after_pauses_that_double(
    tuples: Looks, connection: extensions.connection, state: str
) -> None:
    shed(connection)
    fired = []
    for minute in range(20):
        if tuples.fires(later=minute * MINUTE):
            fired.append(minute)
            add_run(connection, state=state)
    assert fired == [0, 1, 2, 4, 8, 13, 18]


def test_an_overloaded_stream_is_left_alone(tuples: Looks, connection: extensions.connection) -> None:
    shed(connection)
    add_batch(connection, facts=5, shed=1)
    assert tuples.fires() is None
    execute(connection, "UPDATE freshet.batch SET closed_at = closed_at - interval '16 s'")
    assert tuples.fires() is not None


def test_two_runs_are_not_wanted_at_a_time_unless_one_has_died(
    tuples: Looks, connection: extensions.connection
) -> None:
    shed(connection)
    add_run(connection, state="running")
    assert tuples.fires() is None
    execute(connection, "UPDATE freshet.reprocessing_run SET heartbeat_at = heartbeat_at - interval '2 min'")
    # Silence counts from the start of the server, which may have been started just now.
    wait_for(lambda: tuples.fires() is not None, "the run to be taken for dead", 30)


def test_tuples_that_are_not_due_are_no_matter(tuples: Looks, connection: extensions.connection) -> None:
    batch_no = shed(connection)
    execute(connection, "UPDATE freshet.held_tuple SET retry_at = clock_timestamp() + interval '1 min'")
    assert tuples.fires() is None
    execute(connection, "UPDATE freshet.held_tuple SET retry_at = NULL")
    execute(connection, "UPDATE freshet.batch SET state = 'started' WHERE batch_no = %s", batch_no)
    assert tuples.fires() is None


def test_a_target_missed_for_longer_than_its_grace_is_told_once_and_recovery_too(
    freshness: Looks, connection: extensions.connection
) -> None:
    add_batch(connection, facts=100, latencies_ms=(9000,) * 100)
    assert freshness.fires() is None
    assert freshness.fires(later=59 * SECOND) is None
    assert freshness.waiting().episodes == ()
    assert freshness.fires(later=61 * SECOND) is None  # it is written down, and told at the next look
    (episode,) = freshness.waiting().episodes
    assert "9." in episode.reason or "8." in episode.reason
    told = {"episode": episode.episode_id, "news": "missed"}
    assert [freshness.fires(later=later * SECOND) for later in (63, 65, 67)] == [told, None, None]
    freshness_episodes.claim_news(connection, datetime.now(UTC))
    # While nothing changes, nothing is told again, not even after hours.
    assert [freshness.fires(later=later * MINUTE) for later in (2, 60, 600)] == [None] * 3
    execute(connection, "UPDATE freshet.batch SET closed_at = closed_at - interval '1 min'")
    assert [freshness.fires(later=600 * MINUTE + later * SECOND) for later in (0, 10, 16)] == [None] * 3
    told = {"episode": episode.episode_id, "news": "recovered"}
    assert [freshness.fires(later=601 * MINUTE + later * SECOND) for later in (0, 2)] == [told, None]
    freshness_episodes.claim_news(connection, datetime.now(UTC))
    assert freshness.fires(later=700 * MINUTE) is None


def test_a_hiccup_shorter_than_the_grace_is_none(freshness: Looks, connection: extensions.connection) -> None:
    add_batch(connection, facts=100, latencies_ms=(9000,) * 100)
    assert freshness.fires() is None
    execute(connection, "UPDATE freshet.batch SET closed_at = closed_at - interval '1 min'")
    assert freshness.fires(later=30 * SECOND) is None
    execute(connection, "UPDATE freshet.batch SET closed_at = clock_timestamp()")
    assert [freshness.fires(later=later * SECOND) for later in (40, 70, 95)] == [None] * 3
    assert freshness.waiting().episodes == ()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("UPDATE freshet.driver SET state = 'failed', error = 'out of luck'", "has failed: out of luck"),
        ("UPDATE freshet.driver SET heartbeat_at = heartbeat_at - interval '2 min'", "has fallen silent"),
        ("UPDATE freshet.driver SET blocked_by = 'disk full', blocked_since = now()", "is blocked: disk full"),
        ("INSERT INTO freshet.batch (pipeline, epoch, started_at) "
         "VALUES ('orders', 1, clock_timestamp() - interval '20 s')", "nothing was committed for"),
        ("UPDATE freshet.driver SET looked_at = now(), unread_files = 9, unread_bytes = 900, "
         "unread_since = now() - interval '50 s'", "unread: 9 files (900 B), the oldest for"),
        ("UPDATE freshet.driver SET state = 'failed', error = 'out of luck', looked_at = now(), unread_files = 9, "
         "unread_bytes = 900, unread_since = now() - interval '50 s'", "out of luck; unread: at least 9 files"),
    ],
)  # fmt: skip
def test_a_stream_that_does_not_load_misses_its_target(
    freshness: Looks, connection: extensions.connection, spoil: str, reason: str
) -> None:
    execute(connection, spoil)
    freshness.fires()
    freshness.fires(later=2 * MINUTE)
    (episode,) = freshness.waiting().episodes
    assert reason in episode.reason


def test_a_driver_that_gets_ready_neither_begins_nor_ends_an_episode(
    freshness: Looks, connection: extensions.connection
) -> None:
    drivers.take_over(connection, "orders", log_file=None)
    assert freshness.waiting().status.state == "starting"
    assert [freshness.fires(later=later * MINUTE) for later in range(5)] == [None] * 5
    open_episode(connection)
    assert [freshness.fires(later=later * MINUTE) for later in range(5, 10)] == [None] * 5
    assert freshness.waiting().status.episode is not None


def open_episode(connection: extensions.connection) -> None:
    """An episode of which the begin was told."""
    freshness_episodes.begin(connection, "orders", datetime.now(UTC), "late")
    freshness_episodes.claim_news(connection, datetime.now(UTC))


def test_a_stream_that_rejects_what_it_reads_is_told_however_fresh_it_is(
    freshness: Looks, connection: extensions.connection
) -> None:
    batch_no = add_batch(connection, facts=1, rejected=99, latencies_ms=(90,))
    hold(connection, "1", "rejected", batch_no, datetime.now(UTC))
    assert [freshness.fires(later=later * SECOND) for later in (0, 61)] == [None, None]
    (episode,) = freshness.waiting().episodes
    assert episode.reason.startswith("99 of the newest 100 tuples are rejected or unmatched")
    assert freshness.fires(later=63 * SECOND) == {"episode": episode.episode_id, "news": "missed"}
    freshness_episodes.claim_news(connection, datetime.now(UTC))
    add_batch(connection, facts=1000, latencies_ms=(90,) * 1000)
    assert [freshness.fires(later=later * SECOND) for later in (65, 81)] == [None, None]
    assert freshness.fires(later=83 * SECOND) == {"episode": episode.episode_id, "news": "recovered"}


def test_a_stream_that_was_stopped_misses_nothing(freshness: Looks, connection: extensions.connection) -> None:
    open_episode(connection)
    drivers.finish(connection, "orders", 1, "stopped")
    assert [freshness.fires(later=later * SECOND) for later in (0, 20)] == [None] * 2
    news = freshness.fires(later=MINUTE)
    assert news is not None
    assert news["news"] == "recovered"


def test_the_time_that_a_stream_was_stopped_is_no_time_in_which_it_kept_its_target(
    freshness: Looks, connection: extensions.connection
) -> None:
    open_episode(connection)
    driver_requests.request_state(connection, "orders", "draining")
    drivers.finish(connection, "orders", 1, "stopped")
    freshness.fires()
    driver_requests.request_state(connection, "orders", "running")
    freshness.fires(later=10 * SECOND)
    drive(connection)
    for later in (20, 34):
        freshness.fires(later=later * SECOND)
        assert freshness.waiting().status.episode is not None
    freshness.fires(later=36 * SECOND)
    assert freshness.waiting().status.episode is None


def test_a_start_that_no_driver_follows_keeps_an_episode_open_and_begins_one(
    freshness: Looks, connection: extensions.connection
) -> None:
    driver_requests.request_state(connection, "orders", "draining")
    drivers.finish(connection, "orders", 1, "stopped")
    driver_requests.request_state(connection, "orders", "running")
    open_episode(connection)
    for later in (0, 60):
        freshness.fires(later=later * SECOND)
    assert freshness.waiting().status.episode is not None
    freshness_episodes.end(connection, "orders")
    for table, moment in (("pipeline", "desired_at"), ("driver", "stopped_at")):
        execute(connection, f"UPDATE freshet.{table} SET {moment} = {moment} - interval '10 min'")
    freshness.fires()
    (episode,) = [each for each in freshness.waiting().episodes if each.recovered_at is None]
    assert "no driver has taken the stream over" in episode.reason
    assert timedelta(minutes=9) < datetime.now(UTC) - episode.began_at < timedelta(minutes=11)


def test_a_driver_may_take_as_long_to_start_as_who_launches_it_waits() -> None:
    timeout = inspect.signature(StreamJobTrigger).parameters["start_timeout_seconds"].default
    assert timedelta(seconds=timeout) == START_TIMEOUT


def deserialized(trigger: BaseEventTrigger) -> BaseEventTrigger:
    """The trigger as it comes out of Airflow's database, but quicker."""
    path, arguments = trigger.serialize()
    return import_string(path)(**arguments | {"poll_seconds": 0.02})


@asynccontextmanager
async def events_of(*streams: AsyncIterator[TriggerEvent]) -> AsyncIterator[list[dict[str, Any]]]:
    """The events that come while the block runs."""
    events: list[dict[str, Any]] = []

    async def gather(stream: AsyncIterator[TriggerEvent]) -> None:
        async for event in stream:
            events.append(event.payload)

    tasks = [asyncio.create_task(gather(stream)) for stream in streams]
    try:
        yield events
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks)


async def wait_until(look: Callable[[], Any]) -> None:
    for _ in range(3000):
        if look():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("waited in vain")


def watchers(connection: extensions.connection) -> list[int]:
    """Process ids of the sessions that watch."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'freshet watch' AND datname = current_database()"
        )
        return [pid for (pid,) in cursor.fetchall()]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), timeout=120))


@pytest.mark.parametrize("asset", [fact_table, facts_loaded, backlog, freshness_alert])
def test_an_asset_is_watched_by_a_trigger_of_its_pipeline(asset: Callable[[str], Any]) -> None:
    orders, lines = asset("orders"), asset("order_lines")
    assert orders.name != lines.name
    assert orders.uri != lines.uri
    (watcher,) = orders.watchers
    path, arguments = watcher.trigger.serialize()
    assert arguments["pipeline"] == "orders"
    assert import_string(path)(**arguments).serialize() == (path, arguments)


def test_a_trigger_waits_for_its_pipeline_and_for_a_warehouse_that_is_away(
    home: Home, connection: extensions.connection
) -> None:
    trigger = deserialized(facts_loaded("orders").watchers[0].trigger)

    async def scenario() -> None:
        async with events_of(trigger.run()) as events:
            await wait_until(lambda: watchers(connection))
            (first,) = watchers(connection)
            execute(connection, "SELECT pg_terminate_backend(%s)", first)
            await wait_until(lambda: watchers(connection) not in ([], [first]))
            register(connection)
            add_batch(connection, facts=1)
            await wait_until(lambda: events)
            assert events == [{"pipeline": "orders", "last_validation": None}]
        await wait_until(lambda: not watchers(connection))

    run(scenario)


def test_a_schema_that_is_not_there_yet_is_waited_for(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FRESHET_WAREHOUSE_URL", empty_database_url)
    trigger = deserialized(facts_loaded("orders").watchers[0].trigger)

    async def scenario() -> None:
        async with events_of(trigger.run()) as events:
            await wait_until(lambda: "waiting for it" in caplog.text)
            await asyncio.to_thread(migrate, empty_database_url)
            with closing(psycopg2.connect(empty_database_url)) as connection:
                register(connection)
                add_batch(connection, facts=1)
            await wait_until(lambda: events)
        assert caplog.text.count("waiting for it") == 1

    run(scenario)


def test_all_triggers_of_a_triggerer_share_one_connection(home: Home, connection: extensions.connection) -> None:
    """Through Airflow's own shared streams, as its triggerer uses them."""
    names = ["orders", "order_lines", "returns"]
    triggers = [
        deserialized(asset(name).watchers[0].trigger)
        for name in names
        for asset in (facts_loaded, backlog, freshness_alert)
    ]

    async def scenario() -> None:
        manager = SharedStreamManager()
        keys = {trigger.shared_stream_key() for trigger in triggers}
        assert len(keys) == 1
        (key,) = keys
        streams = [
            trigger.filter_shared_stream(manager.subscribe(trigger_id=number, trigger=trigger, key=key))
            for number, trigger in enumerate(triggers)
        ]
        async with events_of(*streams) as events:
            await wait_until(lambda: watchers(connection))
            for name in names:
                register(connection, name)
                add_batch(connection, facts=1, pipeline=name)
            await wait_until(lambda: len(events) == len(names))
            assert len(watchers(connection)) == 1
            assert {event["pipeline"] for event in events} == set(names)
        await manager.stop_all()
        await wait_until(lambda: not watchers(connection))

    run(scenario)
