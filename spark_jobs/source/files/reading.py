"""Reads a slice of a landed file: bytes to stream tuples, in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.definition import Source
from spark_jobs.errors import SourceRangeGoneError, UnreadableFileError
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.files.bounds import FileBounds
from spark_jobs.source.files.damage import checked_whole, damage_told
from spark_jobs.source.files.names import compression_of
from spark_jobs.source.files.planned_file import FileSlice, planned_file, shown_path, unpacked
from spark_jobs.source.record_lines import Block, Lines, cut_lines, line_blocks
from spark_jobs.source.records.decoded import MalformedRecordError
from spark_jobs.source.records.format import LineFormat, RowFormat
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.source.sparing import arrivals_of, decode_sparing

# At once: a block of lines of a byte each has millions, and each that is rejected costs some hundred bytes.
_MOST_RECORDS = 1 << 17


def read_slice(piece: FileSlice, decoder: RecordDecoder) -> Iterator[Arrivals]:
    """Read a slice. O(bytes); in memory are some blocks of it, however large the file.

    Args:
        piece: a slice of a file of the source's format.
        decoder: of the source.

    Raises:
        UnreadableFileError: the file is damaged or not of the format, or lacks what the schema needs, or is poison as
            a whole; always before the first tuple.
        SourceRangeGoneError: the file is missing, or not the one that was planned; also after the last tuple.
        OSError: the machine can't read it.
    """
    for span in piece.poison:
        if span.is_of_file:
            raise UnreadableFileError(f"Reading {shown_path(piece)} ended the process that read it ({span.how}).")
    with planned_file(piece) as file:
        used = decoder.format
        if isinstance(used, RowFormat):
            yield from _rows(piece, used, decoder.source, file)
        else:
            assert isinstance(used, LineFormat)
            yield from _lines(piece, used, decoder.source, file)


def _lines(piece: FileSlice, used: LineFormat, source: Source, file: BinaryIO) -> Iterator[Arrivals]:
    if compression_of(piece.path) is None:
        lines = _LineFile(piece, used, source, file, None)
        for records, positions in lines.parts():
            yield lines.arrivals(records, positions)
        return
    bounds = FileBounds.of(piece, source)
    packed = _LineFile(piece, used, source, file, bounds)

    def read(is_read_again: Callable[[], bool] | None) -> Iterator[Arrivals]:
        tally = bounds.tally(source, sizes=False)
        for records, positions in packed.parts():
            glance = is_read_again is not None and is_read_again()
            first, count = tally.sample(len(records)) if glance else (0, len(records))
            some = packed.arrivals(records.slice(first, count), positions[first : first + count])
            if is_read_again is not None:
                tally.add(some, len(records))
            yield some

    yield from checked_whole(read, lambda some: some.nbytes)


def _rows(piece: FileSlice, used: RowFormat, source: Source, file: BinaryIO) -> Iterator[Arrivals]:
    bounds = FileBounds.of(piece, source)
    rows = used.rows(file, source, shown_path(piece))

    def read(is_read_again: Callable[[], bool] | None) -> Iterator[Arrivals]:
        tally = bounds.tally(source, sizes=True)
        position = 0
        for batch in rows.batches():
            glance = is_read_again is not None and is_read_again()
            first, count = tally.sample(batch.num_rows) if glance else (0, batch.num_rows)
            some = batch.slice(first, count)
            decoded = rows.decode(some)
            positions = np.arange(position + first, position + first + count)
            arrivals = arrivals_of(
                piece, decoded, rows.records_of_malformed(some, decoded), positions, piece.modified_ns
            )
            if is_read_again is not None:
                tally.add(arrivals, batch.num_rows)
            position += batch.num_rows
            yield arrivals

    yield from checked_whole(read, lambda some: some.nbytes)


class _LineFile:
    """The lines of a slice, and their decoder.

    Args:
        piece: the slice.
        used: the format of its lines.
        source: how records look.
        file: the slice's file.
        bounds: of a compressed file.

    Raises:
        UnreadableFileError: the file's header lacks a column, or has it twice, or the file is damaged there.
    """

    def __init__(
        self, piece: FileSlice, used: LineFormat, source: Source, file: BinaryIO, bounds: FileBounds | None
    ) -> None:
        self._piece = piece
        self._source = source
        self._file = file
        self._bounds = bounds
        self._header: bytes | None = None
        self._header_position = -1
        if used.has_header(source):
            self._find_header()
        try:
            self._decode = used.line_decoder(source, self._header)
        except MalformedRecordError as error:
            raise UnreadableFileError(f"{shown_path(piece)}: {error}") from None

    def parts(self) -> Iterator[Lines]:
        """The records of the slice, some at a time; the header is none.

        Raises:
            UnreadableFileError: a compressed file is damaged, or unpacks to too much.
            SourceRangeGoneError: the file ends before the slice does.
        """
        if self._bounds is None:
            blocks = line_blocks(_SliceReader(self._piece, self._file).read, self._piece.first)
        else:
            blocks = self._unpacked(self._bounds)
        for block in blocks:
            records, positions = self._records_of(block)
            for first in range(0, len(records), _MOST_RECORDS):
                yield Lines(records.slice(first, _MOST_RECORDS), positions[first : first + _MOST_RECORDS])

    def arrivals(self, records: pa.Array, positions: NDArray[np.int64]) -> Arrivals:
        """The tuples of records."""
        decoded = decode_sparing(self._piece.poison, records, positions, self._source.columns, self._decode)
        return arrivals_of(self._piece, decoded, self._with_header(records), positions, self._piece.modified_ns)

    def _records_of(self, block: Block) -> Lines:
        """The records in a block, which the header is not."""
        lines = cut_lines(*block)
        if self._header is None or not len(lines.positions) or lines.positions[0] != self._header_position:
            return lines
        return Lines(lines.records[1:], lines.positions[1:])

    def _with_header(self, records: pa.Array) -> pa.Array:
        """The records, each with the file's header before it where there is one."""
        if self._header is None:
            return records
        return pc.binary_join_element_wise(pa.scalar(self._header, pa.binary()), records, pa.scalar(b"\n", pa.binary()))

    def _unpacked(self, bounds: FileBounds) -> Iterator[Block]:
        compression = compression_of(self._piece.path)
        assert compression is not None
        self._file.seek(0)
        with damage_told(shown_path(self._piece)):
            yield from line_blocks(bounds.reading(unpacked(self._file, compression).read), 0)

    def _find_header(self) -> None:
        if self._bounds is None:
            self._file.seek(0)
            beginning = line_blocks(self._file.read, 0)
        else:
            beginning = self._unpacked(self._bounds)
        for block in beginning:
            lines = cut_lines(*block)
            if len(lines.records):
                self._header, self._header_position = lines.records[0].as_py(), int(lines.positions[0])
                return


class _SliceReader:
    """Reads the bytes of a slice, no more and no fewer."""

    def __init__(self, piece: FileSlice, file: BinaryIO) -> None:
        self._piece = piece
        self._file = file
        self._left = piece.last - piece.first
        file.seek(piece.first)

    def read(self, most: int) -> bytes:
        """The next bytes; none at the slice's end."""
        if not self._left:
            return b""
        content = self._file.read(min(most, self._left))
        if not content:
            raise SourceRangeGoneError(
                f"{shown_path(self._piece)} ends {self._left} bytes before {self._piece.last}, the end of the range."
            )
        self._left -= len(content)
        return content
