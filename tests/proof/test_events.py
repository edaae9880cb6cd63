from __future__ import annotations

import gzip
import hashlib
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_jobs.proof.csv_records import CsvFormat, split
from spark_jobs.proof.events import LandedEvents, UnreadableFileError, read_events

from spark_jobs.definition import Source
from spark_jobs.proof import events as events_module


def source(file_format: str = "json", schema: str = "id bigint, name string, at timestamp", **options: Any) -> Source:
    return Source.model_validate(
        {"format": file_format, "path": "/x", "schema": schema, "event_id": ["id"], "event_time": "at",
         "options": options}
    )  # fmt: skip


def read(path: Path, content: bytes, of: Source) -> list[LandedEvents]:
    path.write_bytes(content)
    return list(read_events(path, of))


def rows(events: list[LandedEvents]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for part in events for row in part.values.to_pylist()]


def readable(events: list[LandedEvents]) -> list[bool]:
    return [flag for part in events for flag in part.readable.to_pylist()]


def test_each_line_is_an_event_blank_ones_are_none_and_arrays_are_several(tmp_path: Path) -> None:
    content = b'{"id": 1}\n\n   \n[{"id": 2}, {"id": 3}]\r\n{"id": 4}\r{"id": 5}'
    events = read(tmp_path / "a.json", content, source(schema="id bigint, at timestamp"))
    assert [row[0] for row in rows(events)] == [1, 2, 3, 4, 5]
    assert all(readable(events))


def test_what_can_be_read_of_a_malformed_record_is_kept_beside_its_digest(tmp_path: Path) -> None:
    lines = [b'{"id": 1, "at": "late"}', b"{", b'{"id": 2}']
    (events,) = read(tmp_path / "a.json", b"\n".join(lines), source())
    assert [row[0] for row in rows([events])] == [1, None, 2]
    assert readable([events]) == [False, False, True]
    assert events.raw_hashes == [hashlib.sha256(line).hexdigest() for line in lines]


def test_large_files_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "BATCH_EVENTS", 10)
    content = b"".join(json.dumps({"id": number}).encode() + b"\n" for number in range(35))
    events = read(tmp_path / "a.json", content, source())
    assert [part.values.num_rows for part in events] == [10, 10, 10, 5]
    pq.write_table(pa.table({"id": list(range(35))}), tmp_path / "a.parquet")
    parts = list(read_events(tmp_path / "a.parquet", source("parquet")))
    assert [part.values.num_rows for part in parts] == [10, 10, 10, 5]
    assert rows(parts) == [(number, None, None) for number in range(35)]


def test_packed_files_are_unpacked(tmp_path: Path) -> None:
    events = read(tmp_path / "a.json.gz", gzip.compress(b'{"id": 1}\n{"id": 2}'), source())
    assert [row[0] for row in rows(events)] == [1, 2]


def test_csv_columns_go_by_position_and_the_header_is_the_first_line_that_is_not_blank(tmp_path: Path) -> None:
    content = "\nname;id;at\n1;Köln;2024-05-01\n2;;\n".encode()
    events = read(tmp_path / "a.csv", content, source("csv", header=True, sep=";"))
    assert [row[:2] for row in rows(events)] == [(1, "Köln"), (2, None)]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("a,b", ["a", "b"]),
        (",", [None, None]),
        ('"a,b",c', ["a,b", "c"]),
        (r'"a\"b",c', ['a"b', "c"]),
        ('"a" ,b', ["a", "b"]),
        ('"a"b,c', ['"a"b', "c"]),
        ('"a,b', ["a,b"]),
        ('""""', ['""']),
        (r"a\,b", ["a\\", "b"]),
    ],
)
def test_csv_lines_are_cut_as_spark_cuts_them(line: str, values: list[str | None]) -> None:
    assert split(line, CsvFormat()) == values


def test_parquet_columns_are_typed_by_the_schema(tmp_path: Path) -> None:
    schema = "id bigint, price decimal(10,2), at timestamp, absent string"
    table = pa.table({"id": pa.array([1], pa.int32()), "price": pa.array([Decimal("1.5")], pa.decimal128(5, 1)),
                      "at": pa.array([1_000], pa.timestamp("ms")), "more": [1]})  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    (events,) = read_events(tmp_path / "a.parquet", source("parquet", schema))
    assert events.values.schema.types == [kind.arrow() for kind in source("parquet", schema).columns.values()]
    assert events.values["price"].to_pylist() == [Decimal("1.50")]
    assert events.values["at"].cast(pa.int64()).to_pylist() == [1_000_000]
    assert events.raw_hashes is None


@pytest.mark.parametrize(
    ("name", "content"), [("a.parquet", b"PAR1"), ("a.json.gz", b"no gzip"), ("a.parquet", b"")], ids=repr
)
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(UnreadableFileError):
        read(tmp_path / name, content, source("parquet" if name.endswith("parquet") else "json"))


def test_a_parquet_file_whose_values_do_not_fit_the_schema_is_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "a.parquet")
    with pytest.raises(UnreadableFileError):
        list(read_events(tmp_path / "a.parquet", source("parquet")))
