"""Which files have landed, and which of them the ledger has ranges of."""

from __future__ import annotations

import os
from pathlib import Path

from spark_jobs.source.files.landing import landed_files


def test_files_being_written_and_subfolders_are_left_out(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", ".hidden", "_temporary", "c._COPYING_", "_date=1"):
        (tmp_path / name).write_text("x")
    (tmp_path / "empty.json").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "deep.json").write_text("x")
    assert list(landed_files(tmp_path)) == ["_date=1", "a.json", "b.json"]
    assert landed_files(tmp_path / "nowhere") == {}


def test_files_are_known_by_the_names_that_the_ledger_gives_them(tmp_path: Path) -> None:
    name = os.fsdecode(b"K\xc3\xb6ln \\ \xff.json")
    (tmp_path / name).write_text("x")
    assert landed_files(tmp_path) == {r"Köln \\ \xff.json": tmp_path / name}
