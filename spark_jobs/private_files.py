"""Files and folders that only their owner may read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from spark_jobs.settings import Home


def write_private(path: Path, text: str, *, owner: int | None = None) -> None:
    """Write a file with mode 0600; a reader sees the old text or the new one, never a part.

    Args:
        path: the file; its folder is made where it does not exist.
        text: what it is to hold.
        owner: id of the user who is to own it; only root can give it to another.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.{os.getpid()}")
    written.unlink(missing_ok=True)
    with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        if owner is not None:
            os.fchown(file.fileno(), owner, -1)
    written.replace(path)


def make_private(home: Home) -> None:
    """Make the home for its owner alone; in one that is there, close all folders but those that events land in.

    Who has opened a home so that others can land their events there has it stay open.
    """
    home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    of_pipelines = (home.caches, home.data_docs, home.join_state)
    folders = [
        home.airflow,
        home.logs,
        home.processes,
        home.kafka,
        home.master_data,
        home.spark,
    ]
    for folder in [*folders, *(of_pipeline("of any").parent for of_pipeline in of_pipelines)]:
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
    for folder in (home.java, home.bytecode):
        make_trusted(folder)


def make_trusted(folder: Path) -> None:
    """Make a folder for programs, which can be made again, for its owner alone.

    One that was open is emptied first: another user may have put a program there, or into a folder below it.

    Args:
        folder: its parent is made where it does not exist.
    """
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists() and (folder.stat().st_mode & 0o077 or folder.stat().st_uid != os.geteuid()):
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def is_of_others(path: Path) -> bool:
    """Whether another user owns a file, or may write to it or to its folder: what it holds is not to be run."""
    return any(
        status.st_uid not in {0, os.geteuid()} or status.st_mode & 0o022 for status in (path.stat(), path.parent.stat())
    )
