"""Every fact equals what the plain SQL join makes of its landed event."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.proof.landed_sales import MOMENT, TABLES, LandedSales, ids, sale

NAN, INFINITY = float("nan"), float("inf")
CUSTOMER = {"relation": "shop.customer", "on": {"customer": "id"}, "fetch": {"customer_sk": "sk", "city": "city"}}


@pytest.fixture
def sales(tmp_path: Path, warehouse_url: str) -> LandedSales:
    return LandedSales(tmp_path, warehouse_url)


@pytest.mark.parametrize(
    ("wrong", "explained"),
    [
        ({"city": "Rom"}, "city is Rom, should be Ulm"),
        ({"customer_sk": 12}, "customer_sk is 12, should be 11"),
        ({"price": "1.51"}, "price is 1.51, should be 1.50"),
        ({"note": None}, "note is null, should be a note"),
        ({"weight": NAN}, "weight is NaN, should be 2.5"),
        ({"sold_at": "2024-05-01T10:20:30.123457Z"}, "sold_at is 2024-05-01 10:20:30.123457+00, should be "
         "2024-05-01 10:20:30.123456+00"),
        ({"city": "Rom", "note": "x" * 200}, f"city is Rom, should be Ulm; note is {'x' * 77}..., should be a note"),
    ],
)  # fmt: skip
def test_a_wrong_column_is_named(sales: LandedSales, wrong: dict[str, Any], explained: str) -> None:
    sales.land(sale(1), sale(2))
    sales.store_sale(1)
    sales.store_sale(2, **wrong)
    assert sales.differences() == {"wrong_fact": (f"[2] of part-0.json: {explained}",)}


def test_nulls_nans_and_infinities_are_equal_to_themselves(sales: LandedSales) -> None:
    sales.land(
        sale(1, weight="NaN", note=None),
        sale(2, weight="Infinity", customer=2),
        sale(3, weight=None, price=None),
        b'{"sale_id": 4, "customer": 1, "weight": "-Infinity"}',
    )
    sales.store_sale(1, weight=NAN, note=None)
    sales.store_sale(2, weight=INFINITY, customer_sk=12, city=None)
    sales.store_sale(3, weight=None, price=None)
    sales.store_sale(4, weight=-INFINITY, price=None, note=None, sold_at=None)
    assert sales.differences() == {}
    sales.execute("UPDATE shop.fact_sales SET weight = NULL WHERE sale_id IN (1, 2)")
    assert ids(sales.differences()["wrong_fact"]) == ["[1]", "[2]"]


def test_a_fact_whose_key_is_not_in_the_relation_is_wrong(sales: LandedSales) -> None:
    sales.land(sale(1, customer=99), sale(2, customer=None))
    sales.store_sale(1)
    sales.store_sale(2, customer_sk=None, city=None)
    explained = "shop.customer has no tuple with its id"
    assert sales.differences()["wrong_fact"] == tuple(f"[{n}] of part-0.json: {explained}" for n in (1, 2))


def test_default_values_stand_in_where_the_relation_has_no_tuple(tmp_path: Path, warehouse_url: str) -> None:
    default = {"default": {"customer_sk": -1, "city": None}}
    sales = LandedSales(tmp_path, warehouse_url, lookups=[{**CUSTOMER, "on_unmatched": default}])
    sales.land(sale(1), sale(2, customer=99), sale(3, customer=None), sale(4, customer=2))
    sales.store_sale(1)
    sales.store_sale(2, customer_sk=-1, city=None)
    sales.store_sale(3, customer_sk=-1, city=None)
    sales.store_sale(4, customer_sk=12, city=None)  # matched: the null is the relation's own
    assert sales.differences() == {}
    sales.execute("UPDATE shop.fact_sales SET customer_sk = 0 WHERE sale_id = 2")
    sales.execute("UPDATE shop.fact_sales SET customer_sk = -1, city = NULL WHERE sale_id = 1")
    assert sales.differences()["wrong_fact"] == (
        "[1] of part-0.json: customer_sk is -1, should be 11; city is null, should be Ulm",
        "[2] of part-0.json: customer_sk is 0, should be -1",
    )


def test_of_an_event_sent_twice_either_version_may_be_the_fact_but_no_mixture(sales: LandedSales) -> None:
    for number in (1, 2, 3):
        sales.land(sale(number, note="first", weight=1.0), sale(number, note="second", weight=2.0))
    sales.store_sale(1, note="first", weight=1.0)
    sales.store_sale(2, note="second", weight=2.0)
    sales.store_sale(3, note="second", weight=1.0)
    assert ids(sales.differences()["wrong_fact"]) == ["[3]"]


def test_a_malformed_record_makes_no_fact(sales: LandedSales) -> None:
    malformed = b'{"sale_id": 1, "customer": 1, "price": "much"}'
    sales.land(malformed)
    sales.hold_raw(malformed)
    sales.store_sale(1, price=None, weight=None, note=None, sold_at=None)
    assert sales.differences() == {"extra_fact": ("[1]",)}


def test_text_that_postgresql_cannot_hold_makes_no_fact(sales: LandedSales) -> None:
    sales.land(sale(1, note="a\0b"), sale(2, note="a\0b"))
    sales.hold("[1]", "rejected")
    sales.store_sale(2, note=None)
    assert ids(sales.differences()["wrong_fact"]) == ["[2]"]


def test_a_pipeline_without_lookups_is_compared_with_its_events(tmp_path: Path, warehouse_url: str) -> None:
    columns = {"sale_id": "sale_id", "price": "price", "note": "note"}
    sales = LandedSales(tmp_path, warehouse_url, lookups=[], fact={"table": "shop.fact_sales", "columns": columns})
    sales.land(sale(1), sale(2))
    sales.store(sale_id=1, price="1.5", note="a note")
    sales.store(sale_id=2, price="1.5", note="another")
    assert ids(sales.differences()["wrong_fact"]) == ["[2]"]


def test_more_wrong_facts_than_are_shown_are_counted(sales: LandedSales) -> None:
    sales.land(*(sale(number) for number in range(30)))
    sales.execute("INSERT INTO shop.fact_sales SELECT n, 0 FROM generate_series(0, 29) AS n")
    sales.book(facts=30)
    (difference,) = sales.verify().differences
    assert (difference.kind, difference.count, len(difference.examples)) == ("wrong_fact", 30, 10)


COMPOSITE = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.article (code text, size integer, sk bigint NOT NULL, name char(6), PRIMARY KEY (code, size));
    INSERT INTO shop.article VALUES ('ä-1', 38, 1, 'shoe'), ('b', 40, 2, 'boot'), ('b', 41, 3, NULL);
    CREATE TABLE shop.buyer (id uuid PRIMARY KEY, born date, sk bigint NOT NULL);
    INSERT INTO shop.buyer VALUES ('550e8400-e29b-41d4-a716-446655440000', '1970-01-01', 7);
    CREATE TABLE shop.fact_lines (
        shop_name varchar(10), sold_on date, line smallint, article_sk bigint, article_name text, buyer_sk bigint,
        buyer uuid, born timestamp, payment jsonb, label char(5), PRIMARY KEY (shop_name, sold_on, line)
    );
"""
LINES: dict[str, Any] = {
    "lookups": [
        {"relation": "shop.article", "on": {"code": "code", "size": "size"},
         "fetch": {"article_sk": "sk", "article_name": "name"}},
        {"relation": "shop.buyer", "on": {"buyer": "id"}, "fetch": {"buyer_sk": "sk"}},
    ],
    "fact": {
        "table": "shop.fact_lines",
        "columns": {"shop_name": "shop", "sold_on": "sold_on", "line": "line", "article_sk": "article_sk",
                    "article_name": "article_name", "buyer_sk": "buyer_sk", "buyer": "buyer", "born": "at",
                    "payment": "payment", "label": "label"},
    },
}  # fmt: skip
LINES_SCHEMA = (
    "shop string, sold_on date, line bigint, code string, size bigint, buyer string, payment string, label string, "
    "at timestamp"
)
LINE = {
    "shop": 'Bücher "K"',
    "sold_on": "2024-05-01",
    "line": 3,
    "code": "ä-1",
    "size": 38,
    "buyer": "{550E8400E29B41D4A716446655440000}",
    "payment": '{"b": 1, "a": [1.50]}',
    "label": "ab",
    "at": MOMENT,
}
LINE_FACT = {
    "shop_name": 'Bücher "K"',
    "sold_on": "2024-05-01",
    "line": 3,
    "article_sk": 1,
    "article_name": "shoe",
    "buyer_sk": 7,
    "buyer": "550e8400-e29b-41d4-a716-446655440000",
    "born": "2024-05-01 10:20:30.123456",
    "payment": '{"a": [1.50], "b": 1}',
    "label": "ab",
}


