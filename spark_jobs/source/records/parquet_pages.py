"""How the rows of a Parquet file can be read within a bound of memory, judged by its pages and dictionaries.

A file of some KB may unpack to many GB: a value of a dictionary is stored once and may stand in each row, and a page
may be packed a thousand to one. So nothing is unpacked before each page's header has been looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spark_jobs.byte_sizes import format_bytes
from spark_jobs.columns.jit import kernel
from spark_jobs.errors import UnreadableFileError
from spark_jobs.source.records.parquet_headers import (
    DELTA_BYTE_ARRAY,
    PLAIN,
    PLAIN_DICTIONARY,
    RLE_DICTIONARY,
    Page,
    pages,
)

PIECE_BYTES = 8 << 20
"""Bytes of rows that are read at once, where they are alike."""

_MOST_ROWS = 65_536
_WINDOW_BYTES = 64 << 20  # of rows that are read at once, however unlike they are
_MOST_HELD = 256 << 20  # of pages that one row needs; writers make pages of 1 MB, some of 100 MB
_NUMBERED = frozenset({PLAIN_DICTIONARY, RLE_DICTIONARY})
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_LENGTH_BYTES = 4
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "BROTLI": "brotli", "LZ4": "lz4_raw"}

Int64s = NDArray[np.int64]


class Reading(NamedTuple):
    """How rows are to be read.

    Attributes:
        rows: at once.
        as_dictionary: columns of which values and their places are to be read apart: some values are large, and may
            stand in many rows.
    """

    rows: int
    as_dictionary: list[str]


class _Chunk(NamedTuple):
    """A column's part of a row group.

    Attributes:
        column: its name.
        first_row: of the row group, in the file.
        pages: without the dictionary.
        dictionary: bytes of it; 0: there is none.
        width: of a value of a type of fixed width; 0: of any length.
        longest: bytes of the longest value of the dictionary.
        usual: bytes of one of its values, on average.
    """

    column: str
    first_row: int
    pages: list[Page]
    dictionary: int
    width: int
    longest: int
    usual: int

    @property
    def held(self) -> int:
        """Bytes of it that have to be unpacked at once, at most."""
        return self.dictionary + max((page.unpacked for page in self.pages), default=0)

    @property
    def splits(self) -> bool:
        """Whether arrow can read values and their places apart."""
        return not self.width and all(page.encoding in {PLAIN, *_NUMBERED} for page in self.pages)

    @property
    def size(self) -> int:
        """Bytes of its values, as far as can be told without unpacking all."""
        return sum(
            page.values * self.width or (page.values * self.usual if page.encoding in _NUMBERED else page.unpacked)
            for page in self.pages
        )

    def most_of_value(self, page: Page) -> int:
        """Bytes that any value of a page may have; 0: all of them together have no more than the page."""
        if self.width:
            return self.width
        if page.encoding in _NUMBERED:
            return max(self.longest, 1)
        # The only other encoding that can make more of a page than it holds: values continue their predecessors.
        return page.unpacked if page.encoding == DELTA_BYTE_ARRAY else 0


def planned_reading(
    file: BinaryIO, metadata: pq.FileMetaData, columns: Sequence[str], texts: Sequence[str], name: str
) -> Reading:
    """Plan to read columns of a file. One small read a page, and the dictionaries of texts are unpacked.

    Args:
        file: the Parquet file.
        metadata: its footer.
        columns: names of its columns.
        texts: those of them that hold texts or bytes of any number.
        name: of the file, for messages.

    Raises:
        UnreadableFileError: one row needs more of the file unpacked at once than is allowed.
        ValueError, pyarrow.ArrowException: it is damaged.
    """
    leaves = _leaves(metadata, columns)
    groups = list(_groups(file, metadata, leaves))
    for group in groups:
        _check_held(group, name)
    chunks = [chunk for group in groups for chunk in group]
    budget = max(_WINDOW_BYTES, 2 * max((sum(chunk.held for chunk in group) for group in groups), default=0))
    as_dictionary = _as_dictionary(chunks) & set(texts)
    size = sum(chunk.size for chunk in chunks)
    rows = max(1, min(_MOST_ROWS, PIECE_BYTES * metadata.num_rows // max(size, 1)))
    windows = _Windows(chunks, as_dictionary)
    while rows > 1 and windows.largest(rows) > budget:
        rows //= 2
    return Reading(rows, sorted(as_dictionary))


def _leaves(metadata: pq.FileMetaData, columns: Sequence[str]) -> dict[int, str]:
    """Number of each column that is read -> its name."""
    wanted = set(columns)
    paths = {number: metadata.schema.column(number).path for number in range(metadata.num_columns)}
    return {number: path for number, path in paths.items() if path in wanted}


def _groups(file: BinaryIO, metadata: pq.FileMetaData, leaves: dict[int, str]) -> Iterator[list[_Chunk]]:
    left = file.seek(0, 2)
    first_row = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = []
        for column in leaves:
            stored = group.column(column)
            left -= max(stored.total_compressed_size, 0)
            if left < 0:  # else a small file could have the same pages read any number of times
                raise ValueError("its columns overlap: together they are larger than the file")
            chunks.append(_chunk(file, stored, metadata.schema.column(column), first_row))
        yield chunks
        first_row += group.num_rows


def _chunk(file: BinaryIO, stored: pq.ColumnChunkMetaData, column: pq.ColumnSchema, first_row: int) -> _Chunk:
    first = stored.data_page_offset
    if stored.has_dictionary_page and stored.dictionary_page_offset:
        first = min(first, stored.dictionary_page_offset)
    found = list(pages(file, first, first + stored.total_compressed_size, stored.num_values))
    fixed = column.physical_type == "FIXED_LEN_BYTE_ARRAY"
    width = column.length if fixed else _WIDTHS.get(column.physical_type, 0)
    dictionaries = [page for page in found if page.is_dictionary]
    longest = usual = 0
    for page in dictionaries:
        least = width or _LENGTH_BYTES
        if page.values * least > page.unpacked:
            raise ValueError(f"a dictionary of {column.path} has {page.values} values in {page.unpacked} bytes")
        if not width and page.unpacked <= _MOST_HELD:
            longest = max(longest, _longest(file, page, stored.compression))
            usual = page.unpacked // max(page.values, 1)
    data = [page for page in found if not page.is_dictionary]
    size = max((page.unpacked for page in dictionaries), default=0)
    return _Chunk(column.path, first_row, data, size, width, longest, usual)


def _longest(file: BinaryIO, page: Page, compression: str) -> int:
    """Bytes of the longest value of a dictionary; of one that can't be unpacked here, as many as it may have."""
    if page.unpacked * _MOST_ROWS <= _WINDOW_BYTES:
        return page.unpacked  # no matter
    file.seek(page.content)
    content = file.read(page.packed)
    if compression in _CODECS:
        try:
            content = pa.Codec(_CODECS[compression]).decompress(content, page.unpacked, asbytes=True)
        except (pa.ArrowException, OSError):  # the former LZ4, which pyarrow keeps for its own reader
            return page.unpacked
    return min(int(_longest_value(np.frombuffer(content, np.uint8), page.values)), page.unpacked)


