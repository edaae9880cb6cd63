from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from spark_jobs.errors import PlatformError
from spark_jobs.proof.landing import committed_files, landed_files


def names(paths: Iterable[Path]) -> list[str]:
    return sorted(path.name for path in paths)


def write_log(checkpoint: Path, name: str, entries: dict[str, int], version: str = "v1") -> None:
    lines = [json.dumps({"path": f"file:///landing/{file}", "batchId": batch}) for file, batch in entries.items()]
    folder = checkpoint / "sources" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join([version, *lines]))


def write_batch(checkpoint: Path, batch: int, log_offset: int, *, committed: bool = True) -> None:
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    offset = json.dumps({"logOffset": log_offset})
    (checkpoint / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offset}')
    if committed:
        (checkpoint / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        (checkpoint / "commits" / f".{batch}.crc").write_bytes(b"crc")


def test_files_being_written_and_subfolders_are_left_out(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", ".hidden", "_temporary", "c._COPYING_", "_date=1"):
        (tmp_path / name).write_text("x")
    (tmp_path / "empty.json").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "deep.json").write_text("x")
    assert [path.name for path in landed_files(tmp_path)] == ["_date=1", "a.json", "b.json"]
    assert landed_files(tmp_path / "nowhere") == []


def test_without_a_checkpoint_nothing_is_committed(tmp_path: Path) -> None:
    assert committed_files(tmp_path / "nowhere") == set()
    (tmp_path / "commits").mkdir()
    assert committed_files(tmp_path) == set()


def test_files_of_a_batch_that_is_not_committed_are_not(tmp_path: Path) -> None:
    write_log(tmp_path, "0", {"a.json": 0})
    write_batch(tmp_path, 0, 0)
    write_log(tmp_path, "1", {"b.json": 1})
    write_batch(tmp_path, 1, 1, committed=False)
    assert names(committed_files(tmp_path)) == ["a.json"]


def test_a_batch_without_files_does_not_move_the_log(tmp_path: Path) -> None:
    # Spark numbers batches and the source log's entries apart.
    write_log(tmp_path, "0", {"a.json": 0})
    write_log(tmp_path, "1", {"b.json": 1})
    write_batch(tmp_path, 5, 0)
    assert names(committed_files(tmp_path)) == ["a.json"]
    write_batch(tmp_path, 6, 1)
    assert names(committed_files(tmp_path)) == ["a.json", "b.json"]


def test_a_compact_log_stands_for_all_before_it(tmp_path: Path) -> None:
    write_log(tmp_path, "8", {"old.json": 8})
    write_log(tmp_path, "9.compact", {"first.json": 0, "old.json": 8, "nine.json": 9})
    write_log(tmp_path, "10", {"ten.json": 10})
    write_batch(tmp_path, 10, 10)
    assert names(committed_files(tmp_path)) == ["first.json", "nine.json", "old.json", "ten.json"]
    (tmp_path / "commits" / "10").unlink()
    write_batch(tmp_path, 8, 8)  # the compact log was written ahead of its batch's commit
    assert names(committed_files(tmp_path)) == ["first.json", "old.json"]


def test_paths_are_decoded(tmp_path: Path) -> None:
    write_log(tmp_path, "0", {"K%C3%B6ln%20%25.json": 0})
    write_batch(tmp_path, 0, 0)
    assert committed_files(tmp_path) == {Path("/landing/Köln %.json")}


@pytest.mark.parametrize("content", ["v1", "v1\n{}\n{}", "v1\n{}\nnonsense", "v7\n{}\n{}", ""])
def test_a_checkpoint_that_is_not_understood_is_told(tmp_path: Path, content: str) -> None:
    write_log(tmp_path, "0", {"a.json": 0})
    write_batch(tmp_path, 0, 0)
    (tmp_path / "offsets" / "0").write_text(content)
    with pytest.raises(PlatformError, match="can't be understood"):
        committed_files(tmp_path)
