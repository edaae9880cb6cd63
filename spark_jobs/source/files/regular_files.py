"""Looks at and opens files in folders that others may write to: nothing but the regular file that the name stands for.

A link would have this process read for somebody who may not, and a pipe would have it wait for ever.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

# A pipe opens at once, and is then seen to be one; a link does not open.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def regular_status(path: str | os.PathLike[str]) -> os.stat_result | None:
    """The status of a regular file; None of anything else, a link to one too, and of what can't be looked at."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file to be read, unbuffered.

    Raises:
        FileNotFoundError: it is not there, or the name stands for something else by now.
        OSError: the machine can't read it.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENXIO}:
            raise
        raise _no_file(path) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_file(path)
    return open(descriptor, "rb", buffering=0)


def _no_file(path: str | Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "it is a link or a special file now, which is not read", os.fspath(path))
