"""A file of shed stream tuples: what a join that sheds load can't keep up with waits there, first in, first out."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import numpy as np

from spark_jobs.joins.structures.stream_buffer import TupleColumns

_COLUMNS = 3
_TUPLE_BYTES = 8 * _COLUMNS


class ShedFile:
    """A destination of load shedding (joins.semi_stream.load_shedding) on disk: append, and read back from the start.

    A tuple takes 24 bytes: key, page, id. Only what one call brings or takes is in memory. The file is
    emptied whenever all has been read back, so it grows no longer than an overload lasts. It serves one
    run: a file that is there already is overwritten.

    Args:
        path: of the file; its folder must exist.

    Raises:
        OSError: the file can't be written; what `put` was given is then not stored.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self._taken = 0
        self._stored = 0

    def __len__(self) -> int:
        return self._stored - self._taken

    def put(self, tuples: TupleColumns) -> None:
        """Append tuples to the file. O(n)."""
        data = memoryview(np.stack(tuples, axis=1).tobytes())
        self._file.seek(self._stored * _TUPLE_BYTES)
        while data:
            data = data[self._file.write(data) :]
        self._stored += len(tuples.ids)

    def take(self, count: int) -> TupleColumns:
        """Read back up to `count` tuples, those first that have been there longest. O(count)."""
        count = min(count, len(self))
        self._file.seek(self._taken * _TUPLE_BYTES)
        data = b""
        while len(data) < count * _TUPLE_BYTES:
            part = self._file.read(count * _TUPLE_BYTES - len(data))
            if not part:
                raise OSError(
                    f"{self._file.name} is shorter than what was written to it: {len(self)} tuples are missing"
                )
            data += part
        self._taken += count
        if self._taken == self._stored:
            self._file.truncate(0)
            self._taken = self._stored = 0
        return TupleColumns(*np.frombuffer(data, np.int64).reshape(count, _COLUMNS).T.copy())

    def close(self) -> None:
        """Close the file; what is left in it stays there."""
        self._file.close()

    def __enter__(self) -> ShedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
