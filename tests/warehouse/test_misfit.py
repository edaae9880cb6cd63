"""A driver whose pipeline does not fit its tables: it says so, and goes on when they fit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg2 import extensions

from spark_jobs.pipeline.misfit import fitting_tables
from spark_jobs.pipeline.stream_job import StreamJob
from spark_jobs.pipeline_definition import load_definition
from spark_jobs.settings import Home
from spark_jobs.warehouse import drivers
from spark_jobs.warehouse.status.pipeline_status import PipelineStatus, read_status
from tests.spark.shop import TABLES, sales_definition, write_definition
from tests.waiting import wait_for
from tests.warehouse.ledger_rows import execute


class Driver(threading.Thread):
    """A driver of the shop's pipeline, up to the point where it would start Spark."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._url = url
        self.outcome: str | None = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._drive()
        except BaseException as error:
            self._error = error

    def failed(self) -> bool:
        """Never: raises what it has failed with."""
        if self._error is not None:
            raise self._error
        return False

    def _drive(self) -> None:
        definition = load_definition(write_definition(self._folder, sales_definition(self._folder)))
        home = Home(self._folder)
        job = StreamJob(definition, home, self._url)
        with fitting_tables(definition, home, self._url, job.check, look_seconds=0.05) as outcome:
            self.outcome = outcome


@pytest.fixture
def driver(tmp_path: Path, clean_warehouse: str, connection: extensions.connection) -> Iterator[Driver]:
    execute(connection, TABLES)
    execute(connection, "ALTER TABLE shop.fact_sales RENAME TO mislaid")
    driver = Driver(tmp_path, clean_warehouse)
    wait_for(
        lambda: driver.failed() or [status for status in read_status(connection) if status.blocked_by],
        "the driver to be blocked",
    )
    yield driver
    execute(connection, "UPDATE freshet.pipeline SET desired_state = 'draining'")
    driver.join(20)
    execute(connection, "DROP SCHEMA shop CASCADE")


def status(connection: extensions.connection) -> PipelineStatus:
    (found,) = read_status(connection)
    return found


def test_it_is_blocked_by_name_and_goes_on_when_the_table_is_there(
    driver: Driver, connection: extensions.connection
) -> None:
    blocked = status(connection)
    assert (blocked.state, blocked.epoch) == ("blocked", 1)
    assert "Pipeline sales does not fit the warehouse" in str(blocked.blocked_by)
    assert "shop.fact_sales" in str(blocked.blocked_by)
    execute(connection, "ALTER TABLE shop.mislaid RENAME TO fact_sales")
    wait_for(lambda: driver.outcome, "the driver to go on")
    assert driver.outcome == "fitting"


def test_it_can_be_drained(driver: Driver, connection: extensions.connection) -> None:
    drivers.request_state(connection, "sales", "draining")
    wait_for(lambda: driver.outcome, "the driver to end")
    assert driver.outcome == "drained"
    wait_for(lambda: status(connection).state == "stopped", "its end to be recorded")


def test_the_driver_that_it_becomes_takes_over_anew(driver: Driver, connection: extensions.connection) -> None:
    """When Spark has started, and all is warm: nobody has seen the pipeline without a driver meanwhile."""
    execute(connection, "ALTER TABLE shop.mislaid RENAME TO fact_sales")
    wait_for(lambda: driver.outcome, "the driver to go on")
    assert drivers.take_over(connection, "sales", log_file=None) == 2
    driver.join(20)
    assert status(connection).epoch == 2
    assert status(connection).state in ("starting", "running")
