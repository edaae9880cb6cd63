from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.definition.ddl import parse_columns
from spark_jobs.errors import UnreadableFileError
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.files.reading import read_slice
from spark_jobs.source.records.formats import decode_records
from spark_jobs.source.records.record_decoder import RecordDecoder
from tests.source.landed import planned, source

US = 1_000_000


def read(path: Path, table: pa.Table, schema: str, **how: Any) -> list[Arrivals]:
    pq.write_table(table, path, **how)
    event_id, _ = schema.split(maxsplit=1)
    return list(
        read_slice(planned(path), RecordDecoder.of(source("parquet", f"{schema}, at timestamp", event_id=event_id)))
    )


def one_column(path: Path, values: pa.Array, kind: str) -> tuple[list[Any], list[str], list[dict[str, Any]]]:
    """The values that are taken, the reasons of the others, and the others as they are kept."""
    (arrivals,) = read(path / "a.parquet", pa.table({"v": values}), f"v {kind}")
    taken = arrivals.tuples["v"]
    assert taken.type == parse_columns(f"v {kind}")["v"].arrow()
    reasons = [reason for held in arrivals.rejected for reason in held.reason.to_pylist()]
    kept = [json.loads(record) for held in arrivals.rejected for record in held.tuples["_record"].to_pylist()]
    return taken.to_pylist(), reasons, kept


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([1, None], pa.int8()), "bigint", [1, None]),
        (pa.array([1], pa.uint64()), "tinyint", [1]),
        (pa.array([1.5], pa.float32()), "double", [1.5]),
        (pa.array([1.5], pa.float64()), "double", [1.5]),
        (pa.array(np.array([1.5], np.float16)), "float", [1.5]),
        (pa.array([-7], pa.int32()), "double", [-7.0]),
        (pa.array([Decimal("1.5")], pa.decimal128(4, 1)), "decimal(10,2)", [Decimal("1.50")]),
        (pa.array([Decimal("1.500")], pa.decimal128(30, 3)), "decimal(10,2)", [Decimal("1.50")]),
        (pa.array([5], pa.int64()), "decimal(10,2)", [Decimal("5.00")]),
        (pa.array([2**64 - 1], pa.uint64()), "decimal(20,0)", [Decimal(2**64 - 1)]),
        (pa.array([True]), "boolean", [True]),
        (pa.array(["x", None, "x"]).dictionary_encode(), "string", ["x", None, "x"]),
        (pa.array(["x"], pa.large_string()), "string", ["x"]),
        (pa.array([b"K\xc3\xb6ln"]), "string", ["Köln"]),
        (pa.array([b"\xff\x00"]), "binary", [b"\xff\x00"]),
        (pa.array([b"ab"], pa.binary(2)), "binary", [b"ab"]),
        (pa.array([date(2024, 2, 29)]), "date", [date(2024, 2, 29)]),
        (pa.array([1_000], pa.timestamp("ms")), "timestamp", [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]),
        (pa.array([0], pa.timestamp("us", "Europe/Berlin")), "timestamp", [datetime(1970, 1, 1, tzinfo=UTC)]),
        (pa.array([1_000], pa.timestamp("ns")), "timestamp", [datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
        (pa.nulls(2), "decimal(10,2)", [None, None]),
    ],
    ids=str,
)
def test_safe_casts_are_made(tmp_path: Path, values: pa.Array, kind: str, expected: list[Any]) -> None:
    assert one_column(tmp_path, values, kind) == (expected, [], [])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1.5]), "decimal(10,2)"),
        (pa.array([1.5]), "float"),
        (pa.array([1.0]), "bigint"),
        (pa.array([True]), "int"),
        (pa.array([1]), "boolean"),
        (pa.array([1]), "timestamp"),
        (pa.array([1], pa.int64()), "double"),
        (pa.array([1]), "string"),
        (pa.array(["1"]), "bigint"),
        (pa.array(["2024-01-01"]), "date"),
        (pa.array([0], pa.timestamp("us")), "date"),
        (pa.array([Decimal("1")], pa.decimal128(5, 0)), "bigint"),
        (pa.array(["AQI="]), "binary"),
        (pa.array([[1]]), "string"),
    ],
    ids=str,
)
def test_a_column_of_another_type_makes_the_file_unreadable(tmp_path: Path, values: pa.Array, kind: str) -> None:
    with pytest.raises(UnreadableFileError, match=r"a\.parquet .* column v is of type .*, and .* takes "):
        one_column(tmp_path, values, kind)


