"""Who drives a pipeline: epochs, heartbeats, and telling a living driver from a dead one."""

import dataclasses
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.control import driver_records, driver_requests, drivers, host_processes
from spark_jobs.control.fencing import session_name
from spark_jobs.control.registration import register_pipeline
from spark_jobs.errors import PipelineDefinitionError
from tests.loading.stream import wait_for_waiters

LOADER_LOCK = "SELECT epoch FROM freshet.pipeline WHERE name = 'orders' FOR KEY SHARE"


@pytest.fixture
def connection(clean_warehouse: str) -> Iterator[extensions.connection]:
    connection = psycopg2.connect(clean_warehouse)
    register_pipeline(connection, "orders", timedelta(seconds=5), '{"name": "orders"}')
    yield connection
    connection.close()


def open_loader(url: str) -> extensions.connection:
    """A loading transaction that has passed the epoch check and is still open."""
    loader = psycopg2.connect(url, application_name=session_name("load", "orders"))
    with loader.cursor() as cursor:
        cursor.execute(LOADER_LOCK)
    return loader


def test_registering_again_updates_the_definition_and_keeps_the_epoch(connection: extensions.connection) -> None:
    drivers.take_over(connection, "orders", log_file=None)
    register_pipeline(connection, "orders", timedelta(seconds=9), '{"name": "orders", "x": 1}')
    with connection.cursor() as cursor:
        cursor.execute("SELECT epoch, freshness_target, definition FROM freshet.pipeline")
        assert cursor.fetchall() == [(1, timedelta(seconds=9), {"name": "orders", "x": 1})]


def test_the_newest_driver_is_recorded_with_its_process(connection: extensions.connection) -> None:
    assert driver_records.newest_driver(connection, "orders") is None
    epoch = drivers.take_over(
        connection, "orders", log_file="/var/log/orders.log", spark_application_id="app-1", spark_ui_url="http://spark"
    )
    record = driver_records.newest_driver(connection, "orders")
    assert record is not None
    assert (record.epoch, record.state, record.process_id) == (epoch, "running", os.getpid())
    assert (record.log_file, record.spark_application_id) == ("/var/log/orders.log", "app-1")
    assert record.is_alive()


def test_a_later_driver_fences_the_earlier_one(connection: extensions.connection) -> None:
    first = drivers.take_over(connection, "orders", log_file=None)
    assert drivers.heartbeat(connection, "orders", first) == "running"
    second = drivers.take_over(connection, "orders", log_file=None)
    assert second > first
    assert drivers.heartbeat(connection, "orders", first) == "fenced"
    assert drivers.heartbeat(connection, "orders", second) == "running"
    drivers.finish(connection, "orders", first, "stopped")
    with connection.cursor() as cursor:
        cursor.execute("SELECT epoch, state FROM freshet.driver ORDER BY epoch")
        assert cursor.fetchall() == [(first, "fenced"), (second, "running")]


def test_a_driver_learns_that_it_is_to_drain_and_records_how_it_ended(connection: extensions.connection) -> None:
    epoch = drivers.take_over(connection, "orders", log_file=None)
    driver_requests.request_state(connection, "orders", "draining")
    assert drivers.heartbeat(connection, "orders", epoch) == "draining"
    drivers.finish(connection, "orders", epoch, "failed", "out of luck")
    record = driver_records.newest_driver(connection, "orders")
    assert record is not None
    assert (record.state, record.error) == ("failed", "out of luck")
    assert record.stopped_at is not None
    assert not record.is_alive()


def test_unregistered_pipelines_are_refused(connection: extensions.connection) -> None:
    with pytest.raises(PipelineDefinitionError, match="'lines' is not registered"):
        drivers.take_over(connection, "lines", log_file=None)
    with pytest.raises(PipelineDefinitionError, match="'lines' is not registered"):
        driver_requests.request_state(connection, "lines", "draining")


def test_a_silent_driver_is_not_alive(connection: extensions.connection) -> None:
    drivers.take_over(connection, "orders", log_file=None)
    record = driver_records.newest_driver(connection, "orders")
    assert record is not None
    assert not record.is_alive(now=record.heartbeat_at + timedelta(seconds=31))
    assert record.is_alive(timedelta(minutes=5), now=record.heartbeat_at + timedelta(seconds=31))


def test_a_driver_whose_process_is_gone_is_not_alive_on_its_own_host(connection: extensions.connection) -> None:
    drivers.take_over(connection, "orders", log_file=None)
    record = driver_records.newest_driver(connection, "orders")
    assert record is not None
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert not dataclasses.replace(record, process_id=gone.pid).is_alive()
    assert dataclasses.replace(record, process_id=gone.pid, host="elsewhere").is_alive()


def test_an_unreaped_process_does_not_count(connection: extensions.connection) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert ended.stdout is not None
    ended.stdout.read()
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert host_processes.process_started_at(ended.pid) is None
    ended.wait()


def test_another_process_with_the_same_id_does_not_count(connection: extensions.connection) -> None:
    drivers.take_over(connection, "orders", log_file=None)
    record = driver_records.newest_driver(connection, "orders")
    assert record is not None
    assert not dataclasses.replace(record, process_started_at=datetime(2020, 1, 1, tzinfo=UTC)).is_alive()


def test_take_over_waits_for_open_loading_transactions(connection: extensions.connection, clean_warehouse: str) -> None:
    loader = open_loader(clean_warehouse)
    epochs: list[int] = []
    thread = threading.Thread(target=lambda: epochs.append(drivers.take_over(connection, "orders", log_file=None)))
    thread.start()
    wait_for_waiters(clean_warehouse)
    assert epochs == []
    loader.commit()
    thread.join()
    assert epochs == [1]


def test_take_over_ends_loading_transactions_of_a_paused_process(
    connection: extensions.connection, clean_warehouse: str
) -> None:
    loader = open_loader(clean_warehouse)
    assert drivers.take_over(connection, "orders", log_file=None, patience=timedelta(milliseconds=50)) == 1
    with pytest.raises(psycopg2.OperationalError):
        loader.cursor().execute("SELECT 1")


def test_a_loader_waits_for_a_take_over_under_way_and_then_sees_its_epoch(
    connection: extensions.connection, clean_warehouse: str
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT epoch FROM freshet.pipeline WHERE name = 'orders' FOR UPDATE")
        cursor.execute("UPDATE freshet.pipeline SET epoch = epoch + 1 WHERE name = 'orders'")
    seen: list[int] = []

    def load() -> None:
        with psycopg2.connect(clean_warehouse) as loader, loader.cursor() as cursor:
            cursor.execute(LOADER_LOCK)
            seen.append(cursor.fetchone()[0])

    thread = threading.Thread(target=load)
    thread.start()
    wait_for_waiters(clean_warehouse)
    connection.commit()
    thread.join()
    assert seen == [1]


def test_asking_for_a_state_never_waits_for_loaders(connection: extensions.connection, clean_warehouse: str) -> None:
    loader = open_loader(clean_warehouse)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '10ms'")
    driver_requests.request_state(connection, "orders", "draining")
    loader.close()


def test_long_and_odd_pipeline_names_get_session_names_of_their_own() -> None:
    pipelines = ("orders", "o" * 47, "o" * 80, "o" * 81, "größe", "größen")
    names = [session_name(work, name) for work in ("load", "reprocess") for name in pipelines]
    assert names[0] == "freshet load orders"
    assert len(set(names)) == len(names)
    assert all(name.isascii() and len(name) <= 63 for name in names)
