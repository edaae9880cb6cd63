"""The archive of Java's classes: made of what one Java has noted, used by the next."""

from __future__ import annotations

import logging
import shlex
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.driver import java_classes
from spark_jobs.driver.java import java_program
from spark_jobs.driver.java_classes import archive_classes, archiving_classes, class_options
from spark_jobs.settings import Home
from tests.waiting import wait_for


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


@pytest.mark.parametrize(("of", "mode"), [("archive", 0o620), ("archive", 0o602), ("folder", 0o720), ("folder", 0o702)])
def test_an_archive_that_others_may_write_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, of: str, mode: int
) -> None:
    home, java = Home(tmp_path), Path(java_program())
    noted = Path(shlex.split(class_options(home, java, noting=True))[-1].rpartition("=")[2])
    archive = noted.with_name(f"{noted.name.split('.')[0]}.jsa")
    archive.touch(mode=0o600)
    assert str(archive) in class_options(home, java, noting=False)
    (archive if of == "archive" else archive.parent).chmod(mode)
    assert class_options(home, java, noting=True) == ""
    assert f"{archive} can be written by other users" in caplog.text


class _JavaThatCanArchiveNothing:
    """What a driver asks its JVM, of a Java at whose place there is a program that fails."""

    def __init__(self, home: Path, noted: Path) -> None:
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").symlink_to("/bin/false")
        bean = SimpleNamespace(getInputArguments=lambda: ["-Xmx1g", f"-XX:DumpLoadedClassList={noted}"])
        factory = SimpleNamespace(getRuntimeMXBean=lambda: bean)
        system = SimpleNamespace(getProperty={"java.home": str(home), "java.class.path": ""}.__getitem__)
        management = SimpleNamespace(ManagementFactory=factory)
        self.java = SimpleNamespace(lang=SimpleNamespace(management=management, System=system))


def test_a_java_that_can_make_no_archive_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(java_classes, "_SETTLED_SECONDS", 0.0)
    noted = tmp_path / "spark-1.2.classes"
    noted.write_text("java/lang/Object\n")
    spark: Any = SimpleNamespace(_jvm=_JavaThatCanArchiveNothing(tmp_path / "java", noted))
    with caplog.at_level(logging.INFO), archiving_classes(lambda: spark):
        wait_for(lambda: not noted.exists(), "the attempt to end")
    (told,) = caplog.messages
    assert "can make no archive of its classes" in told
