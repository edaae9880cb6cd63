"""A driver whose pipeline does not fit its tables: it says so, and goes on when they fit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg2 import extensions

from spark_jobs.control import driver_requests, drivers
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import PipelineDefinition, load_definition
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.driver.waiting_for_schema import fitting_tables
from spark_jobs.errors import FreshetError
from spark_jobs.ledger.status.pipeline_status import PipelineStatus, read_status
from spark_jobs.settings import Home
from tests.ledger.ledger_rows import execute
from tests.spark.shop import TABLES, sales_definition, write_definition
from tests.waiting import wait_for

COLUMNS = "sale_id string, customer bigint, amount decimal(12,2), sold_at timestamp"
ROLE = "shop_driver"


def text_ids(folder: Path) -> PipelineDefinition:
    """The shop's pipeline, whose sales have texts as event ids."""
    source = sales_definition(folder)["source"] | {"schema": COLUMNS}
    return load_definition(write_definition(folder, sales_definition(folder, source=source)))


class Driver(threading.Thread):
    """A driver of the shop's pipeline, up to the point where it would start Spark."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._url = url
        self.outcome: str | None = None
        self.fails = False
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._drive()
        except BaseException as error:
            self.error = error

    def failed(self) -> bool:
        """Never: raises what it has failed with."""
        if self.error is not None:
            raise self.error
        return False

    def _drive(self) -> None:
        definition = text_ids(self._folder)
        home = Home(self._folder)
        job = StreamJob(definition, home, self._url)
        with fitting_tables(definition, home, job.pool, job.check, look_seconds=0.05) as outcome:
            self.outcome = outcome
            if self.fails:
                raise FreshetError("Spark can't be started.")


@pytest.fixture
def driver(tmp_path: Path, clean_warehouse: str, connection: extensions.connection) -> Iterator[Driver]:
    execute(connection, TABLES)
    execute(connection, f"CREATE ROLE {ROLE} LOGIN SUPERUSER")
    execute(connection, "ALTER TABLE shop.fact_sales ALTER sale_id TYPE text")
    execute(connection, "ALTER TABLE shop.fact_sales RENAME TO mislaid")
    driver = Driver(tmp_path, extensions.make_dsn(clean_warehouse, user=ROLE))
    wait_for(
        lambda: driver.failed() or [status for status in read_status(connection) if status.blocked_by],
        "the driver to be blocked",
    )
    yield driver
    execute(connection, "UPDATE freshet.pipeline SET desired_state = 'draining'")
    driver.join(20)
    execute(connection, "DROP SCHEMA shop CASCADE")
    execute(connection, f"DROP ROLE {ROLE}")


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


def test_a_table_that_is_made_with_a_uuid_as_the_event_id_fits(
    driver: Driver, connection: extensions.connection, tmp_path: Path
) -> None:
    """The event id has become another one while a driver lives, but that one has loaded nothing."""
    execute(connection, "ALTER TABLE shop.mislaid ALTER sale_id TYPE uuid USING sale_id::uuid")
    execute(connection, "ALTER TABLE shop.mislaid RENAME TO fact_sales")
    wait_for(lambda: driver.failed() or driver.outcome, "the driver to go on")
    definition = text_ids(tmp_path)
    register_pipeline(connection, "sales", definition.freshness.target, definition.model_dump_json(by_alias=True))
    assert drivers.take_over(connection, "sales", log_file=None) == 2


@contextmanager
def unknown(connection: extensions.connection) -> Iterator[None]:
    """The warehouse lets the driver in no more; its open sessions may stay."""
    execute(connection, f"ALTER ROLE {ROLE} RENAME TO stranger")
    try:
        yield
    finally:
        execute(connection, f"ALTER ROLE stranger RENAME TO {ROLE}")


def test_it_goes_on_though_it_could_not_tell_why_it_waits(
    driver: Driver, connection: extensions.connection, caplog: pytest.LogCaptureFixture
) -> None:
    with unknown(connection):
        caplog.clear()
        wait_for(lambda: driver.failed() or len(caplog.records) > 3, "the driver to look while it can't report")
    execute(connection, "ALTER TABLE shop.mislaid RENAME TO fact_sales")
    wait_for(lambda: driver.failed() or driver.outcome, "the driver to go on")


def test_why_it_ends_is_told_though_its_end_can_not_be_recorded(
    driver: Driver, connection: extensions.connection
) -> None:
    driver.fails = True
    with unknown(connection):
        execute(connection, "ALTER TABLE shop.mislaid RENAME TO fact_sales")
        driver.join(20)
    assert "Spark can't be started" in str(driver.error)


def test_it_can_be_drained(driver: Driver, connection: extensions.connection) -> None:
    driver_requests.request_state(connection, "sales", "draining")
    wait_for(lambda: driver.outcome, "the driver to end")
    assert driver.outcome == "drained"
    wait_for(lambda: status(connection).state == "stopped", "its end to be recorded")


def test_the_driver_that_it_becomes_takes_over_anew(driver: Driver, connection: extensions.connection) -> None:
    """When Spark has started, and all is warm: the pipeline was never seen without a driver."""
    execute(connection, "ALTER TABLE shop.mislaid RENAME TO fact_sales")
    wait_for(lambda: driver.outcome, "the driver to go on")
    assert drivers.take_over(connection, "sales", log_file=None) == 2
    driver.join(20)
    assert status(connection).epoch == 2
    assert status(connection).state in ("starting", "running")
