"""Facts of a point-in-time lookup equal the version that was valid when their event happened."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.proof.landed_sales import LandedSales, ids, sale, sales_definition

TABLES = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.customer (
        id bigint, valid_from {begin}, valid_to {end}, sk bigint NOT NULL, city text, UNIQUE (id, valid_from)
    );
    INSERT INTO shop.customer VALUES
        (1, '2024-05-01', '2024-05-03', 11, 'Ulm'), (1, '2024-05-03', '2024-05-06', 12, 'Bonn'),
        (1, '2024-05-08', NULL, 13, 'Kiel'), (2, '-infinity', 'infinity', 21, 'Jena'), (3, NULL, NULL, 31, 'Rom');
    CREATE TABLE shop.fact_sales (sale_id bigint PRIMARY KEY, customer_sk bigint, city text);
"""
CUSTOMER = {
    "relation": "shop.customer",
    "on": {"customer": "id"},
    "fetch": {"customer_sk": "sk", "city": "city"},
    "as_of": "event_time",
    "validity": ["valid_from", "valid_to"],
}


def pipeline(
    folder: Path, url: str, begin: str = "timestamptz", end: str = "timestamptz", **lookup: Any
) -> LandedSales:
    columns = {name: name for name in ("sale_id", "customer_sk", "city")}
    fact = {"table": "shop.fact_sales", "columns": columns}
    tables = TABLES.format(begin=begin, end=end)
    return LandedSales(folder, url, tables, lookups=[CUSTOMER | lookup], fact=fact)


def on_day(number: int, day: int, time_of_day: str = "00:00:00", **changes: Any) -> dict[str, Any]:
    return sale(number, sold_at=f"2024-05-{day:02}T{time_of_day}Z", **changes)


def wrong(sales: LandedSales) -> list[str]:
    return ids(sales.differences().get("wrong_fact", ()))


@pytest.mark.parametrize(
    ("begin", "end"), [("timestamptz", "timestamptz"), ("timestamp", "date"), ("date", "date"), ("date", "timestamptz")]
)
def test_the_version_that_was_valid_at_the_events_time_is_right(
    tmp_path: Path, warehouse_url: str, begin: str, end: str
) -> None:
    sales = pipeline(tmp_path, warehouse_url, begin, end)
    sales.land(
        on_day(1, 1), on_day(2, 2, "23:59:59.999999"), on_day(3, 3), on_day(4, 31), on_day(5, 1, customer=2),
        sale(6, sold_at="1066-10-14T00:00:00Z", customer=2),
    )  # fmt: skip
    for number, sk, city in [(1, 11, "Ulm"), (2, 11, "Ulm"), (3, 12, "Bonn"), (4, 13, "Kiel"), (5, 21, "Jena"),
                             (6, 21, "Jena")]:  # fmt: skip
        sales.store(sale_id=number, customer_sk=sk, city=city)
    assert sales.differences() == {}
    sales.execute("UPDATE shop.fact_sales SET customer_sk = 11, city = 'Ulm' WHERE sale_id = 3")
    sales.execute("UPDATE shop.fact_sales SET customer_sk = 12, city = 'Bonn' WHERE sale_id = 2")
    assert sales.differences()["wrong_fact"] == (
        "[2] of part-0.json: customer_sk is 12, should be 11; city is Bonn, should be Ulm",
        "[3] of part-0.json: customer_sk is 11, should be 12; city is Ulm, should be Bonn",
    )


def test_without_a_valid_version_there_is_no_fact(tmp_path: Path, warehouse_url: str) -> None:
    sales = pipeline(tmp_path, warehouse_url)
    events = [on_day(1, 6), on_day(2, 7, "23:59:59.999999"), on_day(3, 3, customer=3), sale(4, sold_at=None)]
    sales.land(*events, on_day(5, 8))
    for number in range(1, 6):
        sales.hold(f"[{number}]", "unmatched")
    proof = sales.verify()
    assert proof.holds
    assert proof.resolvable == 1  # the fifth
    sales.execute("DELETE FROM freshet.held_tuple WHERE event_id = '[1]'")
    sales.execute("UPDATE freshet.batch SET unmatched = 0, facts = 1 WHERE batch_no = 1")
    sales.execute("INSERT INTO shop.fact_sales VALUES (1, 12, 'Bonn')")
    explained = "shop.customer has no tuple with its id that was valid at its time"
    assert sales.differences() == {"wrong_fact": (f"[1] of part-0.json: {explained}",)}


