"""A shop of its own for each fault, with drivers in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.definition import load_definition
from spark_jobs.proof.proof import Proof
from spark_jobs.proof.verification import verify
from spark_jobs.settings import Home
from spark_jobs.warehouse.drivers import request_state
from tests.faults.driver_process import DriverProcess
from tests.spark.shop import TABLES, query, sales_definition, write_definition
from tests.waiting import wait_for


class FaultyShop:
    """The shop's pipeline `sales`, run by drivers that can be killed."""

    def __init__(self, folder: Path, url: str) -> None:
        query(url, TABLES)
        self.folder = folder
        self.url = url
        definition = sales_definition(folder)
        definition["lookups"][0]["memory"] = "64KB"  # not all of R fits: back stages have work to do
        self.definition = write_definition(folder, definition)
        self._home = folder / "home"
        self._drivers: list[DriverProcess] = []

    def drive(self, *arguments: str) -> DriverProcess:
        """Start another driver."""
        driver = DriverProcess(self.definition, self._home, self.url, *arguments)
        self._drivers.append(driver)
        return driver

    def drain(self, driver: DriverProcess) -> None:
        """Let a driver load all that has landed, and end."""
        with closing(psycopg2.connect(self.url)) as connection:
            request_state(connection, "sales", "draining")
        assert driver.wait() == 0, driver.log.read_text()[-3000:]

    def await_facts(self, count: int) -> None:
        """Wait until the ledger holds this many facts in closed batches."""
        closed = "SELECT sum(facts) FROM freshet.batch WHERE state <> 'started'"
        wait_for(lambda: (query(self.url, closed)[0][0] or 0) >= count, f"{count} facts", 120)

    def facts(self) -> int:
        """Rows of the fact table."""
        return int(query(self.url, "SELECT count(*) FROM shop.fact_sales")[0][0])

    def await_open_batch(self, minimum_facts: int) -> None:
        """Wait for a batch that has loaded part of its facts and is not committed."""
        loaded = (
            "SELECT sum(p.facts) FROM freshet.batch_part p JOIN freshet.batch b USING (batch_no) WHERE b.state = %s"
        )
        wait_for(
            lambda: (query(self.url, loaded, ["started"])[0][0] or 0) >= minimum_facts, "a batch loaded in part", 120
        )

    def verify(self) -> Proof:
        """The proof of the tuple's law."""
        return verify(load_definition(self.definition), self.url, Home(self._home))

    def close(self) -> None:
        """End all drivers."""
        for driver in self._drivers:
            driver.end()


@pytest.fixture
def shop(tmp_path: Path, warehouse_url: str) -> Iterator[FaultyShop]:
    shop = FaultyShop(tmp_path, warehouse_url)
    yield shop
    shop.close()
