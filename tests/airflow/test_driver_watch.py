"""When a watched driver counts as ended."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from freshet_airflow.driver_watch import DriverWatch, Ending, RestartPolicy, Sighting

from spark_jobs.control import host_processes
from spark_jobs.control.driver_records import DriverRecord
from spark_jobs.launch.detached_driver import DriverLaunch

NOW = datetime(2024, 5, 1, tzinfo=UTC)
SILENCE = timedelta(seconds=30)
START = timedelta(seconds=300)
LAUNCH = DriverLaunch("orders", "orders", host_processes.this_host(), os.getpid(), 0.0, after_epoch=3)


def driver(epoch: int = 4, **changes: object) -> DriverRecord:
    """A driver that lives: the process of this test."""
    started_at = host_processes.process_started_at(os.getpid())
    record = DriverRecord(
        "orders", epoch, "running", host_processes.this_host(), os.getpid(), started_at,
        None, None, None, NOW, NOW, None, None, NOW,
    )  # fmt: skip
    return replace(record, **changes)


def seen(newest: DriverRecord | None, watched_state: str | None = "running", launch_running: bool = True) -> Sighting:
    return Sighting(newest, watched_state, launch_running)


def watch(epoch: int | None = 4, launch: DriverLaunch | None = None) -> DriverWatch:
    return DriverWatch(epoch, launch, SILENCE, START)


def test_a_living_driver_is_watched_on() -> None:
    watching = watch()
    beats = [driver(heartbeat_at=NOW + timedelta(seconds=at)) for at in range(0, 100, 10)]
    assert [watching.look(seen(beat), 10.0 * at) for at, beat in enumerate(beats)] == [None] * 10


@pytest.mark.parametrize(
    ("newest", "ending"),
    [
        (driver(state="stopped"), Ending.STOPPED),
        (driver(state="failed"), Ending.FAILED),
        (driver(state="fenced"), Ending.FAILED),
        (driver(process_id=2**22 - 1), Ending.FAILED),
        (driver(process_started_at=NOW), Ending.FAILED),
        (None, Ending.FAILED),
    ],
)
def test_an_ended_driver_is_noticed_at_the_first_look(newest: DriverRecord | None, ending: Ending) -> None:
    assert watch().look(seen(newest), 0.0) is ending


def test_a_heartbeat_that_stays_the_same_for_too_long_is_silence() -> None:
    watching = watch()
    assert watching.look(seen(driver()), 100.0) is None
    assert watching.look(seen(driver()), 130.0) is None
    assert watching.look(seen(driver()), 130.1) is Ending.SILENT


def test_an_old_heartbeat_alone_is_no_silence() -> None:
    """The clocks of two hosts differ, and after an outage of the warehouse every heartbeat is old."""
    old = driver(heartbeat_at=NOW - timedelta(days=1))
    assert watch().look(seen(old), 0.0) is None


def test_an_outage_of_the_warehouse_starts_the_silence_anew() -> None:
    watching = watch()
    watching.look(seen(driver()), 0.0)
    watching.forget_silence()
    assert watching.look(seen(driver()), 1000.0) is None
    assert watching.look(seen(driver()), 1030.0) is None


def test_a_silent_driver_on_another_host_is_noticed_though_its_process_cannot_be_seen() -> None:
    watching, elsewhere = watch(), driver(host="elsewhere", process_id=1)
    assert watching.look(seen(elsewhere), 0.0) is None
    assert watching.look(seen(elsewhere), 31.0) is Ending.SILENT


def test_a_driver_that_took_over_is_watched_instead() -> None:
    watching = watch()
    assert watching.look(seen(driver(5), watched_state="fenced"), 0.0) is None
    assert watching.epoch == 5


def test_a_drained_driver_has_ended_although_another_run_has_started_the_next_one() -> None:
    watching = watch()
    assert watching.look(seen(driver(5), watched_state="stopped"), 0.0) is Ending.STOPPED
    assert watching.epoch == 4


def test_a_launched_driver_is_watched_once_it_has_taken_over() -> None:
    watching = watch(None, LAUNCH)
    assert watching.look(seen(driver(3, state="failed")), 0.0) is None
    assert watching.look(seen(driver(4)), 1.0) is None
    assert watching.epoch == 4


def test_a_launched_driver_that_ends_before_it_took_over_has_not_started() -> None:
    assert watch(None, LAUNCH).look(seen(None, None, launch_running=False), 0.0) is Ending.NOT_STARTED


def test_a_launched_driver_that_never_takes_over_has_not_started() -> None:
    watching = watch(None, LAUNCH)
    assert watching.look(seen(None, None), 0.0) is None
    assert watching.look(seen(None, None), 300.0) is None
    assert watching.look(seen(None, None), 300.1) is Ending.NOT_STARTED


def test_a_launched_driver_may_have_ended_by_the_time_it_is_seen() -> None:
    assert watch(None, LAUNCH).look(seen(driver(4, state="failed"), launch_running=False), 0.0) is Ending.FAILED


def test_the_first_restart_comes_at_once_and_each_later_one_after_twice_the_pause() -> None:
    policy = RestartPolicy(most=5, window_seconds=600.0)
    pauses = [policy.pause_seconds([1000.0] * count, 1000.0) for count in range(9)]
    assert pauses == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_restarts_count_within_the_window_only() -> None:
    policy = RestartPolicy(most=2, window_seconds=600.0)
    assert policy.allows([100.0, 1000.0], 1000.0)
    assert not policy.allows([500.0, 1000.0], 1000.0)
    assert policy.recent([100.0, 1000.0], 1000.0) == [1000.0]
