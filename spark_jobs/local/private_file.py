"""Files that only their owner may read, replaced in one step."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, text: str, *, owner: int | None = None) -> None:
    """Write a file with mode 0600; a reader sees the old text or the new one, never a part.

    Args:
        path: the file; its folder is made where it does not exist.
        text: what it is to hold.
        owner: id of the user whom it shall belong to; only root can give it to another.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.{os.getpid()}")
    written.unlink(missing_ok=True)
    with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        if owner is not None:
            os.fchown(file.fileno(), owner, -1)
    written.replace(path)
