"""The landed events of several streams, as committed batches have read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import extensions

from spark_jobs.columns.event_id import event_id_texts
from spark_jobs.definition import Source
from spark_jobs.definition.joined_tuple import STREAM_SEPARATOR
from spark_jobs.errors import FreshetError, SourceRangeGoneError, UnreadableFileError
from spark_jobs.ledger.source_ranges import SourceRange, loaded_ranges
from spark_jobs.settings import Home
from spark_jobs.source.files.names import name_of
from spark_jobs.source.files.planned_file import FileSlice
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.kafka.offsets import TopicOffsets
from spark_jobs.source.kafka.partition import OffsetSlice, Partition
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.stages.screening import screen_part
from spark_jobs.stages.stream_plan import StreamPlan


class LandedEvents:
    """Reads again what batches have read.

    Args:
        home: the installation.
        streams: of the pipeline, in its order.

    Attributes:
        records: that were read so far.
    """

    def __init__(self, home: Home, streams: Sequence[StreamPlan]) -> None:
        self._home = home
        self._streams = {stream.held.name: stream for stream in streams}
        self._numbers = {stream.held.name: number for number, stream in enumerate(streams)}
        self._topic_ids: dict[str, str] = {}
        self.records = 0

    def ranges(self, connection: extensions.connection, batch_no: int) -> list[SourceRange]:
        """What a committed batch has read, in its order."""
        with connection, connection.cursor() as cursor:
            return loaded_ranges(cursor, batch_no)

    def read(self, planned: SourceRange) -> Iterator[tuple[int, pa.Table]]:
        """The sound tuples of a range, in blocks, with the number of their stream.

        Raises:
            FreshetError: the file is gone or damaged; or the topic has not all of these offsets any more, or its
                brokers don't answer.
        """
        stream, _, unit = planned.unit.partition(STREAM_SEPARATOR)
        plan, number = self._streams[stream], self._numbers[stream]
        where, piece = self._piece(replace(planned, unit=unit), plan.reader)
        try:
            for arrivals in plan.reader(piece):
                self.records += arrivals.records
                tuples, _ = screen_part(arrivals.tuples, plan)
                if tuples.num_rows:
                    yield number, tuples
        except (OSError, UnreadableFileError, SourceRangeGoneError) as error:
            raise FreshetError(f"{where} is needed, and can't be read: {error}") from error

    def _piece(self, planned: SourceRange, reader: SliceReader) -> tuple[str, FileSlice | OffsetSlice]:
        """A range whole, and what it is called."""
        partition = None if reader.source.kafka is None else Partition.of(planned.unit)
        if partition is not None and reader.client is not None:
            if self._topic_id(partition.topic, reader.client) != partition.topic_id:
                raise FreshetError(f"{partition} is needed, and can't be read: the topic was deleted and made anew.")
            return str(partition), OffsetSlice(0, partition, planned.first, planned.last, None, planned.poison)
        path = self._path(name_of(planned.unit), reader.source)
        assert planned.size is not None
        assert planned.modified_ns is not None
        piece = FileSlice(0, str(path), planned.first, planned.last, planned.size, planned.modified_ns, planned.poison)
        return str(path), piece

    def _path(self, name: str, source: Source) -> Path:
        if source.path is None:
            raise FreshetError(f"{name} is needed, and can't be read: its stream's source was changed to Kafka.")
        path = source.resolved_path(self._home) / name
        archive = None if source.after_load == "keep" else source.after_load.archive_folder(self._home)
        return archive / name if archive is not None and not path.exists() else path

    def _topic_id(self, topic: str, client: KafkaClient) -> str:
        if topic not in self._topic_ids:
            self._topic_ids[topic], _ = TopicOffsets(client, topic).described()
        return self._topic_ids[topic]


def held_ids(plan: StreamPlan, tuples: pa.Table) -> pa.Array:
    """The ids under which tuples of a stream are held, shape (n,)."""
    texts = event_id_texts(tuples, plan.held.event_id).cast(pa.string())
    return pc.binary_join_element_wise(plan.held.name + STREAM_SEPARATOR, texts, "")
