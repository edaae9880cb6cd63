"""A landing folder as a stream: nothing in it is passed over, nothing is taken twice."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from spark_jobs.errors import SourceAwayError, SourceRangeGoneError
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.source.files import landed_files
from spark_jobs.source.files.landed_files import LandedFiles
from spark_jobs.source.files.names import name_of, unit_of
from spark_jobs.source.files.planned_file import planned_file
from spark_jobs.source.record_lines import line_end_at_or_after

ALL = 1 << 40
NOW = time.time_ns()


def land(folder: Path, name: str | bytes, content: bytes = b"{}\n", age: float = 10.0) -> Path:
    """A file that landed this many seconds ago."""
    path = folder / os.fsdecode(name)
    path.write_bytes(content)
    os.utime(path, ns=(NOW - int(age * 1e9),) * 2)
    return path


def names(ranges: list[SourceRange]) -> list[str]:
    return [name_of(each.unit) for each in ranges]


def looked(folder: Path, cuttable: bool = True) -> LandedFiles:
    source = LandedFiles(folder, cuttable=cuttable)
    source.look()
    return source


def resumed(folder: Path, ranges: list[SourceRange]) -> LandedFiles:
    source = LandedFiles(folder, cuttable=True)
    source.resume(lambda _: ((each.unit, each.last, each.size, each.modified_ns) for each in ranges))
    source.look()
    return source


def test_files_are_taken_once_in_the_order_in_which_they_landed(tmp_path: Path) -> None:
    land(tmp_path, "b", age=30)
    land(tmp_path, "c", age=20)
    land(tmp_path, "a", age=20)
    source = looked(tmp_path)
    assert names(source.take(ALL)) == ["b", "a", "c"]
    assert source.take(ALL) == []
    land(tmp_path, "d", age=40)
    source.look()
    assert names(source.take(ALL)) == ["d"], "it landed late, and is not passed over"


def test_what_is_still_being_written_is_left_alone(tmp_path: Path) -> None:
    for name in (".hidden", "_temporary", "file._COPYING_"):
        land(tmp_path, name)
    land(tmp_path, "empty", b"")
    (tmp_path / "folder").mkdir()
    land(tmp_path, "_day=1")
    source = looked(tmp_path)
    assert names(source.take(ALL)) == ["_day=1"]
    land(tmp_path, "empty")
    source.look()
    assert names(source.take(ALL)) == ["empty"]


@pytest.mark.parametrize("age", [-4e9, 50 * 365 * 86_400], ids=["in 2150", "before 1980"])
def test_a_strange_mtime_holds_nothing_back(tmp_path: Path, age: float) -> None:
    land(tmp_path, "strange", age=age)
    source = looked(tmp_path)
    [strange] = source.take(ALL)
    assert strange.landed_at is not None
    land(tmp_path, "later")
    source.look()
    assert names(source.take(ALL)) == ["later"]


@pytest.mark.parametrize("name", [b"caf\xe9", b"a:b", b"a b%20#?", b"back\\slash", "Grüße 你好".encode()])
def test_any_name_is_taken_and_known_again(tmp_path: Path, name: bytes) -> None:
    land(tmp_path, name)
    [taken] = looked(tmp_path).take(ALL)
    taken.unit.encode()  # PostgreSQL can store it
    assert name_of(taken.unit) == os.fsdecode(name)
    assert unit_of(os.fsdecode(name)) == taken.unit
    assert resumed(tmp_path, [taken]).take(ALL) == []


def test_a_way_to_the_folder_written_otherwise_changes_nothing(tmp_path: Path) -> None:
    land(tmp_path, "a")
    taken = looked(tmp_path).take(ALL)
    assert resumed(tmp_path / ".." / tmp_path.name, taken).take(ALL) == []


def test_a_batch_is_bounded_in_bytes_and_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        land(tmp_path, f"f{number}", b"x" * 100)
    source = looked(tmp_path)
    assert source.has_waiting
    assert names(source.take(250)) == ["f0", "f1"]
    monkeypatch.setattr(landed_files, "MOST_RANGES", 1)
    assert names(source.take(250)) == ["f2"]
    assert source.unread is not None
    assert (source.unread.files, source.unread.bytes) == (2, 200)


def test_a_large_file_is_taken_in_ranges_that_end_with_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landed_files, "_SMALLEST_RANGE", 1)
    content = b"".join(b"%d\n" % number for number in range(1000))
    land(tmp_path, "large", content)
    source = looked(tmp_path)
    taken: list[SourceRange] = []
    while ranges := source.take(700):
        taken += ranges
        again = resumed(tmp_path, taken).take(ALL)  # a driver that is killed here goes on just there
        assert [(each.first, each.last) for each in again] == (
            [(taken[-1].last, len(content))] if taken[-1].last < len(content) else []
        )
    assert [each.first for each in taken] == [0, *(each.last for each in taken[:-1])]
    assert all(content[each.last - 1 : each.last] == b"\n" for each in taken)
    assert all(600 < each.bytes < 800 for each in taken[:-1])


@pytest.mark.parametrize(
    ("name", "cuttable"), [("large.gz", True), ("LARGE.GZ", True), ("large.zst", True), ("large", False)]
)
def test_a_file_that_can_not_be_cut_is_taken_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, cuttable: bool
) -> None:
    monkeypatch.setattr(landed_files, "_SMALLEST_RANGE", 1)
    land(tmp_path, name, b"1\n" * 1000)
    [taken] = looked(tmp_path, cuttable).take(10)
    assert (taken.first, taken.last) == (0, 2000)


def test_a_batch_s_slices_cover_its_ranges_and_are_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landed_files, "_SMALLEST_SLICE", 1000)
    land(tmp_path, "large", b"0123456\n" * 1000, age=20)
    for number in range(10):
        land(tmp_path, f"small-{number}", b"1\n" * 100)
    source = looked(tmp_path)
    ranges = source.take(ALL)
    tasks = source.pieces(list(enumerate(ranges)), 3)
    sizes = [sum(piece.last - piece.first for piece in pieces) for pieces in tasks]
    assert len(tasks) == 3
    assert max(sizes) < 1.5 * min(sizes)
    for number, each in enumerate(ranges):
        pieces = sorted(
            (piece for pieces in tasks for piece in pieces if piece.range_no == number), key=lambda piece: piece.first
        )
        assert [piece.first for piece in pieces] == [each.first, *(piece.last for piece in pieces[:-1])]
        assert pieces[-1].last == each.last
        assert {(piece.size, piece.modified_ns) for piece in pieces} == {(each.size, each.modified_ns)}


def test_a_file_that_was_changed_after_it_was_taken_is_told_once_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landed_files, "_LOOK_AGAIN_SECONDS", 0)
    land(tmp_path, "a")
    land(tmp_path, "b")
    source = looked(tmp_path)
    source.take(ALL)
    source.changed()
    land(tmp_path, "a", b"other\n", age=5)
    found = [each for _ in range(4) for each in source.changed()]
    assert [(each.unit, each.size) for each in found] == [("a", 6)]
    source.look()
    assert source.take(ALL) == []
    source.forget(["a"])
    source.look()
    assert [(each.unit, each.size) for each in source.take(ALL)] == [("a", 6)]


def test_a_file_that_is_to_be_read_again_and_is_not_there_has_nothing_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path, "a", age=5)
    source = looked(tmp_path)
    source.take(ALL)
    listing, listings = os.listdir, []

    def counted(folder: Path) -> list[str]:
        listings.append(folder)
        return listing(folder)

    monkeypatch.setattr(os, "listdir", counted)
    monkeypatch.setattr(landed_files, "_CLOCK_TICK_SECONDS", 0)
    source.look()
    before = len(listings)
    for _ in range(3):
        source.forget(["b"])
        source.look()
    assert len(listings) == before
    source.forget(["a"])
    source.look()
    assert len(listings) == before + 1
    assert [each.unit for each in source.take(ALL)] == ["a"]


@pytest.mark.parametrize("content", [b"other\n", b"{}\n{}\n"], ids=["replaced", "written to"])
def test_a_name_that_stands_for_another_file_when_a_driver_starts_is_a_new_file(tmp_path: Path, content: bytes) -> None:
    land(tmp_path, "a")
    land(tmp_path, "b")
    taken = looked(tmp_path).take(ALL)
    land(tmp_path, "a", content, age=5)
    again = resumed(tmp_path, taken).take(ALL)
    assert [(each.unit, each.first, each.size) for each in again] == [("a", 0, len(content))]
    assert resumed(tmp_path, [*taken, *again]).take(ALL) == []


def test_a_file_of_which_a_part_was_taken_and_that_is_another_one_now_is_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landed_files, "_SMALLEST_RANGE", 1)
    land(tmp_path, "a", b"1\n" * 1000)
    taken = looked(tmp_path).take(100)
    land(tmp_path, "a", b"2\n" * 1000, age=5)
    assert [(each.first, each.last) for each in resumed(tmp_path, taken).take(ALL)] == [(0, 2000)]


def test_a_name_that_comes_again_after_it_was_removed_is_a_new_file(tmp_path: Path) -> None:
    path = land(tmp_path, "a")
    source = looked(tmp_path)
    source.take(ALL)
    path.unlink()
    source.look()
    land(tmp_path, "a", b"more\n")
    source.look()
    assert names(source.take(ALL)) == ["a"]


def test_a_file_that_vanishes_or_grows_before_it_is_taken_is_seen_anew(tmp_path: Path) -> None:
    gone, grown = land(tmp_path, "gone"), land(tmp_path, "grown")
    source = looked(tmp_path)
    gone.unlink()
    grown.write_bytes(b"{}\n{}\n")
    assert source.take(ALL) == []
    source.look()
    assert [(each.unit, each.size) for each in source.take(ALL)] == [("grown", 6)]


def test_a_folder_that_is_away_is_told_and_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "landing"
    folder.mkdir()
    land(folder, "a")
    source = looked(folder)
    folder.rename(tmp_path / "away")
    with pytest.raises(SourceAwayError, match=r"can't be read: No such file or directory\. The stream waits"):
        source.look()
    (tmp_path / "away").rename(folder)
    land(folder, "b")
    source.look()
    assert names(source.take(ALL)) == ["a", "b"]


def test_an_unchanged_folder_is_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    land(tmp_path, "a")
    monkeypatch.setattr(landed_files, "_CLOCK_TICK_SECONDS", 0)
    source = looked(tmp_path)
    listed = []
    monkeypatch.setattr(os, "listdir", lambda folder: listed.append(folder) or [])
    source.look()
    assert listed == []


def test_a_look_looks_at_the_new_files_only_however_many_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = [
        SourceRange(f"loaded {n}", 0, 3, 3, land(tmp_path, f"loaded {n}").stat().st_mtime_ns, kind="files")
        for n in range(100)
    ]
    source = resumed(tmp_path, taken)  # it looks at each of them, once
    looked_at: list[str] = []
    stat, lstat = Path.stat, os.lstat
    monkeypatch.setattr(Path, "stat", lambda path: looked_at.append(path.name) or stat(path))
    monkeypatch.setattr(os, "lstat", lambda path: looked_at.append(Path(path).name) or lstat(path))
    land(tmp_path, "new")
    source.look()
    source.look()
    assert names(source.take(ALL)) == ["new"]
    assert looked_at == [tmp_path.name, "new", tmp_path.name, "new"], "as it is found, and as it is taken"


def test_a_file_that_had_gone_when_its_position_was_taken_over_keeps_no_later_one_from_being_read(
    tmp_path: Path,
) -> None:
    land(tmp_path, "a")
    assert names(resumed(tmp_path, [SourceRange("a", 0, 0, None, None, kind="files")]).take(ALL)) == ["a"]


def test_a_file_that_is_made_empty_and_filled_later_is_seen_although_the_folder_does_not_change(tmp_path: Path) -> None:
    empty = tmp_path / "filled later"
    empty.touch()
    os.utime(tmp_path, ns=(NOW - 10**11,) * 2)
    source = looked(tmp_path)
    source.look()
    empty.write_bytes(b"{}\n")
    os.utime(tmp_path, ns=(NOW - 10**11,) * 2)
    source.look()
    assert sorted(names(source.take(ALL))) == ["filled later"]


def test_links_and_special_files_are_not_taken_and_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(landed_files, "_CLOCK_TICK_SECONDS", 0)
    (tmp_path.parent / "secret").write_bytes(b"{}\n")
    (tmp_path / "link.json").symlink_to(tmp_path.parent / "secret")
    os.mkfifo(tmp_path / "pipe.json")
    source = looked(tmp_path)
    land(tmp_path, "a")
    source.look()
    assert names(source.take(ALL)) == ["a"]
    assert [record.getMessage().split(" is a link")[0] for record in caplog.records] == [f"{tmp_path}/link.json"]


@pytest.mark.parametrize("swap", ["link", "pipe"])
def test_a_file_that_becomes_something_else_before_it_is_read_is_gone(tmp_path: Path, swap: str) -> None:
    path = land(tmp_path, "a.json")
    source = looked(tmp_path)
    ((piece,),) = source.pieces(list(enumerate(source.take(ALL))), 1)
    path.rename(tmp_path.parent / "secret")
    if swap == "link":
        path.symlink_to(tmp_path.parent / "secret")
    else:
        os.mkfifo(path)
    with pytest.raises(SourceRangeGoneError, match="link or a special file"), planned_file(piece) as file:
        file.read()
    with pytest.raises(FileNotFoundError):
        line_end_at_or_after(path, 1)


def test_an_entry_that_can_not_be_looked_at_holds_nothing_else_up(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    land(tmp_path, "a")
    assert names(looked(tmp_path).take(ALL)) == ["a"]


def test_a_large_file_that_is_replaced_half_way_is_told_and_not_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landed_files, "_SMALLEST_RANGE", 1)
    monkeypatch.setattr(landed_files, "_LOOK_AGAIN_SECONDS", 0)
    land(tmp_path, "large", b"1\n" * 1000)
    source = looked(tmp_path)
    source.take(100)
    land(tmp_path, "large", b"2\n" * 1000, age=5)
    assert source.take(ALL) == []
    source.look()
    assert source.take(ALL) == []
    assert [each.unit for _ in range(3) for each in source.changed()] == ["large"]


def test_a_name_that_comes_again_while_others_land_is_a_new_file(tmp_path: Path) -> None:
    path = land(tmp_path, "a")
    source = looked(tmp_path)
    source.take(ALL)
    path.unlink()
    land(tmp_path, "b")
    land(tmp_path, "c")
    source.look()
    land(tmp_path, "a", b"more\n")
    source.look()
    assert sorted(names(source.take(ALL))) == ["a", "b", "c"]
