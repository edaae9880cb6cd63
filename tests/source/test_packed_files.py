"""Small files that would become large: Parquet's dictionaries and pages, gzip and zstd; each read in limited memory."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.errors import UnreadableFileError
from spark_jobs.ledger.poison import PoisonSpan
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.files import reading as file_reading
from spark_jobs.source.files.bounds import Tally
from spark_jobs.source.files.damage import checked_whole
from spark_jobs.source.files.reading import read_slice
from spark_jobs.source.records import parquet_pages
from spark_jobs.source.records.formats import decode_records
from spark_jobs.source.records.record_decoder import RecordDecoder
from tests.limited_memory import in_limited_memory
from tests.source.landed import planned, source

MEMORY = 320 << 20
READ = """
from pathlib import Path
from spark_jobs.errors import UnreadableFileError
from spark_jobs.source.records.record_decoder import RecordDecoder
from tests.source.landed import planned, source
result = []
for path, file_format, options in given:
    records, unreadable = 0, ""
    of = source(file_format, "id bigint, v string, at timestamp", options)
    try:
        for arrivals in spark_jobs.source.files.reading.read_slice(planned(Path(path)), RecordDecoder.of(of)):
            records += arrivals.records
    except UnreadableFileError as error:
        unreadable = str(error)
    result.append([records, unreadable])
