"""The landing folders of several streams as one source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_jobs.errors import SourceAwayError
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.source.files.landed_files import LandedFiles
from spark_jobs.source.files.planned_file import FileSlice
from spark_jobs.source.landed_streams import LandedStreams


@pytest.fixture
def streams(tmp_path: Path) -> LandedStreams:
    for name in ("orders", "payments"):
        (tmp_path / name).mkdir()
    return LandedStreams({name: LandedFiles(tmp_path / name, cuttable=True) for name in ("orders", "payments")})


def land(folder: Path, stream: str, name: str, size: int = 100) -> None:
    (folder / stream / name).write_bytes(b"x" * (size - 1) + b"\n")


def at(seconds: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


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
    assert len(streams.take(200)) == 2
    streams.advance({"payments": at(0), "orders": at(1)})
    units = [each.unit for each in streams.take(800)]
    assert units == [f"payments/{number:02}" for number in range(1, 8)] + ["orders/01"]
    assert streams.has_waiting("orders")


def test_a_backlog_is_read_up_to_one_event_time(tmp_path: Path, streams: LandedStreams) -> None:
    # A second of event time has one file of orders, and four of payments.
    for number in range(200):
        land(tmp_path, "orders", f"{number:03}")
        land(tmp_path, "payments", f"{number:03}")
    streams.look()
    read = {"orders": 0, "payments": 0}
    came_to = [0.0, 0.0]
    for _ in range(9):
        for each in streams.take(2_000):
            read[each.unit.partition("/")[0]] += 1
        came_to = [read["orders"] / 1, read["payments"] / 4]
        streams.advance({"orders": at(came_to[0]), "payments": at(came_to[1])})
    assert read["orders"] + read["payments"] > 9 * 17
    assert abs(came_to[0] - came_to[1]) <= 1


def test_a_stream_that_brings_nothing_leaves_its_share_to_the_others(tmp_path: Path, streams: LandedStreams) -> None:
    for number in range(40):
        land(tmp_path, "payments", f"{number:02}")
    for number in range(2):
        land(tmp_path, "orders", f"{number:02}")
    streams.look()
    for second in range(2):
        assert len(streams.take(200)) == 2
        streams.advance({"orders": at(second), "payments": at(second)})
    assert len(streams.take(1_000)) == 10


def test_a_stream_that_seems_to_be_ahead_is_read_all_the_same(tmp_path: Path, streams: LandedStreams) -> None:
    """One event from the future does not keep the rest of its stream until the others have been read."""
    for number in range(200):
        land(tmp_path, "orders", f"{number:03}")
        land(tmp_path, "payments", f"{number:03}")
    streams.look()
    for second in (0, 1, 2):
        streams.take(1_600)
        streams.advance({"orders": at(second if second < 2 else 10**7), "payments": at(second)})
    units = [each.unit.partition("/")[0] for each in streams.take(3_200)]
    assert (units.count("orders"), units.count("payments")) == (2, 30)


def test_what_is_older_than_what_was_read_has_all_room_where_nothing_else_waits(
    tmp_path: Path, streams: LandedStreams
) -> None:
    for number in range(40):
        land(tmp_path, "orders", f"{number:02}")
    streams.look()
    for _ in range(2):
        assert len(streams.take(1_000)) == 10
        streams.advance({"orders": at(0), "payments": at(60)})


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
    ranges = [
        *streams.take(1000),
        SourceRange("sales/1.json", 0, 9, 9, 1, kind="files"),
        SourceRange("1.json", 0, 9, 9, 1, kind="files"),
    ]
    with pytest.raises(SourceAwayError, match=r"read sales/1\.json, 1\.json when .* --give-up sales/1\.json$"):
        streams.pieces(list(enumerate(ranges)), 2)