def lines(folder: Path, url: str, file_format: str = "json") -> LandedSales:
    source = {"format": file_format, "path": str(folder / "landing"), "schema": LINES_SCHEMA,
              "event_id": ["shop", "sold_on", "line"], "event_time": "at"}  # fmt: skip
    return LandedSales(folder, url, COMPOSITE, source=source, **LINES)


def test_text_uuid_date_and_composite_keys_are_joined(tmp_path: Path, warehouse_url: str) -> None:
    sales = lines(tmp_path, warehouse_url)
    sales.land(LINE, {**LINE, "line": 4}, {**LINE, "line": 5, "buyer": "no uuid"}, {**LINE, "line": 6, "size": 39})
    sales.store(**LINE_FACT)
    text_id = r'["B\u00fccher \"K\"","2024-05-01",%d]'
    sales.hold(text_id % 4, "shed")
    sales.hold(text_id % 5, "rejected")
    sales.hold(text_id % 6, "unmatched")
    assert sales.differences() == {}
    sales.execute("UPDATE shop.fact_lines SET buyer_sk = 8")
    sales.execute("DELETE FROM freshet.held_tuple WHERE place = 'shed'")
    differences = sales.differences()
    (wrong,) = differences["wrong_fact"]
    assert "buyer_sk is 8, should be 7" in wrong
    assert differences["missing"] == (f"{text_id % 4} of part-0.json",)


