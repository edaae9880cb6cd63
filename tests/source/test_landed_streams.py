"""The landing folders of several streams as one source."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.errors import SourceAwayError
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.source.landed_files import LandedFiles
from spark_jobs.source.landed_streams import LandedStreams
from spark_jobs.source.planned_file import FileSlice


@pytest.fixture
def streams(tmp_path: Path) -> LandedStreams:
    for name in ("orders", "payments"):
        (tmp_path / name).mkdir()
    return LandedStreams({name: LandedFiles(tmp_path / name, cuttable=True) for name in ("orders", "payments")})


def land(folder: Path, stream: str, name: str, size: int = 100) -> None:
    (folder / stream / name).write_bytes(b"x" * (size - 1) + b"\n")


def test_files_of_one_name_are_told_apart_by_their_stream(tmp_path: Path, streams: LandedStreams) -> None:
    land(tmp_path, "orders", "1.json")
    land(tmp_path, "payments", "1.json", 200)
    streams.look()
    ranges = streams.take(10_000)
    assert [(each.unit, each.bytes) for each in ranges] == [("orders/1.json", 100), ("payments/1.json", 200)]
    pieces = [piece for task in streams.pieces(list(enumerate(ranges)), 2) for piece in task]
    assert {(each.stream, each.piece.path, each.range_no) for each in pieces if isinstance(each.piece, FileSlice)} == {
        (0, str(tmp_path / "orders" / "1.json"), 0),
        (1, str(tmp_path / "payments" / "1.json"), 1),
    }
    assert streams.take(10_000) == []


def test_the_stream_that_is_behind_comes_first_and_leaves_the_others_a_share(
    tmp_path: Path, streams: LandedStreams
) -> None:
    for number in range(20):
        land(tmp_path, "orders", f"{number:02}")
        land(tmp_path, "payments", f"{number:02}")
    streams.look()
    streams.prefer(["payments", "orders"])
    units = [each.unit for each in streams.take(800)]
    assert units == [f"payments/{number:02}" for number in range(7)] + ["orders/00"]
    assert streams.has_waiting("orders")


def test_each_stream_goes_on_where_the_ledger_says(tmp_path: Path, streams: LandedStreams) -> None:
    land(tmp_path, "orders", "1.json")
    land(tmp_path, "payments", "1.json")
    status = (tmp_path / "orders" / "1.json").stat()
    taken = [("orders/1.json", 100, 100, status.st_mtime_ns)]
    streams.resume(lambda units: [row for row in taken if row[0] in units])
    streams.look()
    assert [each.unit for each in streams.take(1000)] == ["payments/1.json"]
    streams.forget(["orders/1.json", "gone/1.json"])
    streams.look()
    assert [each.unit for each in streams.take(1000)] == ["orders/1.json"]


def test_what_a_batch_was_to_read_of_a_stream_that_was_renamed_is_waited_for(
    tmp_path: Path, streams: LandedStreams
) -> None:
    land(tmp_path, "orders", "1.json")
    streams.look()
    ranges = [*streams.take(1000), SourceRange("sales/1.json", 0, 9, 9, 1), SourceRange("1.json", 0, 9, 9, 1)]
    with pytest.raises(SourceAwayError, match=r"read sales/1\.json, 1\.json when .* --give-up sales/1\.json$"):
        streams.pieces(list(enumerate(ranges)), 2)
