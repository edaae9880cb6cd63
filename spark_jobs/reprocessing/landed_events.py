"""The landed events of several streams, as committed batches have read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import extensions

from spark_jobs.columns.event_id import event_id_texts
from spark_jobs.definition.joined_tuple import STREAM_SEPARATOR
from spark_jobs.errors import FreshetError, SourceRangeGoneError, UnreadableFileError
from spark_jobs.ledger.source_ranges import SourceRange, loaded_ranges
from spark_jobs.settings import Home
from spark_jobs.source.kind import ReadsAgain, SourceStream
from spark_jobs.source.kinds import kind_of
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
        self._agains: dict[str, ReadsAgain] = {}
        self._streams = {stream.held.name: stream for stream in streams}
        self._numbers = {stream.held.name: number for number, stream in enumerate(streams)}
        self.records = 0

    def ranges(self, connection: extensions.connection, batch_no: int) -> list[SourceRange]:
        """What a committed batch has read, in its order."""
        with connection, connection.cursor() as cursor:
            return loaded_ranges(cursor, batch_no)

    def read(self, planned: SourceRange) -> Iterator[tuple[int, pa.Table]]:
        """The sound tuples of a range, in blocks, with the number of their stream.

        Raises:
            FreshetError: what was read is not there any more, or is damaged, or can't be read now.
        """
        stream, _, unit = planned.unit.partition(STREAM_SEPARATOR)
        plan, number = self._streams[stream], self._numbers[stream]
        where, piece = self._again(stream).piece(replace(planned, unit=unit))
        try:
            for arrivals in plan.reader(piece):
                self.records += arrivals.records
                tuples, _ = screen_part(arrivals.tuples, plan)
                if tuples.num_rows:
                    yield number, tuples
        except (OSError, UnreadableFileError, SourceRangeGoneError) as error:
            raise FreshetError(f"{where} is needed, and can't be read: {error}") from error

    def _again(self, stream: str) -> ReadsAgain:
        if stream not in self._agains:
            plan = self._streams[stream]
            read = SourceStream(plan.held.event.pipeline, plan.reader.source, self._home, stream)
            self._agains[stream] = kind_of(read.source).again(read)
        return self._agains[stream]


def held_ids(plan: StreamPlan, tuples: pa.Table) -> pa.Array:
    """The ids under which tuples of a stream are held, shape (n,)."""
    texts = event_id_texts(tuples, plan.held.event_id).cast(pa.string())
    return pc.binary_join_element_wise(plan.held.name + STREAM_SEPARATOR, texts, "")