@pytest.mark.parametrize(
    ("values", "kind", "reason", "kept"),
    [
        (pa.array([1, 40_000], pa.int32()), "smallint", "40000 is no smallint (", 40_000),
        (pa.array([1, 2**64 - 1], pa.uint64()), "bigint", f"{2**64 - 1} is no bigint (", 2**64 - 1),
        (pa.array([Decimal("1.00"), Decimal("1.255")], pa.decimal128(9, 3)), "decimal(10,2)", "1.255 is no ", 1.255),
        (pa.array([1, 10**9], pa.int64()), "decimal(10,2)", "1000000000 is no decimal(10,2)", 10**9),
        (pa.array([1_000, 1_001], pa.timestamp("ns")), "timestamp", "", "1970-01-01T00:00:00.000001001Z"),
        (pa.array([0, 10**15], pa.timestamp("s")), "timestamp", "", None),
        (pa.array([0, 3_000_000], pa.int32()).cast(pa.date32()), "date", "3000000 is no date (", "10183-09-21"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_rejects_its_row_only(
    tmp_path: Path, values: pa.Array, kind: str, reason: str, kept: Any
) -> None:
    taken, reasons, records = one_column(tmp_path, values, kind)
    assert len(taken) == 1
    assert reasons[0].startswith(f"malformed: v: {reason}")
    assert kept is None or records == [{"v": kept}]
    # What is kept of it is refused again where it is read as a record.
    columns = parse_columns(f"v {kind}")
    again = decode_records(pa.array([json.dumps(record).encode() for record in records]), "json", columns)
    assert again.reasons.null_count == 0


def test_text_that_is_not_utf8_is_kept_as_it_is(tmp_path: Path) -> None:
    (arrivals,) = read(tmp_path / "a.parquet", pa.table({"v": pa.array([b"x", b"\xff", None])}), "v string")
    assert arrivals.tuples["v"].to_pylist() == ["x", None]
    (held,) = arrivals.rejected
    assert held.reason.to_pylist() == [r"malformed: v: b'\xff' is no string"]
    assert held.tuples["_record"].to_pylist() == [b'{"v":"\xff"}']


def test_columns_go_by_name_and_one_that_is_missing_is_null(tmp_path: Path) -> None:
    table = pa.table({"ID": [1], "id": [2], "x.y": [3], "Other": [4]})
    (arrivals,) = read(tmp_path / "a.parquet", table, "id bigint, `x.y` bigint, other bigint, absent string")
    (row,) = arrivals.tuples.select(["id", "x.y", "other", "absent"]).to_pylist()
    assert list(row.values()) == [2, 3, 4, None]
    (arrivals,) = read(tmp_path / "b.parquet", pa.table({"unknown": [1, 2]}), "id bigint")
    assert arrivals.tuples["id"].to_pylist() == [None, None]
    with pytest.raises(UnreadableFileError, match="several columns for id: ID, Id"):
        read(tmp_path / "c.parquet", pa.table({"ID": [1], "Id": [2]}), "id bigint")


def test_timestamps_of_96_bits_are_read(tmp_path: Path) -> None:
    table = pa.table({"v": pa.array([1_714_558_830_123_456], pa.timestamp("us"))})
    (arrivals,) = read(tmp_path / "a.parquet", table, "v timestamp", use_deprecated_int96_timestamps=True)
    assert arrivals.tuples["v"].cast(pa.int64()).to_pylist() == [1_714_558_830_123_456]


def test_rows_of_large_files_come_in_batches_with_their_numbers(tmp_path: Path) -> None:
    table = pa.table({"id": np.arange(100_000)})
    arrivals = read(tmp_path / "a.parquet", table, "id bigint", row_group_size=30_000)
    assert len(arrivals) > 1
    positions = [number for each in arrivals for number in each.tuples["_position"].to_pylist()]
    assert positions == list(range(100_000))


def test_fewer_rows_come_at_once_where_they_are_large(tmp_path: Path) -> None:
    table = pa.table({"id": np.arange(40_000), "text": [f"{n:0500}" for n in range(40_000)]})
    arrivals = read(tmp_path / "a.parquet", table, "id bigint, text string", use_dictionary=False)
    assert sum(each.records for each in arrivals) == 40_000
    assert max(each.tuples.nbytes for each in arrivals) < 12 << 20 < table.nbytes


def spoil_a_page(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(64) + content[middle + 64 :]


@pytest.mark.parametrize("damage", [spoil_a_page, lambda content: content[:-5], lambda content: content[:4]])
def test_a_damaged_file_is_told_before_its_first_tuple(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": np.random.default_rng(1).integers(0, 2**60, 200_000)}), path, compression="gzip")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UnreadableFileError, match=r"a\.parquet"):
        next(read_slice(planned(path), RecordDecoder.of(source("parquet", "id bigint, at timestamp"))))
