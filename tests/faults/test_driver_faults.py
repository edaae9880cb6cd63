"""Processes are killed for real; after each fault every event is in exactly one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.control import drivers
from tests.faults.conftest import FaultyShop, shop_with_a_server
from tests.spark.shop import query, sale

pytestmark = pytest.mark.timeout(300)

HOT = [sale(n, customer=n % 20 + 1) for n in range(2000)]


def hot_and_cold(first: int) -> list[dict[str, object]]:
    """Tuples of which half are joined in the front stage, and half need R."""
    return [sale(first + n, customer=n % 20 + 1 if n % 2 else n % 1000 + 500) for n in range(2000)]


@contextmanager
def unreadable_relation(url: str) -> Iterator[None]:
    """R can't be read: a batch loads the hits of its front stage and hangs in its back stage."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLE shop.customer IN ACCESS EXCLUSIVE MODE")
        yield


def test_driver_killed_in_the_middle_of_a_batch(any_shop: FaultyShop) -> None:
    any_shop.land("hot", HOT)
    driver = any_shop.drive()
    any_shop.await_facts(len(HOT))
    with unreadable_relation(any_shop.url):
        any_shop.land("both", hot_and_cold(10_000))
        any_shop.await_open_batch(minimum_facts=1000)
        driver.kill()
    assert any_shop.facts() == len(HOT) + 1000
    assert any_shop.drive("--once").wait() == 0
    assert any_shop.facts() == len(HOT) + 2000
    last = "SELECT state, epoch, arrived, facts, duplicates FROM freshet.batch ORDER BY batch_no DESC LIMIT 1"
    assert query(any_shop.url, last) == [("committed", 2, 2000, 2000, 0)], "the next driver went on with the batch"
    assert any_shop.verify().holds


def test_python_worker_killed_in_the_middle_of_a_batch(shop: FaultyShop) -> None:
    shop.land("hot", HOT)
    driver = shop.drive()
    shop.await_facts(len(HOT))
    with unreadable_relation(shop.url):
        shop.land("both", hot_and_cold(10_000))
        shop.await_open_batch(minimum_facts=1000)
        workers = driver.workers()
        assert workers
        for worker in workers:
            worker.kill()
    shop.await_facts(len(HOT) + 2000)
    shop.drain(driver)
    assert query(shop.url, "SELECT count(*) FROM freshet.driver") == [(1,)]  # the driver lived on
    assert shop.verify().holds


def test_a_second_driver_fences_the_first(any_shop: FaultyShop) -> None:
    any_shop.land("hot", HOT)
    first = any_shop.drive()
    any_shop.await_facts(len(HOT))
    second = any_shop.drive()
    assert first.wait() == 1
    any_shop.land("both", hot_and_cold(10_000))
    any_shop.await_facts(len(HOT) + 2000)
    any_shop.drain(second)
    assert query(any_shop.url, "SELECT state FROM freshet.driver ORDER BY epoch") == [("fenced",), ("stopped",)]
    assert any_shop.verify().holds


def test_postgres_restarted_while_loading(tmp_path: Path) -> None:
    with shop_with_a_server(tmp_path) as (shop, server):
        shop.land("hot", HOT)
        driver = shop.drive()
        shop.await_facts(len(HOT))
        for part in range(6):
            shop.land(f"both-{part}", hot_and_cold(10_000 * (part + 1)))
            if part in (1, 4):
                server.restart("immediate")  # as after a crash: no session is asked to end
        shop.await_facts(len(HOT) + 12_000)
        shop.drain(driver)
        assert shop.verify().holds


def test_what_a_batch_has_committed_before_the_server_crashes_is_loaded_again(tmp_path: Path) -> None:
    with shop_with_a_server(tmp_path) as (shop, server):
        shop.land("hot", HOT)
        driver = shop.drive()
        shop.await_facts(len(HOT))
        with closing(psycopg2.connect(shop.url)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")  # so that much that is committed is lost
            cursor.execute("SELECT pg_reload_conf()")
        with unreadable_relation(shop.url):
            shop.land("both", hot_and_cold(10_000))
            shop.await_open_batch(minimum_facts=1000)
            server.restart("immediate")
        shop.await_facts(len(HOT) + 2000)
        shop.drain(driver)
        assert shop.verify().holds


def test_a_driver_that_is_fenced_in_the_middle_of_a_batch_ends_without_waiting_for_it(shop: FaultyShop) -> None:
    shop.land("hot", HOT)
    first = shop.drive()
    shop.await_facts(len(HOT))
    with closing(psycopg2.connect(shop.url)) as connection, unreadable_relation(shop.url):
        shop.land("both", hot_and_cold(10_000))
        shop.await_open_batch(minimum_facts=1000)
        drivers.take_over(connection, "sales", log_file=None)
        assert first.wait() == 1, "although R can't be read yet"
    assert shop.drive("--once").wait() == 0
    assert shop.facts() == len(HOT) + 2000
    assert shop.verify().holds
