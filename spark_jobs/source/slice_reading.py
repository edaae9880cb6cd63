"""Reads slices of a source, of whatever kind it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.definition import PipelineDefinition, Source
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.files.planned_file import FileSlice
from spark_jobs.source.files.reading import read_slice
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.kafka.partition import OffsetSlice
from spark_jobs.source.kafka.reading import read_offsets
from spark_jobs.source.records.record_decoder import RecordDecoder


@dataclass(frozen=True)
class SliceReader:
    """Reads slices of one source; travels inside pickled tasks only, as its parts do.

    Attributes:
        decoder: of the source's records.
        client: of its topic; None: its records are in files.
    """

    decoder: RecordDecoder
    client: KafkaClient | None

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
        client = None if source.kafka is None else KafkaClient.of(source.kafka, pipeline, stream)
        return cls(RecordDecoder.of(source), client)

    @classmethod
    def of_streams(cls, definition: PipelineDefinition) -> dict[str, SliceReader]:
        """Those of a pipeline's streams, by name; raises as `of`."""
        return {name: cls.of(source, definition.name, name) for name, source in (definition.streams or {}).items()}

    @property
    def source(self) -> Source:
        """What it reads."""
        return self.decoder.source

    def get_ready(self) -> None:
        """Have in this process what takes time, before the first records come."""
        if self.client is not None:
            self.client.get_ready()

    def __call__(self, piece: FileSlice | OffsetSlice) -> Iterator[Arrivals]:
        """Read a slice; raises as `read_slice` and `read_offsets`."""
        if isinstance(piece, FileSlice):
            return read_slice(piece, self.source)
        assert self.client is not None
        return read_offsets(piece, self.decoder, self.client)
