"""What a format of records has to do: decode single records, and those of files.

`spark_jobs.definition.formats` has what definitions say of it. `formats.py` is the table of both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Protocol

import pyarrow as pa

from spark_jobs.definition import Source
from spark_jobs.definition.ddl import StreamType
from spark_jobs.source.records.decoded import Decoded, all_malformed


class Decodes(Protocol):
    """Decodes records; travels inside pickled tasks only: it may hold a password."""

    def __call__(self, records: pa.Array) -> Decoded:
        """The tuples of records.

        Args:
            records: binary or large_binary array without nulls, shape (n,).

        Raises:
            SourceAwayError: what it needs besides, say a registry of schemas, does not answer.
        """


class RecordFormat(ABC):
    """One format of records. It holds nothing, and goes along to tasks.

    Attributes:
        name: as definitions have it.
    """

    name: str

    @abstractmethod
    def decoder(self, source: Source) -> Decodes:
        """What decodes a source's single records, as they arrive or are held.

        Raises:
            PipelineDefinitionError: what it needs besides is not there, or can't be understood.
        """

    def decode_held(self, records: pa.Array, columns: Mapping[str, StreamType]) -> Decoded:
        """Decode records of this format that were held, while the source is of another one by now.

        Args:
            records: shape (n,).
            columns: the source's schema.
        """
        return all_malformed(len(records), f"malformed: the source is not of format {self.name} any more", columns)

    def warnings(self, source: Source) -> Iterator[str]:
        """What `freshet check` tells of a source of this format; raises as `decoder`."""
        self.decoder(source)
        yield from ()


class LineFormat(RecordFormat):
    """A format whose records are lines in files."""

    def has_header(self, source: Source) -> bool:
        """Whether the first line of a file is no record, but says what the others are."""
        return False

    @abstractmethod
    def line_decoder(self, source: Source, header: bytes | None) -> Decodes:
        """What decodes the lines of one file.

        Args:
            source: how records look.
            header: the file's first line, where it is a header.

        Raises:
            MalformedRecordError: the header does not fit the source's schema.
        """


class FileRows(Protocol):
    """The rows of one file."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows, some at a time; the same ones each time."""

    def decode(self, rows: pa.RecordBatch) -> Decoded:
        """The tuples of some of them."""

    def records_of_malformed(self, rows: pa.RecordBatch, decoded: Decoded) -> pa.Array:
        """What is held of each row that could not be decoded; null for others."""


class RowFormat(RecordFormat):
    """A format whose records are rows of a file that is read as a whole."""

    @abstractmethod
    def rows(self, file: BinaryIO, source: Source, name: str) -> FileRows:
        """The rows of a file.

        Args:
            file: its bytes.
            source: how records look.
            name: of the file, for messages.

        Raises:
            UnreadableFileError: it is damaged, or its columns don't fit the schema.
        """
