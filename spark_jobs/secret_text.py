"""Secrets that tasks need: a task names the file that holds one, and carries none."""

from __future__ import annotations

import atexit
import pickle
from functools import cache
from pathlib import Path
from uuid import uuid4

from spark_jobs.errors import PlatformError
from spark_jobs.private_files import write_private

_folders: list[Path] = []


def keep_secrets_in(folder: Path) -> None:
    """Where this process keeps the secrets of its tasks from now on.

    Args:
        folder: with mode 0700; workers of all hosts find it under this path.
    """
    _folders[:] = [folder]


class SecretText(str):
    """A text that is pickled as the name of a file of mode 0600 that holds it.

    Spark keeps pickled tasks where whoever speaks its protocol asks for them, and writes them to disks.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        """Tell pickle how to make it again.

        Raises:
            pickle.PicklingError: nothing has said where this process keeps secrets.
        """
        if not _folders:
            raise pickle.PicklingError("A secret is pickled where a Spark context was made only, see join_context.")
        return _read, (str(_written(str(self), _folders[0])),)


@cache
def _written(text: str, folder: Path) -> Path:
    path = folder / f"secret-{uuid4().hex}"
    write_private(path, text)
    atexit.register(path.unlink, missing_ok=True)
    return path


@cache
def _read(path: str) -> SecretText:
    try:
        return SecretText(Path(path).read_bytes().decode())
    except OSError as error:
        raise PlatformError(
            f"A worker can't read what the driver keeps for it: {error}. On a cluster FRESHET_HOME must be one shared "
            "folder, and the workers must run as the user who runs the drivers."
        ) from None
