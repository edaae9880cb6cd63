"""A process that dies at its n-th change of the disk: from then on nothing is changed any more."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class Died(BaseException):
    """The process is gone."""


class DiskOfAProcess:
    """Counts changes of the disk, and dies before one of them.

    Attributes:
        changes: so far.
        last: after how many it dies; None for never.
    """

    def __init__(self, last: int | None = None) -> None:
        self.changes = 0
        self.last = last

    def change(self) -> None:
        if self.last is not None and self.changes >= self.last:
            raise Died
        self.changes += 1


@contextmanager
def running_on(disk: DiskOfAProcess) -> Iterator[None]:
    """Let every creation, write, fsync, rename and removal of a file pass through this disk."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((os, "fsync"), (os, "rename"), (os, "unlink"), (Path, "rename"), (Path, "unlink")):
            patch.setattr(owner, name, _counted(disk, getattr(owner, name)))
        patch.setattr(io, "open", _counted_open(disk, io.open))
        patch.setattr(builtins, "open", _counted_open(disk, builtins.open))
        yield


def _counted(disk: DiskOfAProcess, function: Any) -> Any:
    def counted(*args: Any, **keywords: Any) -> Any:
        disk.change()
        return function(*args, **keywords)

    return counted


def _counted_open(disk: DiskOfAProcess, function: Any) -> Any:
    def opened(file: Any, mode: str = "r", *args: Any, **keywords: Any) -> Any:
        stream = function(file, mode, *args, **keywords)
        if not set(mode) & set("wax+"):
            return stream
        disk.change()
        write = stream.write

        def written(part: Any) -> int:
            if disk.last is not None and disk.changes >= disk.last:
                # Half of what was to be written is there when the process dies.
                write(bytes(memoryview(part).cast("B"))[: memoryview(part).nbytes // 2])
                stream.flush()
            disk.change()
            return int(write(part))

        return _Writing(stream, written)

    return opened


class _Writing:
    """A file whose `write` is another function."""

    def __init__(self, stream: Any, write: Any) -> None:
        self._stream = stream
        self.write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> _Writing:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
