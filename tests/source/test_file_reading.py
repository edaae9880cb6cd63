from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.definition import Source
from spark_jobs.definition.fates import MALFORMED
from spark_jobs.errors import SourceRangeGoneError, UnreadableFileError
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.files.reading import read_slice
from spark_jobs.source.record_lines import line_end_at_or_after
from spark_jobs.source.records.record_decoder import RecordDecoder
from tests.source.landed import planned, source


def read(path: Path, content: bytes, of: Source) -> list[Arrivals]:
    path.write_bytes(content)
    return list(read_slice(planned(path), RecordDecoder.of(of)))


def ids(arrivals: list[Arrivals]) -> list[int | None]:
    return [value for each in arrivals for value in each.tuples["id"].to_pylist()]


def zstd(content: bytes) -> bytes:
    return pa.Codec("zstd").compress(content, asbytes=True)


def test_a_tuple_says_what_when_and_where_its_record_was(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"id":1,"name":"x","price":1.5,"at":"2024-05-01T00:00:00Z"}\n\n{"id":2}\r\n')
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    (arrivals,) = read_slice(planned(path), RecordDecoder.of(source()))
    first, second = arrivals.tuples.to_pylist()
    assert (first["id"], first["name"], first["price"]) == (1, "x", Decimal("1.50"))
    assert first["at"] == datetime(2024, 5, 1, tzinfo=UTC)
    assert first["_arrived_at"] == datetime.fromtimestamp(1_700_000_000, UTC).replace(microsecond=123_456)
    assert (first["_range"], first["_position"]) == (3, 0)
    assert (second["_record"], second["_position"]) == (b'{"id":2}', 61)
    assert arrivals.records == 2


def test_a_malformed_record_is_rejected_alone_with_its_bytes(tmp_path: Path) -> None:
    (arrivals,) = read(tmp_path / "a.json", b'{"id":1}\n{"id":\n{"id":3}\n', source())
    assert ids([arrivals]) == [1, 3]
    (held,) = arrivals.rejected
    assert (held.fate, held.relation, held.identified) == (MALFORMED, None, False)
    assert held.reason.to_pylist() == ["malformed: not JSON: Expecting value at character 6"]
    (row,) = held.tuples.to_pylist()
    assert (row["id"], row["_record"], row["_position"]) == (None, b'{"id":', 9)
    assert arrivals.records == 3


def test_csv_records_carry_their_header(tmp_path: Path) -> None:
    of = source("csv", options={"header": True})
    (arrivals,) = read(tmp_path / "a.csv", b"\xef\xbb\xbfname,id,price,at,more\nx,1,2,,y\n\n,2,a,,\n", of)
    assert ids([arrivals]) == [1]
    assert arrivals.tuples["_record"].to_pylist() == [b"name,id,price,at,more\nx,1,2,,y"]
    assert arrivals.rejected[0].reason.to_pylist() == ["malformed: price: 'a' is no decimal(10,2)"]


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_compressed_files_are_unpacked(tmp_path: Path, pack: Any) -> None:
    end = "gz" if pack is gzip.compress else "zst"
    content = b"".join(b'{"id":%d}\n' % number for number in range(1000))
    assert ids(read(tmp_path / f"a.json.{end}", pack(content), source())) == list(range(1000))


def test_slices_that_end_at_line_ends_give_each_record_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,name,price,at\n" + b"".join(b"%d,%s,,\n" % (number, b"x" * number) for number in range(50)))
    of = source("csv", options={"header": True})
    for pieces in (1, 2, 7, 30):
        cuts = [line_end_at_or_after(path, path.stat().st_size * part // pieces) for part in range(pieces + 1)]
        slices = [planned(path, first, last) for first, last in pairwise(cuts)]
        assert [number for piece in slices for number in ids(list(read_slice(piece, RecordDecoder.of(of))))] == list(
            range(50)
        )


def test_parquet_rows_have_their_number_and_no_record(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"ID": pa.array([1, 2], pa.int32()), "more": [1, 2]}), path)
    (arrivals,) = read_slice(planned(path), RecordDecoder.of(source("parquet")))
    assert ids([arrivals]) == [1, 2]
    assert arrivals.tuples["_position"].to_pylist() == [0, 1]
    assert arrivals.tuples["_record"].null_count == 2


def test_a_file_that_is_gone_or_changed_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"id":1}\n')
    piece = planned(path)
    path.write_bytes(b'{"id":1}\n{"id":2}\n')
    with pytest.raises(SourceRangeGoneError, match="changed"):
        list(read_slice(piece, RecordDecoder.of(source())))
    path.unlink()
    with pytest.raises(SourceRangeGoneError, match="not there"):
        list(read_slice(piece, RecordDecoder.of(source())))


def test_a_file_that_is_changed_while_it_is_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"id":1}\n')
    reading = read_slice(planned(path), RecordDecoder.of(source()))
    next(reading)
    path.write_bytes(b'{"id":1}\n{"id":2}\n')
    with pytest.raises(SourceRangeGoneError, match="changed"):
        list(reading)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", b"PAR1"), ("a.parquet", b""), ("a.json.gz", b"no gzip"), ("a.json.zst", b"no zstd"),
        ("a.json.gz", gzip.compress(b'{"id":1}\n' * 1000, mtime=0)[:-9]),
        ("a.json.zst", zstd(b'{"id":1}\n' * 1000)[:-9]),
        ("a.csv", b"id,name\n1,x\n"), ("a.csv", b"id,name,price,at,id\n"), ("a.csv", b'"id,name,price,at\n'),
    ],
)  # fmt: skip
def test_a_file_that_can_not_be_read_is_told_before_its_first_tuple(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    file_format = {"a.p": "parquet", "a.j": "json", "a.c": "csv"}[name[:3]]
    options = {"header": True} if file_format == "csv" else {}
    with pytest.raises(UnreadableFileError, match=r"a\.(parquet|json|csv)"):
        next(read_slice(planned(path), RecordDecoder.of(source(file_format, options=options))))