@pytest.mark.parametrize(
    "wrong",
    [
        {"article_name": "boot"},
        {"buyer": "550e8400-e29b-41d4-a716-446655440001"},
        {"born": "2024-05-01 12:20:30.123456"},
        {"payment": '{"a": [1.51], "b": 1}'},
        {"label": "abc"},
        {"sold_on": "2024-05-02"},
    ],
)
def test_every_type_is_compared(tmp_path: Path, warehouse_url: str, wrong: dict[str, Any]) -> None:
    sales = lines(tmp_path, warehouse_url)
    sales.land(LINE)
    sales.store(**{**LINE_FACT, **wrong})
    assert set(sales.differences()) == ({"missing", "extra_fact"} if "sold_on" in wrong else {"wrong_fact"})


def test_parquet_events_are_compared_like_json_ones(tmp_path: Path, warehouse_url: str) -> None:
    sales = lines(tmp_path, warehouse_url, "parquet")
    columns = sales.definition.source.columns
    table = pa.table({name: pa.array([LINE[name]]).cast(kind.arrow()) for name, kind in columns.items()})
    pq.write_table(table, sales.landing / "lines.parquet")
    sales.load(sales.landing / "lines.parquet")
    sales.store(**LINE_FACT)
    assert sales.differences() == {}
    sales.execute("UPDATE shop.fact_lines SET article_sk = 2")
    assert list(sales.differences()) == ["wrong_fact"]


