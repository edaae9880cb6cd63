"""Pipelines that share a driver: one process and one Spark context, and nothing else in common."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest

from spark_jobs.control import driver_requests, drivers
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import load_definition
from spark_jobs.driver.driver_process import DriverProcess
from spark_jobs.errors import FreshetError
from spark_jobs.proof.verification import verify
from tests.spark.conftest import Shop
from tests.spark.shop import land, query, sale, sales_definition, write_definition
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

NAMES = ("sales", "returns", "orders")
LIVING = "SELECT pipeline, epoch FROM freshet.driver WHERE state = 'running' ORDER BY pipeline"


class SharedDriver:
    """A driver called `till` for several pipelines of the shop, in a thread of this process."""

    def __init__(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shop = shop
        for name in NAMES:
            folder = shop.folder / name
            definition = sales_definition(folder, name=name, driver="till", reprocessing={"first_pause": "1h"})
            definition["fact"]["table"] = f"shop.fact_{name}"
            write_definition(folder, definition).rename(shop.folder / "pipelines" / f"{name}.yaml")
            if name != "sales":
                query(shop.url, f"CREATE TABLE shop.fact_{name} (LIKE shop.fact_sales INCLUDING ALL)")
        monkeypatch.setenv("FRESHET_PIPELINES", str(shop.folder / "pipelines"))
        self.process = DriverProcess(shop.home, shop.url, lambda: shop.spark)
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        try:
            self.process.serve("sales")
        except BaseException as error:
            self.error = error

    def ask(self, name: str) -> None:
        definition = load_definition(name)
        with closing(psycopg2.connect(self.shop.url)) as connection:
            register_pipeline(connection, name, definition.freshness.target, definition.model_dump_json(by_alias=True))
            driver_requests.request_state(connection, name, "running")
            driver_requests.ask(connection, name, "till")

    def drain(self, name: str) -> None:
        with closing(psycopg2.connect(self.shop.url)) as connection:
            driver_requests.request_state(connection, name, "draining")

    def sell(self, name: str, first: int, count: int = 50) -> None:
        land(self.shop.folder / name, f"sales-{first}", [sale(n) for n in range(first, first + count)])

    def await_facts(self, name: str, count: int) -> None:
        facts = f"SELECT count(*) FROM shop.fact_{name}"
        wait_for(lambda: query(self.shop.url, facts) == [(count,)], f"the facts of {name}")

    def await_living(self, **epochs: int) -> None:
        wait_for(lambda: dict(query(self.shop.url, LIVING)) == epochs, f"drivers of {epochs}", 150)

    def state(self, name: str) -> str:
        newest = "SELECT state FROM freshet.driver WHERE pipeline = %s ORDER BY epoch DESC LIMIT 1"
        return str(query(self.shop.url, newest, [name])[0][0])


@pytest.fixture
def till(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedDriver]:
    till = SharedDriver(shop, monkeypatch)
    till.ask("sales")
    till.ask("returns")
    till.thread.start()
    till.await_living(sales=1, returns=1)
    yield till
    for name in NAMES:
        query(shop.url, "ALTER TABLE IF EXISTS shop.mislaid RENAME TO fact_orders")
        with closing(psycopg2.connect(shop.url)) as connection:
            driver_requests.ask(connection, name, None)
    query(shop.url, "UPDATE freshet.pipeline SET desired_state = 'draining'")
    till.thread.join(60)
    assert not till.thread.is_alive()


def test_each_pipeline_is_loaded_drained_and_taken_up_again_by_itself(till: SharedDriver) -> None:
    till.sell("sales", 1)
    till.sell("returns", 1)
    till.await_facts("sales", 50)
    till.await_facts("returns", 50)
    till.drain("returns")
    till.await_living(sales=1)
    till.sell("sales", 51)
    till.await_facts("sales", 100)
    till.ask("returns")
    till.sell("returns", 51)
    till.await_living(sales=1, returns=2)
    till.await_facts("returns", 100)
    for name in ("sales", "returns"):
        till.drain(name)
    till.thread.join(60)
    assert till.error is None
    assert all(verify(load_definition(name), till.shop.url, till.shop.home).holds for name in ("sales", "returns"))


def test_one_that_does_not_fit_its_tables_holds_up_no_other(till: SharedDriver) -> None:
    query(till.shop.url, "ALTER TABLE shop.fact_orders RENAME TO mislaid")
    till.ask("orders")
    till.await_living(orders=1, returns=1, sales=1)
    till.sell("sales", 1)
    till.await_facts("sales", 50)
    till.drain("orders")
    till.await_living(returns=1, sales=1)
    assert till.state("orders") == "stopped"


def test_one_that_can_not_be_taken_up_fails_alone_and_says_why(till: SharedDriver) -> None:
    path = till.shop.folder / "pipelines" / "orders.yaml"
    till.ask("orders")
    till.await_living(orders=1, returns=1, sales=1)
    till.drain("orders")
    till.await_living(returns=1, sales=1)
    path.write_text("name: orders\n")
    with closing(psycopg2.connect(till.shop.url)) as connection:
        driver_requests.ask(connection, "orders", "till")
    told = "SELECT error FROM freshet.driver WHERE pipeline = 'orders' AND epoch = 2 AND state = 'failed'"
    [(error,)] = wait_for(lambda: query(till.shop.url, told), "the refusal")
    assert "orders.yaml" in error
    till.sell("sales", 1)
    till.await_facts("sales", 50)
    till.await_living(returns=1, sales=1)


def test_one_that_is_fenced_off_leaves_the_others(till: SharedDriver) -> None:
    with closing(psycopg2.connect(till.shop.url)) as connection:
        assert drivers.take_over(connection, "returns", log_file=None) == 2
        till.sell("returns", 1)
        till.sell("sales", 1)
        till.await_facts("sales", 50)
        drivers.finish(connection, "returns", 2, "stopped")
    till.await_living(sales=1)
    assert query(till.shop.url, "SELECT count(*) FROM shop.fact_returns") == [(0,)]
    till.drain("sales")
    till.thread.join(60)
    assert isinstance(till.error, FreshetError)
