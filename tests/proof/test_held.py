"""Held tuples: their payloads are the landed records, and the reasons why they are held are true where that shows."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.loading.payload import tuple_objects
from tests.proof.landed_sales import MOMENT, TABLES, LandedSales, digest_id, ids, sale

NO_KEY = "a key that can never match: customer is null, which equals no value of shop.customer.id (bigint)"
OBJECT = '{"sale_id":1,"customer":1,"price":1.50,"weight":2.5,"note":"a note","sold_at":"2024-05-01T10:20:30.123456Z"}'


@pytest.fixture
def sales(tmp_path: Path, warehouse_url: str) -> LandedSales:
    return LandedSales(tmp_path, warehouse_url)


def origin_unknown(sales: LandedSales) -> None:
    """Let the held tuples be those of a former version, which did not keep where they came from."""
    sales.execute("UPDATE freshet.held_tuple SET source_unit = NULL")


# Payloads


@pytest.mark.parametrize(
    "payload", [b"garbage", b"", b'{"sale_id": 1}', json.dumps(sale(1, note="another")).encode(), b"\xff\x00"]
)
def test_a_payload_that_is_not_the_landed_record_is_wrong(sales: LandedSales, payload: bytes) -> None:
    sales.land(sale(1), sale(2))
    sales.hold("[1]", "shed", payload)
    sales.hold("[2]", "unmatched")
    assert sales.differences() == {"wrong_payload": ("[1]",)}


def test_of_an_event_sent_twice_either_record_may_be_kept(sales: LandedSales) -> None:
    sales.land(sale(1, note="first"), sale(1, note="second"), sale(2))
    for kept in ("first", "second"):
        sales.execute("DELETE FROM freshet.held_tuple; DELETE FROM freshet.batch")
        sales.hold("[1]", "shed", json.dumps(sale(1, note=kept)).encode())
        sales.hold("[2]", "shed")
        assert sales.differences() == {}


def test_the_payload_of_a_malformed_record_is_the_record(sales: LandedSales) -> None:
    sales.land(b"no json")
    sales.hold(digest_id(b"no json"), "rejected", b"something else")
    assert sales.differences() == {"wrong_payload": (digest_id(b"no json"),)}


def test_records_that_are_no_text_are_compared_as_bytes(sales: LandedSales) -> None:
    record = b'{"sale_id": 1, "note": "\xff"}'
    sales.land(record)
    sales.hold_raw(record)
    assert sales.differences() == {}
    sales.execute("UPDATE freshet.held_tuple SET payload = %s", base64.b64encode(record + b" ").decode())
    assert sales.differences() == {"wrong_payload": (digest_id(record),)}
    sales.execute("UPDATE freshet.held_tuple SET payload = 'no base64'")
    assert sales.differences() == {"wrong_payload": (digest_id(record),)}


def test_csv_payloads_have_their_header_before_them(tmp_path: Path, warehouse_url: str) -> None:
    source = {"format": "csv", "path": str(tmp_path / "landing"), "options": {"header": True},
              "schema": "sale_id bigint, customer bigint, price decimal(12,2), weight double, note string, "
              "sold_at timestamp", "event_id": ["sale_id"], "event_time": "sold_at"}  # fmt: skip
    sales = LandedSales(tmp_path, warehouse_url, TABLES, source=source)
    header, line = b"sale_id,customer,price,weight,note,sold_at", f"1,1,1.50,2.5,a note,{MOMENT}".encode()
    sales.land(header, line, b"two,fields")
    sales.hold("[1]", "shed", header + b"\n" + line, unit="part-0.json")
    broken = header + b"\ntwo,fields"
    sales.hold(digest_id(broken), "malformed", broken, unit="part-0.json", reason="malformed: it is")
    assert sales.differences() == {}
    sales.execute("UPDATE freshet.held_tuple SET payload = %s WHERE event_id = '[1]'", line.decode())
    assert sales.differences() == {"wrong_payload": ("[1]",)}


def test_payloads_of_parquet_files_are_objects_of_their_columns(tmp_path: Path, warehouse_url: str) -> None:
    columns = {"sale_id": pa.int64(), "note": pa.string(), "at": pa.timestamp("us", "UTC")}
    source = {"format": "parquet", "path": str(tmp_path / "landing"), "event_id": ["sale_id"], "event_time": "at",
              "schema": "sale_id bigint, note string, at timestamp"}  # fmt: skip
    fact = {"table": "shop.fact_sales", "columns": {"sale_id": "sale_id", "note": "note"}}
    sales = LandedSales(tmp_path, warehouse_url, source=source, lookups=[], fact=fact)
    table = pa.table({"sale_id": [1, 2, 3], "note": ["a", 'ä "b"', None], "at": [0, 1, None]}, pa.schema(columns))
    pq.write_table(table, sales.landing / "sales.parquet")
    sales.load(sales.landing / "sales.parquet", records=3)
    for number, payload in enumerate(tuple_objects(table, tuple(columns)).to_pylist(), 1):
        sales.hold(f"[{number}]", "shed", payload.encode(), unit="sales.parquet")
    assert sales.differences() == {}
    # As an earlier schema made it: columns that it lacked are null, and their order does not matter.
    sales.execute("UPDATE freshet.held_tuple SET payload = %s WHERE event_id = '[3]'", '{"note":null,"sale_id":3}')
    assert sales.differences() == {}
    sales.execute("UPDATE freshet.held_tuple SET payload = replace(payload, '\"a\"', '\"b\"')")
    assert sales.differences() == {"wrong_payload": ("[1]",)}


# Of former versions


def test_objects_that_a_former_version_made_of_json_records_are_compared_by_their_values(sales: LandedSales) -> None:
    sales.land(sale(1))
    sales.hold("[1]", "shed", OBJECT.encode())
    assert sales.differences() == {"wrong_payload": ("[1]",)}, "a record is kept as it arrived"
    origin_unknown(sales)
    assert sales.differences() == {}
    sales.execute("UPDATE freshet.held_tuple SET payload = replace(payload, '2.5', '2.75')")
    assert sales.differences() == {"wrong_payload": ("[1]",)}


def test_a_record_without_id_may_be_known_by_the_digest_of_its_columns(sales: LandedSales) -> None:
    sales.land(sale(None, weight=None))
    columns = (
        b'{"sale_id":null,"customer":1,"price":1.50,"weight":null,"note":"a note",'
        b'"sold_at":"2024-05-01T10:20:30.123456Z"}'
    )
    sales.hold(digest_id(columns), "rejected", columns)
    assert sales.differences() == {}


def test_a_record_that_spark_could_not_read_may_be_readable_now(sales: LandedSales) -> None:
    record = json.dumps(sale(1)).encode()
    sales.land(sale(1))
    sales.hold(digest_id(record), "rejected", record, encoding="text")
    origin_unknown(sales)
    assert sales.differences() == {}


# Reasons


def test_a_record_that_can_be_read_is_not_rejected_as_malformed(sales: LandedSales) -> None:
    record = json.dumps(sale(1)).encode()
    sales.land(sale(1), sale(2))
    sales.store_sale(2)
    sales.hold(digest_id(record), "malformed", record, reason="malformed: customer: 1 is no bigint")
    assert sales.differences() == {
        "wrongly_rejected": (f"{digest_id(record)}: malformed: customer: 1 is no bigint",),
    }


def test_a_key_that_could_match_is_no_reason_to_reject_an_event(sales: LandedSales) -> None:
    sales.land(sale(1), sale(2, customer=None), sale(3, customer=99))
    for number in (1, 2, 3):
        sales.hold(f"[{number}]", "can_not_match", reason=NO_KEY)
    assert ids(sales.differences()["wrongly_rejected"]) == ["[1]:", "[3]:"]
    assert list(sales.differences()) == ["wrongly_rejected"]


def test_keys_that_are_too_large_for_the_relation_can_never_match(tmp_path: Path, warehouse_url: str) -> None:
    tables = TABLES.replace("shop.customer (id bigint", "shop.customer (id integer")
    sales = LandedSales(tmp_path, warehouse_url, tables)
    sales.land(sale(1, customer=2**40), sale(2, customer=2**30))
    for number in (1, 2):
        sales.hold(f"[{number}]", "can_not_match", reason=NO_KEY)
    assert ids(sales.differences()["wrongly_rejected"]) == ["[2]:"]


def test_what_only_postgresql_can_refuse_is_counted_apart(sales: LandedSales) -> None:
    sales.land(sale(1), sale(2), sale(3, customer=None))
    sales.hold("[1]", "rejected", reason="PostgreSQL refuses it: no partition of relation")
    sales.hold("[2]", "shed")
    sales.hold("[3]", "can_not_match", reason=NO_KEY)
    proof = sales.verify()
    assert (proof.holds, proof.unchecked) == (True, 1)
