"""A slice of a file of JSON or CSV lines, compressed or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.definition import Source
from spark_jobs.errors import SourceRangeGoneError, UnreadableFileError
from spark_jobs.source.checked_whole import checked_whole
from spark_jobs.source.file_content import shown_path, unpacked
from spark_jobs.source.file_names import compression_of
from spark_jobs.source.record_lines import Block, line_blocks
from spark_jobs.source.records.csv_blocks import CsvDecoder
from spark_jobs.source.records.csv_layout import CsvLayout
from spark_jobs.source.records.damage import damage_told
from spark_jobs.source.records.decoded import Decoded, MalformedRecordError
from spark_jobs.source.records.json_blocks import decode_json
from spark_jobs.source.records.lines import Lines, cut_lines
from spark_jobs.source.records.utf8 import as_text
from spark_jobs.source.slices import FileSlice


class LineFile:
    """The lines of a slice, and their decoder.

    Args:
        piece: the slice.
        source: how records look.
        file: the slice's file.

    Raises:
        UnreadableFileError: the file's header lacks a column, or has it twice, or the file is damaged there.
    """

    def __init__(self, piece: FileSlice, source: Source, file: BinaryIO) -> None:
        self._piece = piece
        self._source = source
        self._file = file
        self._compression = compression_of(piece.path)
        self._header: bytes | None = None
        self._header_position = -1
        self._csv: CsvDecoder | None = None
        if source.format == "csv":
            self._csv = self._csv_decoder(CsvLayout.from_options(source.options))

    def blocks(self) -> Iterator[Block]:
        """The slice in blocks of whole lines.

        Raises:
            UnreadableFileError: a compressed file is damaged; before the first block.
            SourceRangeGoneError: the file ends before the slice does.
        """
        if self._compression is None:
            return line_blocks(_SliceReader(self._piece, self._file).read, self._piece.first)
        return checked_whole(self._unpacked, lambda block: len(block.content))

    def records_of(self, block: Block) -> Lines:
        """The records in a block, which the header is not."""
        lines = cut_lines(*block)
        if self._header is None or not len(lines.positions) or lines.positions[0] != self._header_position:
            return lines
        return Lines(lines.records[1:], lines.positions[1:])

    def decode(self, records: pa.Array) -> Decoded:
        """The tuples of records."""
        if self._csv is None:
            return decode_json(records, self._source.columns)
        return self._csv.decode(records)

    def with_header(self, records: pa.Array) -> pa.Array:
        """The records, each with the file's header before it where there is one."""
        if self._header is None:
            return records
        return pc.binary_join_element_wise(pa.scalar(self._header, pa.binary()), records, pa.scalar(b"\n", pa.binary()))

    def _unpacked(self) -> Iterator[Block]:
        assert self._compression is not None
        self._file.seek(0)
        with damage_told(shown_path(self._piece)):
            yield from line_blocks(unpacked(self._file, self._compression).read, 0)

    def _csv_decoder(self, layout: CsvLayout) -> CsvDecoder:
        columns = self._source.columns
        if not layout.header:
            return CsvDecoder(columns, layout, None)
        if self._compression is None:
            self._file.seek(0)
            beginning = line_blocks(self._file.read, 0)
        else:
            beginning = self._unpacked()
        for block in beginning:
            lines = cut_lines(*block)
            if len(lines.records):
                self._header, self._header_position = lines.records[0].as_py(), int(lines.positions[0])
                break
        if self._header is None:
            return CsvDecoder(columns, layout, None)  # of a file without lines
        try:
            return CsvDecoder(columns, layout, [field.text for field in layout.fields(as_text(self._header))])
        except MalformedRecordError as error:
            raise UnreadableFileError(f"{shown_path(self._piece)}: {error}") from None


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
