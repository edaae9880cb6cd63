"""Compiled modules are kept where nobody else can put any."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.launch.kept_bytecode import keeping_bytecode
from spark_jobs.settings import Home

UNWANTED = {"PYTHONDONTWRITEBYTECODE": "1"}


def test_modules_are_kept_in_the_home_where_none_are_wanted_beside_the_source(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert keeping_bytecode({"PATH": "/bin"}, home) == {"PATH": "/bin"}
    (tmp_path / "told.py").write_text("")
    kept = keeping_bytecode({"PATH": os.environ["PATH"]} | UNWANTED, home)
    for _ in range(2):
        subprocess.run([sys.executable, "-c", "import told"], env=kept, cwd=tmp_path, check=True)
        assert [path.name.partition(".")[0] for path in home.bytecode.rglob("told*.pyc")] == ["told"]
        assert keeping_bytecode(UNWANTED, home) == {"PYTHONPYCACHEPREFIX": str(home.bytecode)}
    assert home.bytecode.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_what_others_may_have_put_there_is_not_run(tmp_path: Path, mode: int) -> None:
    home = Home(tmp_path)
    planted = home.bytecode / "lib" / "module.pyc"
    planted.parent.mkdir(parents=True)
    planted.touch()
    home.bytecode.chmod(mode)
    keeping_bytecode(UNWANTED, home)
    assert list(home.bytecode.iterdir()) == []
    assert home.bytecode.stat().st_mode & 0o777 == 0o700


def test_a_link_in_its_place_leads_nowhere(tmp_path: Path) -> None:
    home, elsewhere = Home(tmp_path / "home"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    home.root.mkdir()
    home.bytecode.symlink_to(elsewhere)
    keeping_bytecode(UNWANTED, home)
    assert home.bytecode.is_dir()
    assert not home.bytecode.is_symlink()
    assert elsewhere.is_dir()
