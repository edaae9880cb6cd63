"""A shop of its own for each fault, with drivers in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from spark_jobs.control.driver_requests import request_state
from spark_jobs.control.migration import migrate
from spark_jobs.definition import load_definition
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.proof.proof import Proof
from spark_jobs.proof.verification import verify
from spark_jobs.settings import Home
from tests.faults.driver_process import DriverProcess
from tests.kafka_broker import Topic
from tests.spark.shop import TABLES, from_topic, land, query, sales_definition, write_definition
from tests.waiting import wait_for


class FaultyShop:
    """The shop's pipeline `sales`, run by drivers that can be killed.

    Args:
        folder: for its files.
        url: of the warehouse.
        topic: where the sales come from; None: a landing folder.
    """

    def __init__(self, folder: Path, url: str, topic: Topic | None = None) -> None:
        query(url, TABLES)
        self.folder = folder
        self.url = url
        definition = sales_definition(folder)
        definition["lookups"][0]["memory"] = "64KB"  # not all of R fits: back stages have work to do
        self._topic = topic
        self.definition = write_definition(folder, from_topic(definition, topic) if topic else definition)
        self._home = folder / "home"
        self._drivers: list[DriverProcess] = []

    def land(self, name: str, records: Iterable[dict[str, Any]]) -> None:
        """Let sales arrive all at once: as a file, or as a transaction in the topic."""
        if self._topic is None:
            land(self.folder, name, records)
            return
        with self._topic.transaction(json.dumps(record).encode() for record in records):
            pass

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


@contextmanager
def shop_with_a_server(folder: Path) -> Iterator[tuple[FaultyShop, EmbeddedPostgres]]:
    """A shop whose warehouse is a server of its own, which may be ended."""
    with EmbeddedPostgres(folder / "postgres").use() as server:
        migrate(server.url())
        with closing(FaultyShop(folder, server.url())) as shop:
            yield shop, server


@pytest.fixture
def shop(tmp_path: Path, warehouse_url: str) -> Iterator[FaultyShop]:
    with closing(FaultyShop(tmp_path, warehouse_url)) as shop:
        yield shop


@pytest.fixture(params=["folder", "topic"])
def any_shop(tmp_path: Path, warehouse_url: str, request: pytest.FixtureRequest) -> Iterator[FaultyShop]:
    """One whose sales land in a folder, then one whose sales come from a topic."""
    topic = request.getfixturevalue("topic") if request.param == "topic" else None
    with closing(FaultyShop(tmp_path, warehouse_url, topic)) as shop:
        yield shop
