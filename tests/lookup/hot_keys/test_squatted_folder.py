"""Another user may take the name of our folder for temporary files first: then we take another one."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from spark_jobs.errors import PlatformError
from spark_jobs.lookup.hot_keys.publishing import _MOST_NAMES, _folder


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The names that the folder may have, in a folder for temporary files of its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = tmp_path / f"freshet-{os.getuid()}"
    return [first, *(Path(f"{first}-{number}") for number in range(1, _MOST_NAMES))]


def test_a_name_that_is_taken_is_passed_by_and_ours_stays_ours(names: list[Path], tmp_path: Path) -> None:
    names[0].symlink_to(tmp_path)
    names[1].mkdir(mode=0o755)
    names[2].touch()
    assert _folder() == _folder() == names[3]
    assert stat.S_IMODE(names[3].stat().st_mode) == 0o700
    names[0].unlink()
    names[1].chmod(0o700)
    assert _folder() == names[0], "it is ours from the first on"


def test_where_all_names_are_taken_it_is_said_who_can_help(names: list[Path]) -> None:
    for name in names:
        name.mkdir(mode=0o755)
    with pytest.raises(PlatformError, match="whoever runs this machine"):
        _folder()
