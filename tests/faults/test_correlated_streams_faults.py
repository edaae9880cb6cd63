"""Drivers of correlated streams are killed for real: facts, ledger and state come back together."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.control.driver_requests import request_state
from tests.faults.driver_process import DriverProcess
from tests.spark.correlated_shop import TABLES, CorrelatedShop, order, payment
from tests.spark.shop import query
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(400)

# Its closing waits for as long as a test holds this lock; all that comes before has been done then.
UNCLOSABLE = """
    CREATE FUNCTION shop.hang() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NEW; END';
    CREATE TRIGGER hang BEFORE UPDATE ON freshet.batch_stream FOR EACH ROW EXECUTE FUNCTION shop.hang();
"""


@contextmanager
def unclosable_batch(url: str) -> Iterator[None]:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(4711)")
        yield


@pytest.fixture
def paid(tmp_path: Path, warehouse_url: str) -> Iterator[tuple[CorrelatedShop, list[DriverProcess]]]:
    query(warehouse_url, TABLES + UNCLOSABLE)
    shop = CorrelatedShop(tmp_path, warehouse_url)
    shop.define()
    drivers: list[DriverProcess] = []
    yield shop, drivers
    for driver in drivers:
        driver.end()


def drive(shop: CorrelatedShop, drivers: list[DriverProcess], *arguments: str) -> DriverProcess:
    drivers.append(DriverProcess(shop.path, shop.home.root, shop.url, *arguments))
    return drivers[-1]


def await_facts(shop: CorrelatedShop, count: int) -> None:
    wait_for(lambda: len(shop.facts()) >= count, f"{count} facts", 150)


def test_killed_after_the_facts_commit_then_replaced_and_at_last_without_its_state(
    paid: tuple[CorrelatedShop, list[DriverProcess]],
) -> None:
    shop, drivers = paid
    shop.land("orders", [order(n, 0) for n in range(1000)])
    shop.land("payments", [payment(n, n, 1) for n in range(0, 500)])
    driver = drive(shop, drivers)
    await_facts(shop, 500)
    closed = "SELECT count(*) FROM freshet.batch WHERE state = 'committed'"
    wait_for(lambda: query(shop.url, closed) == [(1,)], "the batch to be committed")
    with unclosable_batch(shop.url):
        shop.land("payments", [payment(n, n, 1) for n in range(500, 800)])
        await_facts(shop, 800)
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_for(lambda: query(shop.url, waiting) == [(1,)], "the batch to be closed")
        driver.kill()
    assert shop.law()["payments"]["joined"] == 500

    second = drive(shop, drivers)
    wait_for(lambda: query(shop.url, closed) == [(2,)], "the second driver to go on with the batch", 150)
    assert shop.law()["payments"] == {
        "arrived": 800, "duplicates": 0, "rejected": 0, "late": 0, "joined": 800, "expired": 0, "waiting": 0,
    }  # fmt: skip
    shop.land("payments", [payment(n, n, 1) for n in range(800, 900)])
    await_facts(shop, 900)
    third = drive(shop, drivers)  # its buckets are held by the second one's workers until that has ended
    assert second.wait(150) == 1
    shop.land("payments", [payment(n, n, 1) for n in range(900, 1000)])
    await_facts(shop, 1000)
    with closing(psycopg2.connect(shop.url)) as connection:
        request_state(connection, "paid", "draining")
    assert third.wait() == 0, third.log.read_text()[-3000:]
    assert shop.facts() == {(n, n) for n in range(1000)}
    assert shop.law()["orders"]["joined"] == shop.law()["payments"]["joined"] == 1000
    assert query(shop.url, "SELECT count(*) FROM freshet.batch WHERE state <> 'committed'") == [(0,)]

    shutil.rmtree(shop.home.join_state("paid"))
    shop.land("payments", [payment(2000, 1, 2)])
    last = drive(shop, drivers, "--once")
    assert last.wait(150) == 1
    [(error,)] = query(shop.url, "SELECT error FROM freshet.driver ORDER BY epoch DESC LIMIT 1")
    assert "state of the join of pipeline paid is not in" in error
    assert "freshet rebuild-state paid" in error
    assert len(shop.facts()) == 1000
