"""`freshet verify` holds for what the driver loads of several streams, and finds what is changed afterwards."""

from __future__ import annotations

import random
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.definition import load_definition
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.proof.proof import Proof, StreamPlaces
from spark_jobs.proof.verification import verify
from spark_jobs.settings import PROJECT_ROOT, Home
from spark_jobs.source.files import landed_files
from spark_jobs.workload.auction_stream import AuctionStreamOptions, write_auction_stream
from spark_jobs.workload.transit import Disorder
from tests.loading.accumulation.fulfilment import order as order_part
from tests.loading.accumulation.fulfilment import payment as payment_part
from tests.loading.accumulation.fulfilment import shipment as shipment_part
from tests.spark.correlated_shop import SCHEMAS, TABLES, CorrelatedShop, order, payment
from tests.spark.shop import query
from tests.spark.test_accumulating_streams import Shipping

CUSTOMER = {"relation": "shop.customer", "on": {"orders.customer": "id"}, "fetch": {"customer_sk": "sk"}}


@pytest.fixture
def shop(tmp_path: Path, warehouse_url: str, spark: Any) -> CorrelatedShop:
    query(warehouse_url, TABLES)
    return CorrelatedShop(tmp_path, warehouse_url, spark)


def proved(shop: CorrelatedShop) -> Proof:
    return verify(load_definition(shop.path), shop.url, shop.home)


def test_what_was_loaded_batch_by_batch_is_proved(shop: CorrelatedShop) -> None:
    shop.define(lookups=[CUSTOMER])
    shop.land("orders", [order(1), order(2), order(3, customer=999), order(4), order(5), b"{", order(7, customer=None)])
    shop.land("payments", [payment(11, 1, 5), payment(12, 2, 6), payment(12, 2, 6), payment(13, 3), payment(99, None)])
    shop.load()
    shop.land("orders", [order(6, 300), order(1)])  # the clock of orders moves on
    shop.land("payments", [payment(14, 4, 7), payment(15, 77, 8), payment(16, 6, 301), payment(17, 7, 1)])
    shop.load()
    shop.land("orders", [order(8, 10)])
    shop.land("payments", [payment(18, 5, 9)])
    shop.load()
    proof = proved(shop)
    assert proof.differences == ()
    assert (proof.facts, proof.unmatched, proof.rejected) == (4, 1, 1)
    assert proof.streams == (
        StreamPlaces("orders", 3, 10, 6, 0, 1, 2, 1, 0, 1, 0),
        StreamPlaces("payments", 3, 10, 6, 0, 1, 2, 1, 0, 1, 0),
    )
    query(shop.url, "DELETE FROM shop.fact_paid WHERE payment_id = 11")
    found = {difference.kind: difference.examples for difference in proved(shop).differences}
    assert [each.split(":")[0] for each in found["missing_result"]] == ["[1,11] of payments/part-0002.json"]


def test_events_without_partner_become_facts_that_lack_it(
    shop: CorrelatedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outer join, out of order, and batch by batch."""
    draw = random.Random(8)
    lookup = CUSTOMER | {"on_unmatched": {"default": {"customer_sk": None}}}
    shop.define(lookups=[lookup], expired="emit", lateness="5m")
    events = [("orders", order(n, 5 * n), 5 * n) for n in range(80)]
    events += [("payments", payment(n, n * 3 % 100, at), at) for n in range(60) for at in [5 * n * 3 % 397]]
    events.sort(key=lambda event: event[2] + draw.uniform(0, 5))
    # The clocks move on until nothing waits any more.
    events += [("orders", order(900, 5000), 0), ("payments", payment(901, 902, 5000), 0)]
    monkeypatch.setattr(landed_files, "MOST_RANGES", 1)
    for first in range(0, len(events), 25):
        for stream in SCHEMAS:
            if records := [record for of, record, _ in events[first : first + 25] if of == stream]:
                shop.land(stream, records)
        if first % 2:
            shop.load()
            assert proved(shop).differences == ()
    shop.load()
    proof = proved(shop)
    assert proof.differences == ()
    law = shop.law()
    assert [law[stream]["waiting"] for stream in ("orders", "payments")] == [1, 1]
    alone = query(
        shop.url,
        "SELECT count(*) FILTER (WHERE payment_id IS NULL), count(*) FILTER (WHERE order_id IS NULL), "
        "count(*) FILTER (WHERE customer_sk IS NULL), count(*) FROM shop.fact_outer",
    )
    orders, payments, unknown, facts = alone[0]
    assert orders > 20
    assert payments == unknown > 10
    assert facts == proof.facts > orders + payments


def test_facts_that_were_filled_in_part_by_part_are_proved(tmp_path: Path, warehouse_url: str, spark: Any) -> None:
    shipping = Shipping(tmp_path, warehouse_url, spark)
    parts = [*map(order_part, range(40)), *(payment_part(f"p{n}", n) for n in range(0, 60, 2))]
    parts += [payment_part("again", 4), payment_part("x", None), *(shipment_part(n, n) for n in range(0, 50, 3))]
    random.Random(3).shuffle(parts)
    for first in range(0, len(parts), 40):
        shipping.land([*parts[first : first + 40], *parts[:5]])
        shipping.load()
    proof = verify(shipping.definition, shipping.url, shipping.home)
    assert proof.differences == ()
    assert proof.facts == 40
    assert {stream.stream: (stream.in_result, stream.waiting, stream.rejected) for stream in proof.streams} == {
        "orders": (40, 0, 0),
        "payments": (20, 10, 2),
        "shipments": (14, 3, 0),
    }


def test_auctions_that_end_are_proved_with_the_bids_that_came_too_late_for_them(
    tmp_path: Path, warehouse_url: str, spark: Any
) -> None:
    home, path = Home(tmp_path), PROJECT_ROOT / "dags/pipelines/optional/auction_bids.yaml"
    options = AuctionStreamOptions(rate=1000.0, events=6000, past=True, disorder=Disorder(timedelta(seconds=1)))
    write_auction_stream(home, options, threading.Event())
    definition = load_definition(path)
    StreamJob(definition, home, warehouse_url).run(spark, once=True, resume=True)
    proof = verify(definition, warehouse_url, home)
    assert proof.differences == ()
    told = {stream.stream: stream for stream in proof.streams}
    assert told["bids"].after_last > 0
    [(purged,)] = query(warehouse_url, "SELECT sum(tuples)::int FROM freshet.batch_fate WHERE fate = 'purged'")
    assert purged > 5000