"""


def read(path: Path, file_format: str = "json", **options: Any) -> list[Arrivals]:
    decoder = RecordDecoder.of(source(file_format, "id bigint, v string, at timestamp", options))
    return list(read_slice(planned(path), decoder))


def write(path: Path, values: pa.Array, **how: Any) -> Path:
    how = {"compression": "zstd", "store_schema": False, **how}
    pq.write_table(pa.table({"id": np.arange(len(values)), "v": values}), path, **how)
    return path


def one_text(size: int, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * size]))


def test_what_is_read_of_files_that_would_be_far_larger_fits_into_memory(tmp_path: Path) -> None:
    once = write(tmp_path / "once.parquet", one_text(1 << 20, 50_000))  # 50 GiB
    in_pieces = write(tmp_path / "pieces.parquet", one_text(1 << 20, 100))
    delta = {"use_dictionary": False, "column_encoding": {"v": "DELTA_BYTE_ARRAY", "id": "PLAIN"}}
    continued = write(tmp_path / "continued.parquet", pa.array(["x" * (1 << 18)] * 300), **delta, write_batch_size=300)
    ones, empty = tmp_path / "ones.json.gz", tmp_path / "empty.json.gz"
    ones.write_bytes(gzip.compress(b"1\n" * (2 << 20)))
    empty.write_bytes(gzip.compress(b"{}\n" * (1 << 20)))
    line = tmp_path / "line.json.zst"
    line.write_bytes(pa.Codec("zstd").compress(bytes(300 << 20), asbytes=True))
    files = [once, in_pieces, continued, ones, empty, line]
    assert max(file.stat().st_size for file in files) < 400_000

    given = [[str(file), "json" if "json" in file.name else "parquet", {}] for file in files]
    given[1][2] = {"most_unpacked": "2GB"}
    found = in_limited_memory(READ, given, MEMORY)

    assert [records for records, _ in found] == [0, 100, 300, 0, 0, 0]
    told = [unreadable for _, unreadable in found]
    assert "unpacks to more than 256 MB (100 times its size, at least 256 MB)" in told[0]
    assert "freshet source PIPELINE --retry FILE" in told[0]
    assert told[1:3] == ["", ""]
    assert "can't be loaded, the first one because it is malformed: not a JSON object. Allowed: 100,000" in told[3]
    assert "the first one because it is without event id: id is null" in told[4]
    assert "unpacks to more than 256 MB" in told[5]


@pytest.mark.parametrize("dictionary", [False, True])
def test_a_page_too_large_for_memory_makes_the_file_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dictionary: bool
) -> None:
    path = write(tmp_path / "a.parquet", pa.array(["x" * (3 << 20), "y"]), use_dictionary=dictionary)
    assert sum(each.records for each in read(path, "parquet")) == 2
    monkeypatch.setattr(parquet_pages, "_MOST_HELD", 2 << 20)
    told = r"needs 3(\.\d+)? MB unpacked to read a single row, most of it .* column v .* Allowed: 2 MB"
    with pytest.raises(UnreadableFileError, match=told):
        read(path, "parquet")


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary()])
def test_a_value_that_is_too_long_rejects_its_row_only(tmp_path: Path, dictionary: bool, kind: pa.DataType) -> None:
    text = "y" * ((16 << 20) + 1)
    values = pa.array(["a", text, None, "b", text], pa.string()).cast(kind)
    path = write(tmp_path / "a.parquet", values, use_dictionary=dictionary)
    arrivals = read(path, "parquet")
    assert [row for each in arrivals for row in each.tuples["v"].to_pylist()] == ["a", None, "b"]
    held = [group for each in arrivals for group in each.rejected]
    told = f"too long: {len(text)} bytes, SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"
    assert [reason for group in held for reason in group.reason.to_pylist()] == [f"malformed: v: {told}"] * 2
    records = pa.concat_arrays([chunk for group in held for chunk in group.tuples["_record"].chunks])
    assert all(len(record) < 70_000 and record.startswith(b'{"id":') for record in records.to_pylist())
    # What is kept is never taken for a record.
    again = decode_records(records, "json", source("json", "id bigint, v string, at timestamp").columns)
    assert again.reasons.to_pylist() == [f"malformed: {told}"] * 2


def test_bytes_that_are_too_long_are_kept_so_that_they_are_no_record(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1], "v": pa.array([b"\0" * (17 << 20)])}), path)
    of = source("parquet", "id bigint, v binary, at timestamp")
    (held,) = [group for each in read_slice(planned(path), RecordDecoder.of(of)) for group in each.rejected]
    again = decode_records(held.tuples["_record"].combine_chunks(), "json", of.columns)
    assert again.reasons.null_count == 0


def spoiled_header(content: bytes) -> bytes:
    start = content.index(b"\x15")
    return content[:start] + b"\xff" * 64 + content[start + 64 :]


def test_a_page_that_has_no_header_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.array(["a", "b"]))
    path.write_bytes(spoiled_header(path.read_bytes()))
    with pytest.raises(UnreadableFileError, match=r"a\.parquet is damaged"):
        read(path, "parquet")


def test_bounds_are_options_of_the_source(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b'{"id":1}\n' * 3 + b"1\n" * 4))
    assert sum(each.records for each in read(path)) == 7
    with pytest.raises(UnreadableFileError, match=r"4 of its first 7 records can't be loaded, .* Allowed: 3, or"):
        read(path, most_rejected=3)
    assert sum(each.records for each in read(path, most_rejected=4)) == 7
    with pytest.raises(UnreadableFileError, match=r"more than 34 B \(source\.options\.most_unpacked: 34B\)"):
        read(path, most_unpacked="34B")
    assert sum(each.records for each in read(path, most_unpacked="35B")) == 7
    path.write_bytes(gzip.compress(b'{"id":1}\n' * 4 + b"1\n" * 4))
    assert sum(each.records for each in read(path, most_rejected=3)) == 8  # half of them


def test_rejected_records_far_behind_good_ones_are_counted_too(tmp_path: Path) -> None:
    """They lie behind what is kept in memory: there a sample tells."""
    path = tmp_path / "a.json.gz"
    good = b"".join(b'{"id":%d,"v":"%s"}\n' % (number, b"x" * 5000) for number in range(15_000))
    path.write_bytes(gzip.compress(good + b"1\n" * 500_000, 1))
    with pytest.raises(UnreadableFileError, match="can't be loaded, the first one because it is malformed: not a JSON"):
        next(read_slice(planned(path), RecordDecoder.of(source("json", "id bigint, v string, at timestamp"))))


def test_what_a_sample_passed_is_not_judged_again_amid_its_tuples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress((b'{"id":1}\n' + b"1\n" * 2) * 5))
    monkeypatch.setattr(Tally, "sample", lambda tally, count: (0, 1))
    monkeypatch.setattr(checked_whole, "__defaults__", (0,))  # bytes that are kept
    monkeypatch.setattr(file_reading, "_MOST_RECORDS", 3)
    assert sum(each.records for each in read(path, most_rejected=5)) == 15


def test_what_is_not_decoded_is_not_counted_as_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b'{"id":1}\n' * 10))
    piece = replace(planned(path), poison=(PoisonSpan(0, 63, "it ended"), PoisonSpan(0, 9, "it ended")))
    of = source("json", "id bigint, v string, at timestamp", {"most_rejected": 3})
    read = read_slice(piece, RecordDecoder.of(of))
    assert [sum(group.tuples.num_rows for group in each.rejected) for each in read] == [7]


def test_a_csv_header_is_looked_for_within_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"\n" * (64 << 10) + b"id,v,at\n1,x,\n"))
    assert sum(each.records for each in read(path, "csv", header=True)) == 1
    with pytest.raises(UnreadableFileError, match=r"more than 64 KB"):
        read(path, "csv", header=True, most_unpacked="64KB")