@kernel
def _longest_value(data: NDArray[np.uint8], count: int) -> int:
    """The length of the longest of `count` values, each behind its length of four bytes, lowest first."""
    position, longest = 0, 0
    for _ in range(count):
        if position + 4 > len(data):
            break
        length = 0
        for byte in range(4):
            length |= int(data[position + byte]) << (8 * byte)
        longest = max(longest, length)
        position += 4 + length
    return longest


def _check_held(group: Sequence[_Chunk], name: str) -> None:
    held = sum(chunk.held for chunk in group)
    if held <= _MOST_HELD:
        return
    largest = max(group, key=lambda chunk: chunk.held)
    raise UnreadableFileError(
        f"{name} needs {format_bytes(held)} unpacked to read a single row, most of it the pages and the dictionary of "
        f"column {largest.column} ({format_bytes(largest.held)}). Allowed: {format_bytes(_MOST_HELD)}. Write it with "
        "smaller pages: 1 MB is usual."
    )


def _as_dictionary(chunks: Sequence[_Chunk]) -> set[str]:
    large = {chunk.column for chunk in chunks if not chunk.width and chunk.longest * _MOST_ROWS > _WINDOW_BYTES}
    return large - {chunk.column for chunk in chunks if not chunk.splits}


class _Windows:
    """How much any window of n rows may be, of those that begin at a multiple of n.

    Args:
        chunks: of all columns and row groups.
        as_dictionary: columns of which a place is read for each row, and each value once.
    """

    def __init__(self, chunks: Sequence[_Chunk], as_dictionary: set[str]) -> None:
        rows = []
        for chunk in chunks:
            first = chunk.first_row
            for page in chunk.pages:
                of_value = chunk.most_of_value(page)
                if chunk.column in as_dictionary and of_value:
                    of_value = _LENGTH_BYTES
                if page.values:
                    rows.append((first, page.values, 0 if of_value else page.unpacked, of_value))
                first += page.values
        first_rows, self._counts, self._bytes, self._of_values = np.array(rows, np.int64).reshape(-1, 4).T
        self._first_rows: Int64s = first_rows

    def largest(self, rows: int) -> int:
        """Bytes of the largest window of so many rows, at most. O(p log p) for p pages."""
        begin = self._first_rows // rows
        end = (self._first_rows + self._counts - 1) // rows + 1
        sizes = self._bytes + np.minimum(self._counts, rows) * self._of_values
        order = np.argsort(np.concatenate([end, begin]), kind="stable")  # what ends goes before what begins
        return int(np.cumsum(np.concatenate([-sizes, sizes])[order]).max(initial=0))
