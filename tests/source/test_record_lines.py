from __future__ import annotations

import gzip
import hashlib
import io
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.source.files.damage import checked_whole
from spark_jobs.source.files.reading import read_slice
from spark_jobs.source.record_lines import cut_lines, line_blocks, line_end_at_or_after
from spark_jobs.source.records.formats import decode_records
from spark_jobs.source.records.record_decoder import RecordDecoder
from tests.source.landed import planned, source


def records(content: bytes, block_bytes: int, longest: int = 1000) -> list[tuple[bytes, int]]:
    found: list[tuple[bytes, int]] = []
    for block in line_blocks(io.BytesIO(content).read, 0, block_bytes, longest):
        lines = cut_lines(*block)
        found += zip(lines.records.to_pylist(), lines.positions.tolist(), strict=True)
    return found


PIECES = [b"\n", b"\r\n", b"\r", b" ", b"\t", b"a", b"bc", b"\xef\xbb\xbf", b"\0", b"x" * 20]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES)).map(b"".join), st.integers(3, 12), st.sampled_from([8, 1000]))
def test_records_do_not_depend_on_how_the_file_is_cut_into_blocks(content: bytes, block_bytes: int, most: int) -> None:
    assert records(content, block_bytes, most) == records(content, 10_000, most)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES)).map(b"".join))
def test_records_are_the_lines_that_are_not_blank_where_they_begin(content: bytes) -> None:
    text = content.removeprefix(b"\xef\xbb\xbf")
    position, expected = len(content) - len(text), []
    for line in text.split(b"\n"):
        record = line.removesuffix(b"\r")
        if record.strip(b" \t\r"):
            expected.append((record, position))
        position += len(line) + 1
    assert records(content, 5) == expected


def test_a_record_that_is_too_long_is_malformed_and_keeps_its_beginning_length_and_digest() -> None:
    long = b'{"id":"' + b"x" * 200_000 + b'"}'
    for block_bytes in (1000, 1 << 20):
        found = records(b'{"id":1}\n' + long + b'\n{"id":2}\n', block_bytes, 100_000)
        assert [position for _, position in found] == [0, 9, 9 + len(long) + 1]
        assert found[1][0].startswith(long[:1000])
        assert len(found[1][0]) < 66_000
    decoded = decode_records(pa.array([found[1][0]], pa.binary()), "json", source().columns)
    digest = hashlib.sha256(long).hexdigest()
    assert decoded.reasons.to_pylist() == [f"malformed: too long: {len(long)} bytes, SHA-256 {digest}"]


def test_a_file_is_cut_at_its_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"ab\n\ncd\nlast")
    assert [line_end_at_or_after(path, offset) for offset in range(13)] == [0, 3, 3, 3, 4, 7, 7, 7, 11, 11, 11, 11, 11]


def test_what_does_not_fit_into_memory_is_read_twice() -> None:
    glances: list[bool | None] = []

    def read(is_read_again: Callable[[], bool] | None) -> Iterator[bytes]:
        for part in (b"ab", b"cd", b"ef"):
            glances.append(None if is_read_again is None else is_read_again())
            yield part

    for kept, expected in ((6, [False] * 3), (3, [False, False, True, None, None, None])):
        glances.clear()
        assert list(checked_whole(read, len, kept)) == [b"ab", b"cd", b"ef"]
        assert glances == expected


@pytest.mark.parametrize("packed", [False, True])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, packed: bool) -> None:
    line = b'{"id":1,"name":"' + b"x" * 1000 + b'"}\n'
    path = tmp_path / ("a.json.gz" if packed else "a.json")
    with gzip.open(path, "wb", 1) if packed else open(path, "wb") as file:
        for _ in range(120):
            file.write(line * 1024)  # a megabyte
    before = pa.total_allocated_bytes()
    most_arrow, count = 0, 0
    tracemalloc.start()
    for arrivals in read_slice(planned(path), RecordDecoder.of(source())):
        count += arrivals.records
        most_arrow = max(most_arrow, pa.total_allocated_bytes() - before)
    _, most_python = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 120 * 1024
    assert most_arrow + most_python < 100 << 20
