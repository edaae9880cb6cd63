"""The archive of Java's classes: made of what one Java has noted, used by the next."""

from __future__ import annotations

import shlex
import subprocess
import threading
from pathlib import Path

from spark_jobs.driver.java import java_program
from spark_jobs.driver.java_classes import archive_classes, class_options
from spark_jobs.settings import Home


def _run(java: Path, *options: str) -> None:
    started = subprocess.run([java, *options, "-version"], capture_output=True, text=True, check=False)
    assert started.returncode == 0, started.stdout + started.stderr


def test_java_starts_from_the_archive_of_the_classes_that_it_noted(tmp_path: Path) -> None:
    home, java = Home(tmp_path / "a home"), Path(java_program())
    assert class_options(home, java, noting=False) == ""
    _run(java, *shlex.split(class_options(home, java, noting=True)))
    (noted,) = (home.root / "java").iterdir()
    given_up = threading.Event()
    given_up.set()
    assert not archive_classes(noted, java, "", given_up)
    assert list((home.root / "java").iterdir()) == [noted]
    assert archive_classes(noted, java, "", threading.Event())
    options = class_options(home, java, noting=True)
    assert "SharedArchiveFile" in options
    _run(java, "-Xshare:on", *shlex.split(options))  # it fails where it can't use the archive
