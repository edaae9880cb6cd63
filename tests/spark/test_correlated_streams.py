"""Several streams that become one fact: in a real Spark session, a real warehouse, with their state on a real disk."""

from __future__ import annotations

import operator
import random
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.definition import load_definition
from spark_jobs.errors import FreshetError
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.proof.verification import verify
from spark_jobs.source.files import landed_files
from spark_jobs.warehouse.connection import connect
from tests.spark.correlated_shop import TABLES, CorrelatedShop, order, payment, shipment
from tests.spark.shop import query

LATENESS, WITHIN = 10, 120


@pytest.fixture
def paid(tmp_path: Path, warehouse_url: str, spark: Any) -> CorrelatedShop:
    query(warehouse_url, TABLES)
    shop = CorrelatedShop(tmp_path, warehouse_url, spark)
    shop.define()
    return shop


def test_facts_are_the_plain_join_whatever_the_order_and_the_batches(
    paid: CorrelatedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of order within the lateness, cut at random, in several runs of the driver."""
    draw = random.Random(4)
    orders = [(n, draw.uniform(0, 600)) for n in range(400)]
    payments = [(n, draw.randrange(450), draw.uniform(0, 600)) for n in range(600)]
    plain = {
        (o, p)
        for p, of, paid_at in payments
        for o, ordered_at in orders
        if o == of and abs(paid_at - ordered_at) < WITHIN
    }
    arrivals = sorted(
        [(at + draw.uniform(0, LATENESS), "orders", order(n, at)) for n, at in orders]
        + [(at + draw.uniform(0, LATENESS), "payments", payment(n, of, at)) for n, of, at in payments],
        key=lambda arrival: arrival[0],
    )
    monkeypatch.setattr(landed_files, "MOST_RANGES", 1)  # one file of each stream a batch
    cuts = [0, *sorted(draw.sample(range(1, 1000), 5)), 1000]
    for number in range(6):
        part = arrivals[cuts[number] : cuts[number + 1]]
        for stream in ("orders", "payments"):
            paid.land(stream, (record for _, of, record in part if of == stream))
        if number % 2:
            paid.load()
    assert paid.facts() == plain
    law = paid.law()
    assert law["orders"]["late"] == law["payments"]["late"] == 0
    assert law["orders"]["joined"] == len({o for o, _ in plain})
    assert law["payments"]["joined"] == len({p for _, p in plain})
    with closing(connect(paid.url)) as connection:
        (status,) = read_status(connection)
    told = {each.stream: each for each in status.streams}
    assert {name: each.waiting for name, each in told.items()} == {name: of["waiting"] for name, of in law.items()}
    assert {name: each.expired for name, each in told.items()} == {name: of["expired"] for name, of in law.items()}
    assert status.unaccounted == 0
    held = paid.held()
    assert law["orders"]["expired"] + law["payments"]["expired"] == len(held) > 100
    lonely = {f"orders/[{n}]" for n, _ in orders} - {f"orders/[{o}]" for o, _ in plain}
    assert {event_id for event_id in held if event_id.startswith("orders/")} <= lonely
    assert set(held.values()) == {
        ("unmatched", "no payments within 2:00:00 of it"),
        ("unmatched", "no orders within 2:00:00 of it"),
    }


def test_every_event_has_its_place(paid: CorrelatedShop) -> None:
    paid.land("orders", [order(n, n) for n in range(200)])
    paid.land("payments", [payment(n, n, n + 1) for n in range(0, 200, 2)])
    paid.load()
    paid.land("orders", [order(600, 1), order(198, 198), b"no json", order(500, ordered_at=None)])  # late; known; none
    paid.land("payments", [payment(300, None, 190), payment(199, 199, 195), payment(None, 7, 200)])
    paid.land("payments", [payment(301, 3000, 400)])  # nobody orders any more: what is older expires
    paid.land("orders", [order(3001, 400)])
    paid.load()
    law = paid.law()
    assert law["orders"] | {"joined": 0, "expired": 0, "waiting": 0} == {
        "arrived": 205, "duplicates": 1, "rejected": 2, "late": 1, "joined": 0, "expired": 0, "waiting": 0,
    }  # fmt: skip
    assert law["orders"]["joined"] == 101
    assert law["payments"] | {"expired": 0} == {
        "arrived": 104, "duplicates": 0, "rejected": 2, "late": 0, "joined": 101, "expired": 0, "waiting": 1,
    }  # fmt: skip
    held = paid.held()
    assert held["orders/[600]"][1].startswith("late: orders had come to 2026-03-01 15:09:00+00:00")
    assert held["orders/[500]"][1].startswith("event time: ordered_at is null")
    assert sum(place == "rejected" for place, _ in held.values()) == 5
    assert law["orders"]["waiting"] == 1, "the newest one"
    [(arrived, duplicates, placed)] = query(
        paid.url, "SELECT sum(arrived)::int, sum(duplicates)::int, sum(placed)::int FROM freshet.batch"
    )
    assert (arrived, duplicates, placed) == (309, 1, 308)


@pytest.mark.parametrize("match", [{"band": "5s"}, {"band": "20m"}, "overlap"], ids=str)
def test_streams_match_by_a_band_or_by_overlap(paid: CorrelatedShop, match: Any) -> None:
    """By the second at which they happened, or by number and time; or by numbers, some of which are no interval."""
    draw = random.Random(5)
    orders = [
        order(n, at / 60, customer=n + draw.randrange(-1, 9)) for n, at in enumerate(draw.sample(range(5000), 300))
    ]
    payments = [payment(n, n + draw.randrange(5), draw.randrange(5000) / 60) for n in range(300)]
    on = {"orders": "ordered_at", "payments": "paid_at"}
    if match == {"band": "20m"}:
        on = {"orders": ["order_id", "ordered_at"], "payments": ["order_id", "paid_at"]}
    elif match == "overlap":
        on = {"orders": ["order_id", "customer"], "payments": ["payment_id", "order_id"]}
    paid.define(on=on, match=match, lateness="2h")
    for half in (slice(0, 150), slice(150, 300)):
        paid.land("orders", orders[half])
        paid.land("payments", payments[half])
        paid.load()

    def belong(one: dict[str, Any], other: dict[str, Any]) -> bool:
        if match == "overlap":
            low, high = max(one["order_id"], other["payment_id"]), min(one["customer"], other["order_id"])
            return low < high
        times = (datetime.fromisoformat(text) for text in (one["ordered_at"], other["paid_at"]))
        apart = abs(operator.sub(*times))
        if match == {"band": "20m"}:
            return one["order_id"] == other["order_id"] and apart <= timedelta(minutes=20)
        return apart <= timedelta(seconds=5)

    plain = {(o["order_id"], p["payment_id"]) for o in orders for p in payments if belong(o, p)}
    assert paid.facts() == plain
    law = paid.law()
    assert law["orders"]["rejected"] == sum(o["customer"] <= o["order_id"] for o in orders if match == "overlap")
    assert verify(load_definition(paid.path), paid.url, paid.home).holds
    query(paid.url, "DELETE FROM shop.fact_paid WHERE ctid = (SELECT min(ctid) FROM shop.fact_paid)")
    assert not verify(load_definition(paid.path), paid.url, paid.home).holds


def test_joined_tuples_are_looked_up(paid: CorrelatedShop) -> None:
    lookup = {
        "relation": "shop.customer",
        "on": {"orders.customer": "id"},
        "fetch": {"customer_sk": "sk"},
        "memory": "300KB",
    }
    paid.define(lookups=[lookup])
    paid.land("orders", [order(n, customer=n % 600 + 1) for n in range(2000)])
    paid.land("payments", [payment(n, n, 1) for n in range(2000)])
    paid.load()
    unmatched = sum(n % 600 + 1 > 500 for n in range(2000))
    assert query(paid.url, "SELECT count(*) FROM shop.fact_paid WHERE customer_sk = (order_id % 600 + 1) * 7 + 1") == [
        (2000 - unmatched,)
    ]
    assert (
        sum(event_id == f"[{n},{n}]" for n in range(2000) for event_id in [f"[{n},{n}]"] if event_id in paid.held())
        == unmatched
    )
    assert paid.law()["orders"]["joined"] == 2000


def test_three_streams(paid: CorrelatedShop) -> None:
    paid.define(("orders", "payments", "shipments"))
    paid.land("shipments", [shipment(n, n, 20) for n in range(0, 100, 2)])
    paid.load()
    paid.land("payments", [payment(n, n, 10) for n in range(0, 100, 3)])
    paid.land("orders", [order(n) for n in range(100)])
    paid.load()
    facts = query(paid.url, "SELECT order_id, payment_id, shipment_id FROM shop.fact_shipped")
    assert set(facts) == {(n, n, n) for n in range(0, 100, 6)}
    assert {stream: counts["waiting"] for stream, counts in paid.law().items()} == {
        "orders": 83,
        "payments": 17,
        "shipments": 33,
    }


def test_a_schema_that_changes_while_tuples_wait_is_refused(paid: CorrelatedShop) -> None:
    paid.land("orders", [order(1)])
    paid.load()
    text = paid.path.read_text()
    assert "amount decimal" in text
    paid.path.write_text(text.replace("amount decimal", "note string, amount decimal"))
    paid.land("payments", [payment(1, 1)])
    with pytest.raises(FreshetError, match="have other columns than the streams have now"):
        paid.load()
    paid.path.write_text(text)
    paid.load()
    assert paid.facts() == {(1, 1)}