def test_defaults_stand_in_where_no_version_was_valid(tmp_path: Path, warehouse_url: str) -> None:
    default = {"default": {"customer_sk": -1, "city": None}}
    sales = pipeline(tmp_path, warehouse_url, on_unmatched=default)
    sales.land(on_day(1, 6), on_day(2, 8), sale(3, sold_at=None))
    sales.store(sale_id=1, customer_sk=-1, city=None)
    sales.store(sale_id=2, customer_sk=13, city="Kiel")
    sales.store(sale_id=3, customer_sk=-1, city=None)
    assert sales.differences() == {}
    sales.execute("UPDATE shop.fact_sales SET customer_sk = -1, city = NULL")
    assert wrong(sales) == ["[2]"]


def test_of_versions_that_overlap_the_one_that_began_last_is_right(tmp_path: Path, warehouse_url: str) -> None:
    sales = pipeline(tmp_path, warehouse_url)
    sales.execute("INSERT INTO shop.customer VALUES (1, '2024-05-02', '2024-05-05', 14, 'Hof')")
    sales.land(*(on_day(day, day) for day in (1, 2, 3, 5)))
    for number, sk, city in [(1, 11, "Ulm"), (2, 14, "Hof"), (3, 12, "Bonn"), (5, 12, "Bonn")]:
        sales.store(sale_id=number, customer_sk=sk, city=city)
    assert sales.differences() == {}
    sales.execute("UPDATE shop.fact_sales SET customer_sk = 14, city = 'Hof' WHERE sale_id = 3")
    assert wrong(sales) == ["[3]"]


def test_versions_may_change_as_well(tmp_path: Path, warehouse_url: str) -> None:
    """Kiel proves to have begun earlier: what was loaded of a day before was right when it was loaded."""
    sales = pipeline(tmp_path, warehouse_url, on_unmatched={"default": {"customer_sk": -1, "city": None}})
    sales.watch()
    sales.land(on_day(1, 4), on_day(2, 7), on_day(3, 2), on_day(4, 4), modified=time.time() - 60)
    sales.execute("UPDATE shop.customer SET valid_to = '2024-05-04' WHERE sk = 12;"
                  "UPDATE shop.customer SET valid_from = '2024-05-04' WHERE sk = 13")  # fmt: skip
    sales.store(sale_id=1, customer_sk=12, city="Bonn")
    sales.store(sale_id=2, customer_sk=-1, city=None)
    sales.store(sale_id=3, customer_sk=12, city="Bonn")  # Bonn was never valid then
    sales.store(sale_id=4, customer_sk=13, city="Kiel")
    assert wrong(sales) == ["[3]"]
    assert sales.verify().former == 2
    sales.land(on_day(5, 4), on_day(6, 7), modified=time.time() + 60)
    sales.store(sale_id=5, customer_sk=12, city="Bonn")
    sales.store(sale_id=6, customer_sk=-1, city=None)
    assert wrong(sales) == ["[3]", "[5]", "[6]"]


def test_the_event_time_need_not_be_a_column_of_the_fact(tmp_path: Path, warehouse_url: str) -> None:
    definition = sales_definition(tmp_path)
    assert definition["source"]["event_time"] == "sold_at"
    sales = pipeline(tmp_path, warehouse_url)
    assert "sold_at" not in sales.definition.fact.columns.values()
    sales.land(on_day(1, 1))
    sales.store(sale_id=1, customer_sk=11, city="Ulm")
    assert sales.differences() == {}
