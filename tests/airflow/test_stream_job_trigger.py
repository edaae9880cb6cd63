"""The trigger against real driver tables, drivers and outages."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg2
import pytest
from airflow._shared.module_loading import import_string
from freshet_airflow.stream_job_trigger import StreamJobTrigger
from psycopg2 import extensions

from spark_jobs.control import driver_records, driver_requests, drivers, host_processes
from spark_jobs.control.migration import migrate
from spark_jobs.control.registration import register_pipeline
from spark_jobs.launch.detached_driver import DriverLaunch
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.settings import Home
from tests.airflow.conftest import STAND_IN
from tests.waiting import wait_for


@pytest.fixture
def stand_in(home: Home, connection: extensions.connection) -> Iterator[subprocess.Popen[bytes]]:
    """A living driver of the pipeline orders."""
    register_pipeline(connection, "orders", timedelta(seconds=5), "{}")
    with subprocess.Popen([sys.executable, str(STAND_IN), "orders"]) as process:
        wait_for(lambda: driver_records.newest_driver(connection, "orders"), "the driver to take over")
        yield process
        process.kill()


def trigger(**changes: Any) -> StreamJobTrigger:
    arguments = {
        "pipeline": "orders", "warehouse_conn_id": "freshet_warehouse", "epoch": 1, "launch": None, "restarts": [],
        "policy": {"most": 5, "window_seconds": 600.0}, "carried": {"launch_again": True}, "poll_seconds": 0.02,
    }  # fmt: skip
    # What goes to the triggerer is the serialized form.
    path, given = StreamJobTrigger(**arguments | changes).serialize()
    return import_string(path)(**given)


async def first_event(watching: StreamJobTrigger) -> dict[str, Any]:
    event = await asyncio.wait_for(anext(aiter(watching.run())), timeout=60)
    await watching.cleanup()
    return event.payload


async def looked(watching: StreamJobTrigger) -> None:
    """Return when the trigger has connected."""
    while watching._connection is None:
        await asyncio.sleep(0.01)


def test_a_driver_that_can_not_beat_because_the_server_takes_no_writes_is_left_alone(
    stand_in: subprocess.Popen[bytes], connection: extensions.connection, capsys: pytest.CaptureFixture[str]
) -> None:
    database = connection.info.dbname

    async def scenario() -> dict[str, Any]:
        event = asyncio.create_task(first_event(trigger(max_silence_seconds=0.0)))
        while "takes no writes" not in capsys.readouterr().out:
            assert not event.done()
            await asyncio.sleep(0.01)
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
        return await event

    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    assert "fallen silent" in asyncio.run(scenario())["error"]


def test_it_fires_when_the_driver_was_drained(
    stand_in: subprocess.Popen[bytes], connection: extensions.connection
) -> None:
    async def drain_while_watched() -> dict[str, Any]:
        watching = trigger()
        task = asyncio.create_task(first_event(watching))
        await looked(watching)
        assert not task.done()
        await asyncio.to_thread(driver_requests.request_state, connection, "orders", "draining")
        return await task

    event = asyncio.run(drain_while_watched())
    assert event == {
        "ending": "stopped", "epoch": 1, "error": None, "launch": None, "restarts": [],
        "carried": {"launch_again": True},
    }  # fmt: skip


def test_it_fires_when_the_drivers_process_is_gone_and_all_can_see_that_it_is_restarting(
    stand_in: subprocess.Popen[bytes], connection: extensions.connection
) -> None:
    async def kill_while_watched() -> dict[str, Any]:
        watching = trigger()
        task = asyncio.create_task(first_event(watching))
        await looked(watching)
        os.kill(stand_in.pid, signal.SIGKILL)
        return await task

    event = asyncio.run(kill_while_watched())
    assert (event["ending"], event["error"]) == ("failed", host_processes.GONE)
    (status,) = read_status(connection)
    assert (status.state_in_words, status.error) == ("restarting (try 1 of 5)", host_processes.GONE)


@pytest.mark.parametrize(("restarts", "state"), [(1, "restarting (try 2 of 5)"), (5, "down")])
def test_a_driver_that_does_not_come_back_is_another_try_or_the_last(
    home: Home, connection: extensions.connection, restarts: int, state: str
) -> None:
    register_pipeline(connection, "orders", timedelta(seconds=5), "{}")
    epoch = drivers.take_over(connection, "orders", log_file=None)
    drivers.finish(connection, "orders", epoch, "failed", "a disk is full")
    launch = DriverLaunch("orders", "orders", host_processes.this_host(), 2**22 - 1, 0.0, after_epoch=epoch).to_json()
    event = asyncio.run(first_event(trigger(epoch=None, launch=launch, restarts=[time.time()] * restarts)))
    assert event["ending"] == "not started"
    (status,) = read_status(connection)
    assert (status.state_in_words, status.error) == (state, "a disk is full")


def test_it_tells_the_error_that_the_driver_left(home: Home, connection: extensions.connection) -> None:
    register_pipeline(connection, "orders", timedelta(seconds=5), "{}")
    epoch = drivers.take_over(connection, "orders", log_file=None)
    drivers.finish(connection, "orders", epoch, "failed", "a disk is full")
    event = asyncio.run(first_event(trigger()))
    assert (event["ending"], event["error"]) == ("failed", "a disk is full")


def test_it_goes_on_watching_when_somebody_restarts_the_driver_during_the_pause(
    home: Home, connection: extensions.connection
) -> None:
    register_pipeline(connection, "orders", timedelta(seconds=5), "{}")
    drivers.finish(connection, "orders", drivers.take_over(connection, "orders", log_file=None), "failed")

    async def restart_during_the_pause() -> dict[str, Any]:
        task = asyncio.create_task(first_event(trigger(restarts=[time.time()] * 2)))
        epoch = await asyncio.to_thread(drivers.take_over, connection, "orders", log_file=None)
        await asyncio.to_thread(drivers.finish, connection, "orders", epoch, "stopped")
        return await task

    event = asyncio.run(restart_during_the_pause())
    assert (event["ending"], event["epoch"]) == ("stopped", 2)


def test_it_survives_an_outage_of_the_warehouse_without_blocking_the_event_loop(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedPostgres(tmp_path_factory.mktemp("outage") / "postgres").use() as server:
        migrate(server.url())
        monkeypatch.setenv("FRESHET_WAREHOUSE_URL", server.url())
        with closing(psycopg2.connect(server.url())) as connection:
            register_pipeline(connection, "orders", timedelta(seconds=5), "{}")
            epoch = drivers.take_over(connection, "orders", log_file=None)

        async def restart_the_server_while_watched() -> dict[str, Any]:
            watching = trigger()
            task = asyncio.create_task(first_event(watching))
            await looked(watching)
            before = watching._connection
            await asyncio.to_thread(server.restart)
            while watching._connection in (None, before):
                await asyncio.sleep(0.01)
            assert not task.done()
            with closing(psycopg2.connect(server.url())) as connection:
                drivers.finish(connection, "orders", epoch, "stopped")
            return await task

        assert asyncio.run(restart_the_server_while_watched())["ending"] == "stopped"


def test_ending_the_trigger_leaves_the_driver_alone(
    stand_in: subprocess.Popen[bytes], connection: extensions.connection
) -> None:
    async def cancel_while_watched() -> None:
        watching = trigger()
        task = asyncio.create_task(first_event(watching))
        await looked(watching)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await watching.on_kill()
        await watching.cleanup()

    asyncio.run(cancel_while_watched())
    assert stand_in.poll() is None
    driver = driver_records.newest_driver(connection, "orders")
    assert driver is not None
    assert driver.is_alive()
