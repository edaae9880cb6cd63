"""What a kind of source has to do: plan what is read, read it in tasks, read it again, and look at it beforehand.

`spark_jobs.definition.kinds` has what is known of it without looking (its keys, columns, identity); that part is apart
because Airflow reads definitions whenever it parses a DAG file, and must not load what reads sources. `kinds.py` is the
table of both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from spark_jobs.definition import PipelineDefinition, Source
from spark_jobs.definition.joined_tuple import STREAM_SEPARATOR
from spark_jobs.errors import PipelineDefinitionError, SourceAwayError
from spark_jobs.settings import Home
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.records.formats import RECORD_FORMATS
from spark_jobs.source.records.record_decoder import RecordDecoder

if TYPE_CHECKING:
    from psycopg2 import extensions

    from spark_jobs.ledger.partition_positions import PartitionPositions
    from spark_jobs.ledger.source_ranges import SourceRange
    from spark_jobs.source.landed_source import RemovesLoaded, SingleSource
    from spark_jobs.source.landed_units import Landing
    from spark_jobs.source.slices import SourceSlice


@dataclass(frozen=True)
class SourceStream:
    """A source, as a pipeline's stream reads it.

    Attributes:
        pipeline: the pipeline's name.
        source: what is read.
        home: the installation.
        name: the stream's; None: the pipeline has one only.
    """

    pipeline: str
    source: Source
    home: Home
    name: str | None = None

    @classmethod
    def all_of(cls, definition: PipelineDefinition, home: Home) -> list[SourceStream]:
        """The streams of a pipeline, in its order."""
        return [cls(definition.name, source, home, name or None) for name, source in definition.streams.items()]

    @property
    def prefix(self) -> str:
        """How the ledger's names of its units begin."""
        return "" if self.name is None else self.name + STREAM_SEPARATOR


class ReadsSlices(Protocol):
    """Reads slices of one kind; travels inside pickled tasks only: it may hold secrets."""

    def get_ready(self) -> None:
        """Have in this process what takes time, before the first records come."""

    def __call__(self, piece: Any, decoder: RecordDecoder) -> Iterator[Arrivals]:
        """Read a slice of the kind.

        Raises:
            UnreadableFileError: it can't be read, and never will be.
            SourceRangeGoneError: it is not there any more, or not what was planned.
            SourceAwayError, OSError: it can't be read now.
        """


class ReadsAgain(ABC):
    """Reads ranges of a source again, which batches have read: state is rebuilt of them."""

    @abstractmethod
    def piece(self, planned: SourceRange) -> tuple[str, SourceSlice]:
        """A range, whole, and what it is called in messages.

        Args:
            planned: as the ledger has it, its unit without the stream's name.

        Raises:
            FreshetError: it is not there any more; the message says why.
        """


@dataclass(frozen=True)
class SourceNote:
    """What a look at a source found.

    Attributes:
        text: what is told.
        is_problem: whether it keeps the stream from loading.
    """

    text: str
    is_problem: bool = False


class SourceKind(ABC):
    """One kind of source. It holds nothing: what it needs of a source is given."""

    @abstractmethod
    def reader(self, source: Source, pipeline: str, stream: str | None) -> ReadsSlices:
        """What reads a source's slices in tasks, with its connections as this process's environment has them.

        Args:
            source: the source.
            pipeline: the pipeline's name.
            stream: the stream's; None: the pipeline has one only.

        Raises:
            PipelineDefinitionError: the environment lacks a connection, or one can't be understood.
        """

    @abstractmethod
    def landed(self, stream: SourceStream, positions: PartitionPositions) -> SingleSource:
        """What plans the reading of a stream.

        Args:
            stream: what is read.
            positions: of logs, how far each has been read.
        """

    def removal(self, stream: SourceStream) -> RemovesLoaded | None:
        """What removes what is loaded of a stream; None: it stays."""
        return None

    @abstractmethod
    def again(self, stream: SourceStream) -> ReadsAgain:
        """What reads ranges of a stream again."""

    @abstractmethod
    def landing(self, stream: SourceStream, cursor: extensions.cursor) -> Landing:
        """What the source holds now, and what the ledger says of it: the proof compares both.

        Args:
            stream: what is read.
            cursor: in the proof's transaction.
        """

    def check(self, stream: SourceStream, name: str) -> Iterator[SourceNote]:
        """What can be told of a source before its stream starts; changes nothing.

        Args:
            stream: what would be read.
            name: how messages call it.
        """
        try:
            yield from map(SourceNote, RECORD_FORMATS[stream.source.format].warnings(stream.source))
        except (PipelineDefinitionError, SourceAwayError) as error:
            yield SourceNote(str(error), is_problem=True)
        yield from self.look(stream, name)

    @abstractmethod
    def look(self, stream: SourceStream, name: str) -> Iterator[SourceNote]:
        """What is there to be read, and what keeps it from being read; arguments as of `check`."""

    def with_columns(
        self, values: pa.Table, units: pa.ChunkedArray, positions: pa.ChunkedArray, times: pa.ChunkedArray
    ) -> pa.Table:
        """Values of records that were held, with the columns that the kind adds; here: it adds none.

        Args:
            values: shape (n,).
            units: where each lies, as the ledger calls it, be it of one of several streams, shape (n,); null, or of
                another kind of source: not known.
            positions: int64, shape (n,).
            times: when they arrived, shape (n,).
        """
        return values

    def is_gone(self, stream: SourceStream, unit: str) -> bool:
        """Whether a unit that can't be read is not there any more, so that it would have to land again.

        Args:
            stream: of which it is.
            unit: its name in the ledger, without the stream's.
        """
        return False
