from __future__ import annotations

import io
import json
from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from spark_jobs.definition import load_definition
from spark_jobs.settings import Home
from spark_jobs.workload.bad_input import DEFECT, DUPLICATE, LINE_DEFECTS, ORDER_DEFECTS
from spark_jobs.workload.order_events import EventFiles, OrderFiles, OrderLineFiles
from spark_jobs.workload.order_source import OrderSource
from spark_jobs.workload.tpch_files import tables_folder
from tests.workload.conftest import SCALE

MOMENT = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
MICROSECONDS = 1772368215123456


@pytest.fixture(scope="module")
def orders(tpch_home: Home) -> pa.Table:
    return OrderSource(tables_folder(tpch_home, SCALE), zipf=0, seed=1).take(0, 100).orders


@pytest.fixture(scope="module")
def lines(tpch_home: Home) -> pa.Table:
    return OrderSource(tables_folder(tpch_home, SCALE), zipf=0, seed=1).take(0, 100).lines


def marked(rows: pa.Table, *defects: str | None) -> pa.Table:
    """The first rows, one for each defect."""
    rows = rows.slice(0, len(defects))
    return rows.set_column(rows.column_names.index(DEFECT), DEFECT, pa.array(defects, pa.string()))


def next_file(files: EventFiles, rows: pa.Table, *, last: bool = False) -> bytes | None:
    return files.next_file(rows, np.full(rows.num_rows, MICROSECONDS), last=last)


def order_ids(content: bytes | None) -> list[int]:
    return [json.loads(line)["o_orderkey"] for line in (content or b"").splitlines()]


def test_orders_are_json_lines_with_the_values_of_tpch(orders: pa.Table) -> None:
    content = next_file(OrderFiles(), orders) or b""
    read = [json.loads(line, parse_float=str) for line in content.splitlines()]
    expected = [
        row
        | {
            "o_totalprice": str(row["o_totalprice"]).rstrip("0").rstrip("."),
            "o_orderdate": row["o_orderdate"].isoformat(),
        }
        | {"ordered_at": "2026-03-01T12:30:15.123456Z"}
        for row in orders.drop_columns([DEFECT]).to_pylist()
    ]
    for row in read:
        row["o_totalprice"] = row["o_totalprice"].removesuffix(".0")
    assert read == expected


def test_lines_are_parquet_with_the_values_of_tpch(lines: pa.Table) -> None:
    read = pyarrow.parquet.read_table(io.BytesIO(next_file(OrderLineFiles(), lines) or b""))
    assert read.drop_columns(["ordered_at"]).equals(lines.drop_columns([DEFECT]))
    assert set(read["ordered_at"].to_pylist()) == {MOMENT}


def test_events_have_the_columns_and_types_that_the_pipelines_declare(orders: pa.Table, lines: pa.Table) -> None:
    read = pyarrow.parquet.read_table(io.BytesIO(next_file(OrderLineFiles(), lines) or b""))
    declared = load_definition("order_lines").source.columns
    assert read.column_names == list(declared)
    order = json.loads((next_file(OrderFiles(), orders) or b"").splitlines()[0])
    assert list(order) == list(load_definition("orders").source.columns)


def test_a_duplicate_comes_again_unchanged_in_the_next_file(orders: pa.Table) -> None:
    files = OrderFiles()
    first = next_file(files, marked(orders, None, DUPLICATE, None)) or b""
    second = next_file(files, orders.slice(3, 2)) or b""
    assert order_ids(first) == orders["o_orderkey"].to_pylist()[:3]
    assert order_ids(second)[:2] == orders["o_orderkey"].to_pylist()[3:5]
    assert second.splitlines()[2] == first.splitlines()[1]
    assert next_file(files, orders.slice(0, 0), last=True) is None
    assert (files.written.events, files.written.bad) == (6, Counter({DUPLICATE: 1}))


def test_the_last_file_keeps_no_duplicate_back(orders: pa.Table) -> None:
    files = OrderFiles()
    assert len(set(order_ids(next_file(files, marked(orders, DUPLICATE, DUPLICATE), last=True)))) == 2
    assert files.written.events == 4


@pytest.mark.parametrize("defect", ORDER_DEFECTS)
def test_each_defect_of_orders_spoils_one_line(orders: pa.Table, defect: str) -> None:
    files = OrderFiles()
    fine = next_file(OrderFiles(), orders.slice(0, 1)) or b""
    *others, bad = (next_file(files, marked(orders, defect, None, None)) or b"").splitlines()
    assert len(others) == 2
    assert bad != fine.rstrip()
    assert files.written.bad == Counter({defect: 1, DUPLICATE: 0})


def test_defects_of_orders_are_what_they_are_called(orders: pa.Table) -> None:
    def spoiled(defect: str) -> bytes:
        return (next_file(OrderFiles(), marked(orders, defect)) or b"").rstrip()

    with pytest.raises(json.JSONDecodeError):
        json.loads(spoiled("malformed_json"))
    with pytest.raises(UnicodeDecodeError):
        spoiled("invalid_utf8").decode()
    assert json.loads(spoiled("null_event_id"))["o_orderkey"] is None
    assert json.loads(spoiled("null_key"))["o_custkey"] is None
    assert isinstance(json.loads(spoiled("wrong_type"))["o_custkey"], str)
    assert json.loads(spoiled("numeric_overflow"))["o_totalprice"] >= 10**13
    assert json.loads(spoiled("not_a_number"))["o_totalprice"] != json.loads(spoiled("not_a_number"))["o_totalprice"]
    assert "\0" in json.loads(spoiled("nul_in_text"))["o_clerk"]
    assert len(json.loads(spoiled("over_long_text"))["o_clerk"]) > 15
    assert json.loads(spoiled("unknown_customer"))["o_custkey"] > 10**11


@pytest.mark.parametrize("defect", LINE_DEFECTS)
def test_each_defect_of_lines_spoils_one_row(lines: pa.Table, defect: str) -> None:
    files = OrderLineFiles()
    content = next_file(files, marked(lines, defect, None, None)) or b""
    read = pyarrow.parquet.read_table(io.BytesIO(content))
    raw = read.set_column(9, "l_shipmode", read["l_shipmode"].cast(pa.binary())).drop_columns(["ordered_at"])
    fine = lines.set_column(9, "l_shipmode", lines["l_shipmode"].cast(pa.binary())).drop_columns([DEFECT])
    assert raw.slice(0, 2).equals(fine.slice(1, 2))
    assert raw.slice(2).to_pylist() != fine.slice(0, 1).to_pylist()
    assert files.written.bad == Counter({defect: 1, DUPLICATE: 0})
