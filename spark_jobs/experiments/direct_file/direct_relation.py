"""A direct file as the joins see it: pages of any size, and lookups by the sparse index."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spark_jobs.errors import DirectFileError
from spark_jobs.experiments.direct_file.blocks import DirectFile
from spark_jobs.experiments.direct_file.file_format import (
    BLOCK_BYTES,
    KEY_BYTES,
    DirectFileHeader,
    tuple_type,
    unpack_header,
    whole_blocks,
)
from spark_jobs.joins.semi_stream.base import Int64Array, Page

Tuples = NDArray[np.void]

_BYTES_VERIFIED_AT_ONCE = 8 << 20


class DirectRelation:
    """R in a direct file; made by `open_direct_file`. Rows are structured arrays of `key` and `payload`.

    Args:
        file: the direct file.
        header: what stands at its start.
        index: int64, shape (header.index_entries,), its sparse index.
        page_rows: tuples of a page.
    """

    def __init__(self, file: DirectFile, header: DirectFileHeader, index: Int64Array, page_rows: int) -> None:
        if page_rows < 1:
            raise DirectFileError(f"Pages of {page_rows} tuples can't be read: a page has one at least.")
        self.page_rows = page_rows
        self._file = file
        self._header = header
        self._index = index
        self._type = tuple_type(header.tuple_bytes)
        self._fences = self._first_keys_of_pages()

    @property
    def direct(self) -> bool:
        """Whether reads go past the operating system's cache by O_DIRECT, or leave it empty behind them."""
        return self._file.direct

    @property
    def row_count(self) -> int:
        """Tuples of R."""
        return self._header.row_count

    @property
    def page_count(self) -> int:
        """Pages of R; at least one."""
        return max(1, -(-self.row_count // self.page_rows))

    @property
    def tuple_bytes(self) -> int:
        """Memory of one tuple, in bytes."""
        return self._header.tuple_bytes

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs, in bytes: the blocks that it lies in, at an aligned place, and its keys."""
        size = self.page_rows * self.tuple_bytes
        blocks = size if size % BLOCK_BYTES == 0 else whole_blocks(size) + BLOCK_BYTES
        return blocks + BLOCK_BYTES + self.page_rows * KEY_BYTES

    @property
    def page_row_step(self) -> int:
        """Page sizes whose first keys are all in the sparse index are multiples of this many tuples."""
        return self._header.index_rows

    def sample_keys(self, count: int) -> Int64Array:
        """Keys from all over R, ascending, int64, shape (count,) at most; without reading any."""
        places = np.linspace(0, len(self._index) - 1, min(count, len(self._index)))
        return self._index[places.round().astype(np.int64)]

    def with_page_rows(self, page_rows: int) -> DirectRelation:
        """The same file in pages of another size.

        What is not a multiple of the sparse index's distance costs one read of the disk for each page, now.
        """
        return DirectRelation(self._file, self._header, self._index, page_rows)

    def pages_of(self, keys: Int64Array) -> Int64Array:
        """The page on which each key is or would be, int64, shape (n,). O(n log pages)."""
        return np.searchsorted(self._fences, keys, side="right").astype(np.int64, copy=False)

    def keys_of(self, rows: Int64Array) -> Int64Array:
        """The keys of the tuples at these places in key order, int64, shape (n,). One read of the disk for each."""
        keys = [self._read_tuples(row, 1)["key"] for row in rows.tolist()]
        return np.concatenate([np.empty(0, np.int64), *keys])

    def read_page(self, number: int) -> Page:
        """Read one page: one access to the disk.

        Raises:
            DirectFileError: the disk fails, or the file was truncated.
        """
        first = number * self.page_rows
        return self._page(first, max(0, min(self.page_rows, self.row_count - first)))

    def lookup(self, keys: Int64Array, ids: Int64Array) -> Page:
        """Read the tuples with these keys, int64 (n,), distinct: one access to the disk for each run of tuples
        between two keys of the sparse index that any of them falls on, in the order of the file.
        """
        wanted = np.sort(keys)
        runs = self._index.searchsorted(wanted, side="right") - 1
        found: list[Tuples] = []
        start = 0
        for run, its_keys in groupby(runs.tolist()):
            stop = start + sum(1 for _ in its_keys)
            if run >= 0:  # R begins with the first key of run 0
                found.append(self._find(wanted[start:stop], run))
            start = stop
        rows = self._concatenated(found)
        found_keys = np.ascontiguousarray(rows["key"])
        return Page(found_keys, rows, rows.nbytes + found_keys.nbytes)

    def gather(self, parts: Sequence[tuple[Tuples, Int64Array]]) -> Tuples:
        """Copy tuples out of pages: those at the given positions, part after part; at least one part."""
        return self._concatenated([rows[positions] for rows, positions in parts])

    def verify(self) -> None:
        """Read all tuples and compare them with their checksum and with the order of their keys.

        Raises:
            DirectFileError: a tuple is not what was written.
        """
        checksum = 0
        for tuples in self._all_tuples():
            checksum = zlib.crc32(tuples.view(np.uint8).data, checksum)
        if checksum != self._header.tuples_checksum:
            raise DirectFileError(
                "The tuples of the direct file do not fit their checksum: the file is damaged. Write it again."
            )

    def close(self) -> None:
        """Close the file, for all page sizes of it."""
        self._file.close()

    def _first_keys_of_pages(self) -> Int64Array:
        """First keys of pages 1 and up, int64, shape (page_count - 1,)."""
        if self.page_rows % self._header.index_rows == 0:
            step = self.page_rows // self._header.index_rows
            return np.ascontiguousarray(self._index[step::step])
        return self.keys_of(np.arange(self.page_rows, self.row_count, self.page_rows))

    def _read_tuples(self, first: int, count: int) -> Tuples:
        offset = self._header.tuples_offset + first * self.tuple_bytes
        return self._file.read(offset, count * self.tuple_bytes).view(self._type)

    def _page(self, first: int, count: int) -> Page:
        rows = self._read_tuples(first, count) if count else np.empty(0, self._type)
        keys = np.ascontiguousarray(rows["key"])
        blocks = whole_blocks(count * self.tuple_bytes)
        return Page(keys, rows, blocks + keys.nbytes)

    def _find(self, wanted: Int64Array, run: int) -> Tuples:
        """The tuples with the wanted keys, all of which can only be in this run."""
        first = run * self._header.index_rows
        tuples = self._read_tuples(first, min(self._header.index_rows, self.row_count - first))
        keys = tuples["key"]
        places = keys.searchsorted(wanted, side="right") - 1  # 0 at least: the run begins with its first
        return tuples[places[keys[places] == wanted]]

    def _concatenated(self, parts: Sequence[Tuples]) -> Tuples:
        """All parts, one after the other. Numpy would compare the fields of each part with all others'."""
        if len(parts) == 1:
            return parts[0]
        as_bytes = np.dtype((np.void, self.tuple_bytes))
        return np.concatenate([np.empty(0, as_bytes), *(part.view(as_bytes) for part in parts)]).view(self._type)

    def _all_tuples(self) -> Iterator[Tuples]:
        step = max(1, _BYTES_VERIFIED_AT_ONCE // self.tuple_bytes)
        for first in range(0, self.row_count, step):
            yield self._read_tuples(first, min(step, self.row_count - first))


def open_direct_file(path: str | Path, page_rows: int, *, direct: bool | None = None) -> DirectRelation:
    """Open a direct file, whose header and sparse index are checked.

    Args:
        path: the file.
        page_rows: tuples of a page.
        direct: True insists on O_DIRECT; False reads through the operating system's cache, which is emptied behind
            every read; None takes O_DIRECT where the file system has it. `direct` of the result says which it is.

    Raises:
        DirectFileError: no such file; it is no direct file, has another version, is truncated, or its header or index
            is damaged; or O_DIRECT was insisted on and is refused.
    """
    file = DirectFile(str(path), direct)
    if file.size < BLOCK_BYTES:
        raise DirectFileError(
            f"{path} has {file.size:,} bytes: too few for the header of a direct file. Write it again."
        )
    header = unpack_header(file.read(0, BLOCK_BYTES).tobytes(), str(path))
    if file.size != header.file_bytes:
        raise DirectFileError(
            f"{path} has {file.size:,} bytes, but its header says {header.file_bytes:,}: the file is truncated "
            "or damaged. Write it again."
        )
    index = file.read(header.index_offset, header.index_entries * KEY_BYTES)
    if zlib.crc32(index.data) != header.index_checksum:
        raise DirectFileError(f"The index of {path} does not fit its checksum: the file is damaged. Write it again.")
    return DirectRelation(file, header, index.view(np.int64), page_rows)