def test_values_at_the_ends_of_their_types_are_compared(tmp_path: Path, warehouse_url: str) -> None:
    tables = "CREATE SCHEMA shop; CREATE TABLE shop.limits (id bigint PRIMARY KEY, day date, at timestamptz, "
    tables += "amount numeric, share real, raw bytea, small smallint, sure boolean)"
    columns = ("id", "day", "at", "amount", "share", "raw", "small", "sure")
    source = {"format": "parquet", "path": str(tmp_path / "landing"), "event_id": ["id"], "event_time": "at",
              "schema": "id bigint, day date, at timestamp, amount decimal(38,10), share float, raw binary, "
              "small tinyint, sure boolean"}  # fmt: skip
    fact = {"table": "shop.limits", "columns": {name: name for name in columns}}
    sales = LandedSales(tmp_path, warehouse_url, tables, source=source, lookups=[], fact=fact)
    first_day, last_day = -719_162, 2_932_896
    first_instant, last_instant = first_day * 86_400_000_000, (last_day + 1) * 86_400_000_000 - 1
    table = pa.table({
        "id": pa.array([1, 2], pa.int64()),
        "day": pa.array([last_day, first_day], pa.int32()).cast(pa.date32()),
        "at": pa.array([last_instant, first_instant]).cast(pa.timestamp("us", tz="UTC")),
        "amount": pa.array([Decimal("9" * 28 + "." + "9" * 10), Decimal("-1e-10")], pa.decimal128(38, 10)),
        "share": pa.array([0.1, float("-inf")], pa.float32()),
        "raw": pa.array([b"\x00\xff", b""]),
        "small": pa.array([-128, 127], pa.int8()),
        "sure": [True, False],
    })  # fmt: skip
    pq.write_table(table, sales.landing / "limits.parquet")
    sales.load(sales.landing / "limits.parquet")
    sales.store(id=1, day="9999-12-31", at="9999-12-31 23:59:59.999999+00", amount="9" * 28 + "." + "9" * 10,
                share=0.1, raw=b"\x00\xff", small=-128, sure=True)  # fmt: skip
    sales.store(id=2, day="0001-01-01", at="0001-01-01 00:00:00+00", amount="-0.0000000001",
                share=float("-inf"), raw=b"", small=127, sure=False)  # fmt: skip
    assert sales.differences() == {}
    sales.execute("UPDATE shop.limits SET raw = '\\x00fe', share = 0.2, amount = amount - 1e-10 WHERE id = 1")
    (explained,) = sales.differences()["wrong_fact"]
    for column in ("raw is \\x00fe, should be \\x00ff", "share is 0.2, should be 0.1", "amount is 9999"):
        assert column in explained


def test_csv_events_are_compared_like_json_ones(tmp_path: Path, warehouse_url: str) -> None:
    source = {"format": "csv", "path": str(tmp_path / "landing"), "options": {"header": True, "sep": ";"},
              "schema": "sale_id bigint, customer bigint, price decimal(12,2), weight double, note string, "
              "sold_at timestamp",
              "event_id": ["sale_id"], "event_time": "sold_at"}  # fmt: skip
    sales = LandedSales(tmp_path, warehouse_url, TABLES, source=source)
    sales.land(
        b"sale_id;customer;price;weight;note;sold_at",
        b"1;1;1.50;2.5;a note;" + MOMENT.encode(),
        b"",
        'two;fields;"Köln'.encode(),
        b'2;3;1.50;;"a;""note""";' + MOMENT.encode(),
    )
    sales.store_sale(1)
    sales.store_sale(2, customer_sk=13, city="Köln", weight=None, note='a;"note"')
    sales.hold_raw('two;fields;"Köln'.encode())
    assert sales.differences() == {}
    sales.execute("UPDATE shop.fact_sales SET note = 'x' WHERE sale_id = 2")
    assert ids(sales.differences()["wrong_fact"]) == ["[2]"]
