"""Reads slices of a source, of whatever kind it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.definition import PipelineDefinition, Source
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.kind import ReadsSlices, SourceStream
from spark_jobs.source.kinds import kind_of
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.source.slices import SourceSlice


@dataclass(frozen=True)
class SliceReader:
    """Reads slices of one source; travels inside pickled tasks only, as its parts do.

    Attributes:
        decoder: of the source's records.
        read: reads slices of the source's kind.
    """

    decoder: RecordDecoder
    read: ReadsSlices

    @classmethod
    def of(cls, source: Source, pipeline: str, stream: str | None = None) -> SliceReader:
        """The reader of a pipeline's source, with its connections as the environment has them.

        Args:
            source: the source.
            pipeline: the pipeline's name.
            stream: the stream's; None: the pipeline has one only.

        Raises:
            PipelineDefinitionError: the environment lacks a connection, or one can't be understood.
        """
        return cls(RecordDecoder.of(source), kind_of(source).reader(source, pipeline, stream))

    @classmethod
    def of_stream(cls, stream: SourceStream) -> SliceReader:
        """That of one stream; raises as `of`."""
        return cls.of(stream.source, stream.pipeline, stream.name)

    @classmethod
    def of_streams(cls, definition: PipelineDefinition) -> dict[str, SliceReader]:
        """Those of a pipeline's streams, by name; raises as `of`."""
        return {name: cls.of(source, definition.name, name or None) for name, source in definition.streams.items()}

    @property
    def source(self) -> Source:
        """What it reads."""
        return self.decoder.source

    def get_ready(self) -> None:
        """Have in this process what takes time, before the first records come."""
        self.read.get_ready()

    def __call__(self, piece: SourceSlice) -> Iterator[Arrivals]:
        """Read a slice; raises as `ReadsSlices`."""
        return self.read(piece, self.decoder)
