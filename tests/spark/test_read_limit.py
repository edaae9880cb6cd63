"""A lookup whose relation may be read only sparingly overloads its stream: it sheds the costliest, and stays fresh."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from spark_jobs.control import driver_requests
from spark_jobs.definition import load_definition
from spark_jobs.driver.batch_run import SETTLING_BATCHES
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.lookup.relation.read_limit import SAVED_SECONDS
from tests.spark.conftest import Shop
from tests.spark.shop import land, query, sale, sales_definition
from tests.waiting import wait_for

CUSTOMERS = 2000
# Spread over all of R, so that each task has some of them.
WANTED_BY_MANY = range(50, CUSTOMERS + 1, 50)
SALES_OF_EACH = 10
LIMIT = 200


def define(shop: Shop, **changes: Any) -> None:
    lookup = sales_definition(shop.folder)["lookups"][0] | {"read_limit": f"{LIMIT}/s"} | changes
    shop.define(lookups=[lookup], freshness={"target": "3s"}, shedding={"policy": "considered"})


def run_while(shop: Shop, landing: Callable[[], None]) -> None:
    """Run the stream until the landing function is through, then drain it."""

    def land_and_drain() -> None:
        try:
            landing()
        finally:
            with closing(psycopg2.connect(shop.url)) as connection:
                driver_requests.request_state(connection, "sales", "draining")

    with ThreadPoolExecutor(max_workers=1) as beside:
        landed = beside.submit(land_and_drain)
        StreamJob(load_definition(shop.path), shop.home, shop.url).run(shop.spark, once=False)
        landed.result()


def committed(shop: Shop) -> int:
    try:
        [(count,)] = query(shop.url, "SELECT count(*) FROM freshet.batch WHERE state = 'committed'")
    except psycopg2.Error:
        return 0
    return int(count)


@pytest.mark.parametrize("algorithm", ["auto", "batched_index_nested_loop", "hybrid_join"])
def test_an_overloaded_stream_sheds_those_that_share_their_reads_with_few(shop: Shop, algorithm: str) -> None:
    define(shop, algorithm=algorithm, memory="64KB")  # not all of R fits, and is hot
    shop.one_file_a_batch()

    def landing() -> None:
        for number in range(SETTLING_BATCHES):
            land(shop.folder, f"settling-{number}", [sale(number, customer=1)])
            wait_for(lambda number=number: committed(shop) > number, "a settling batch", 60)
        many = [customer for customer in WANTED_BY_MANY for _ in range(SALES_OF_EACH)]
        customers = [*range(1, CUSTOMERS + 1), *many]
        land(shop.folder, "burst", (sale(1000 + n, customer=customer) for n, customer in enumerate(customers)))
        wait_for(lambda: committed(shop) > SETTLING_BATCHES, "the burst", 60)

    run_while(shop, landing)
    [(facts, shed, statistics)] = query(
        shop.url, "SELECT facts, shed, statistics FROM freshet.batch WHERE shed > 0 ORDER BY batch_no"
    )
    assert facts + shed == CUSTOMERS + SALES_OF_EACH * len(WANTED_BY_MANY)
    [lookup] = statistics["lookups"]
    # What may be read in the time of the batch, and what each task had saved up before.
    assert 0 < lookup["relation_tuples_read"] < CUSTOMERS
    assert lookup["shed"] == shed
    wanted = "SELECT count(*) FROM freshet.shed WHERE (payload::jsonb->>'customer')::int % 50 = 0"
    if algorithm == "batched_index_nested_loop":  # not by pages, which hold popular and other customers alike
        assert query(shop.url, wanted) == [(0,)]
    assert shop.verify().holds


def test_without_shedding_the_limit_is_kept_and_the_wait_is_told(shop: Shop) -> None:
    define(shop, algorithm="batched_index_nested_loop")
    land(shop.folder, "all", (sale(n, customer=n % 1000 * 2 + 1) for n in range(2000)))
    shop.load()  # all that has landed: nothing is shed
    [(statistics,)] = query(shop.url, "SELECT statistics FROM freshet.batch")
    [lookup] = statistics["lookups"]
    assert lookup["relation_tuples_read"] == 1000
    # The two tasks together wait for what is more than they have saved up, at their shares of the limit.
    share = LIMIT / 2
    assert 1000 * (1000 - 2 * SAVED_SECONDS * share) / share * 0.8 < lookup["read_limit_wait_ms"] < 1000 * 1000 / share
    assert query(shop.url, "SELECT count(*) FROM shop.fact_sales") == [(2000,)]
    assert shop.verify().holds
