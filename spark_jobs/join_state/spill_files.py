"""Extents of tuples in files: one file each, never changed, every page of it checksummed.

    0     header, 64 bytes      magic, format, columns, tuples, tuples of a page, checksum of the header
    64    page 0                columns x tuples of a page, int64; checksum
    ...   page 1                the last page is filled up with zeros

All numbers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spark_jobs.errors import StateDamagedError

Int64Array = NDArray[np.int64]

STATE_ADVICE = (
    "The join's state can't go on without it. `freshet rebuild-state PIPELINE` makes it anew from the landed files; or "
    "bring the folder back as it was, from a copy."
)
_MAGIC = b"FRSHEXT\0"
_FORMAT = 1
_HEADER_BYTES = 64
_FIELDS = struct.Struct("<8sIIQQ")  # magic, format, columns, tuples, tuples of a page
_CHECKSUM = struct.Struct("<Q")
_CHECKSUM_BYTES = _CHECKSUM.size
_SUFFIX = ".extent"


class SpillFiles:
    """A `SpillStore` in a folder of its own.

    No version of a state names them: they are of use to the process that wrote them, and to no other.

    Args:
        folder: where the files are; made if it is not there.
        page_bytes: of a page, checksum included; the least that is read or written at once.
    """

    def __init__(self, folder: Path, page_bytes: int = 65_536) -> None:
        self.folder = folder
        self.page_bytes = page_bytes
        self.pages_written = 0
        self.pages_read = 0
        self._next = 0
        self._live: dict[int, int] = {}  # For each extent its columns.
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, columns: Int64Array) -> int:
        """Write an extent: int64, shape (c, n), n > 0. Its number. O(n)."""
        width, count = columns.shape
        rows = self._page_rows(width)
        pages = -(-count // rows)
        filled = np.zeros((width, pages * rows), "<i8")
        filled[:, :count] = columns
        header = _FIELDS.pack(_MAGIC, _FORMAT, width, count, rows)
        path = self._path(self._next)
        with path.open("wb") as file:
            file.write(_sealed(header))
            for page in np.ascontiguousarray(filled.reshape(width, pages, rows).transpose(1, 0, 2)):
                file.write(page.data)
                file.write(_CHECKSUM.pack(zlib.crc32(page.data)))
        self._live[self._next] = width
        self.pages_written += pages
        self._next += 1
        return self._next - 1

    def read(self, extent: int, first: int = 0, count: int | None = None) -> Int64Array:
        """Read tuples of an extent, int64, shape (c, count): the pages that they lie on.

        Raises:
            StateDamagedError: the file is missing, or not as it was written.
        """
        path, width = self._path(extent), self._live[extent]
        rows = self._page_rows(width)
        stride = width * rows * 8 + _CHECKSUM_BYTES
        try:
            with path.open("rb") as file:
                header = file.read(_HEADER_BYTES)
                held = _tuples_told(path, header, width, rows)
                until = held if count is None else first + count
                first_page, until_page = first // rows, -(-until // rows)
                file.seek(_HEADER_BYTES + first_page * stride)
                content = file.read((until_page - first_page) * stride)
        except OSError as error:
            raise _damaged(path, str(error.strerror)) from error
        if len(content) != (until_page - first_page) * stride:
            raise _damaged(path, "it was cut off")
        pages = np.frombuffer(content, np.uint8).reshape(-1, stride)
        for number, page in enumerate(pages, start=first_page):
            told = _CHECKSUM.unpack_from(page[-_CHECKSUM_BYTES:].tobytes())
            if told != (zlib.crc32(page[:-_CHECKSUM_BYTES].data),):
                raise _damaged(path, f"page {number} does not fit its checksum")
        self.pages_read += len(pages)
        tuples = np.ascontiguousarray(pages[:, :-_CHECKSUM_BYTES]).view("<i8").reshape(-1, width, rows)
        offset = first_page * rows
        return np.array(tuples.transpose(1, 0, 2).reshape(width, -1)[:, first - offset : until - offset])

    def remove(self, extent: int) -> None:
        """Delete an extent."""
        del self._live[extent]
        self._path(extent).unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete all files, also those that a process left which was killed."""
        self._live.clear()
        for path in self.folder.iterdir():
            path.unlink(missing_ok=True)

    def _page_rows(self, width: int) -> int:
        return max(1, (self.page_bytes - _CHECKSUM_BYTES) // (8 * width))

    def _path(self, extent: int) -> Path:
        return self.folder / f"{extent:012}{_SUFFIX}"


def _tuples_told(path: Path, header: bytes, width: int, rows: int) -> int:
    """How many tuples a file says that it holds."""
    if len(header) < _HEADER_BYTES:
        raise _damaged(path, "it was cut off")
    fields = header[: _FIELDS.size]
    if header != _sealed(fields):
        raise _damaged(path, "its header does not fit its checksum")
    magic, format_, columns, tuples, page_rows = _FIELDS.unpack(fields)
    if (magic, format_, columns, page_rows) != (_MAGIC, _FORMAT, width, rows):
        raise _damaged(path, "it is another kind of file, or has pages of another size")
    return int(tuples)


def _sealed(fields: bytes) -> bytes:
    """A header: its fields, their checksum, zeros."""
    return (fields + _CHECKSUM.pack(zlib.crc32(fields))).ljust(_HEADER_BYTES, b"\0")


def _damaged(path: Path, what: str) -> StateDamagedError:
    return StateDamagedError(f"{path} is refused: {what}. {STATE_ADVICE}")
