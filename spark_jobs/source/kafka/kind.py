"""Topics of Kafka as a kind of source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from psycopg2 import extensions

from spark_jobs.definition import Source
from spark_jobs.errors import FreshetError, PipelineDefinitionError, SourceAwayError
from spark_jobs.ledger.partition_positions import PartitionPositions
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.kafka.landing import TopicLanding
from spark_jobs.source.kafka.offsets import TopicOffsets
from spark_jobs.source.kafka.partition import OffsetSlice, Partition, with_place
from spark_jobs.source.kafka.reading import read_offsets
from spark_jobs.source.kafka.topic import KafkaTopic
from spark_jobs.source.kind import ReadsAgain, SourceKind, SourceNote, SourceStream
from spark_jobs.source.records.record_decoder import RecordDecoder


class KafkaTopics(SourceKind):
    """Records of topics."""

    def reader(self, source: Source, pipeline: str, stream: str | None) -> TopicReader:
        """As of `SourceKind`."""
        return TopicReader(KafkaClient.of(source.settings, pipeline, stream))

    def landed(self, stream: SourceStream, positions: PartitionPositions) -> KafkaTopic:
        """As of `SourceKind`."""
        return KafkaTopic(stream.source.settings, KafkaClient.of_stream(stream), positions)

    def again(self, stream: SourceStream) -> OffsetsAgain:
        """As of `SourceKind`."""
        return OffsetsAgain(KafkaClient.of_stream(stream))

    def landing(self, stream: SourceStream, cursor: extensions.cursor) -> TopicLanding:
        """As of `SourceKind`."""
        return TopicLanding(stream, cursor)

    def with_columns(
        self, values: pa.Table, units: pa.ChunkedArray, positions: pa.ChunkedArray, times: pa.ChunkedArray
    ) -> pa.Table:
        """As of `SourceKind`: topic, partition, offset and time."""
        return with_place(values, units, positions, times)

    def look(self, stream: SourceStream, name: str) -> Iterator[SourceNote]:
        """As of `SourceKind`: whether the brokers answer, and how many partitions there are."""
        topic = stream.source.settings
        try:
            _, partitions = TopicOffsets(KafkaClient.of_stream(stream), topic.topic).described()
        except (PipelineDefinitionError, SourceAwayError) as error:
            yield SourceNote(str(error), is_problem=True)
        else:
            yield SourceNote(f"topic {topic.topic} at {topic.servers}: {partitions} partitions")


@dataclass(frozen=True)
class TopicReader:
    """Reads slices of a topic's partitions.

    Attributes:
        client: of the topic.
    """

    client: KafkaClient

    def get_ready(self) -> None:
        """Have this process's consumer before the first records come."""
        self.client.get_ready()

    def __call__(self, piece: OffsetSlice, decoder: RecordDecoder) -> Iterator[Arrivals]:
        """As of `read_offsets`."""
        return read_offsets(piece, decoder, self.client)


class OffsetsAgain(ReadsAgain):
    """Reads offsets again that the topic still has.

    Args:
        client: of the topic.
    """

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._topic_ids: dict[str, str] = {}

    def piece(self, planned: SourceRange) -> tuple[str, OffsetSlice]:
        """As of `ReadsAgain`."""
        partition = Partition.of(planned.unit)
        if partition is None:
            raise FreshetError(
                f"{planned.unit} is needed, and can't be read: its stream's source was changed to Kafka."
            )
        if partition.topic not in self._topic_ids:
            self._topic_ids[partition.topic], _ = TopicOffsets(self._client, partition.topic).described()
        if self._topic_ids[partition.topic] != partition.topic_id:
            raise FreshetError(f"{partition} is needed, and can't be read: the topic was deleted and made anew.")
        return str(partition), OffsetSlice(0, partition, planned.first, planned.last, None, planned.poison)
