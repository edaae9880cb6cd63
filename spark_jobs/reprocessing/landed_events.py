"""The landed events of several streams, as committed batches have read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import extensions

from spark_jobs.definition.correlation import STREAM_SEPARATOR
from spark_jobs.errors import FreshetError, SourceRangeGoneError, UnreadableFileError
from spark_jobs.ledger.source_ranges import SourceRange, loaded_ranges
from spark_jobs.settings import Home
from spark_jobs.source.file_names import name_of
from spark_jobs.source.file_reading import read_slice
from spark_jobs.source.landed_streams import StreamSlice
from spark_jobs.stages.screening import screen_part
from spark_jobs.stages.stream_plan import StreamPlan
from spark_jobs.warehouse.event_id import event_id_texts


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
        self.records = 0

    def ranges(self, connection: extensions.connection, batch_no: int) -> list[SourceRange]:
        """What a committed batch has read, in its order."""
        with connection, connection.cursor() as cursor:
            return loaded_ranges(cursor, batch_no)

    def read(self, planned: SourceRange) -> Iterator[tuple[int, pa.Table]]:
        """The sound tuples of a range, in blocks, with the number of their stream.

        Raises:
            FreshetError: the file is gone or damaged.
        """
        stream, _, unit = planned.unit.partition(STREAM_SEPARATOR)
        planned, plan, number = replace(planned, unit=unit), self._streams[stream], self._numbers[stream]
        source, name = plan.source, name_of(planned.unit)
        path = source.resolved_path(self._home) / name
        archive = None if source.after_load == "keep" else source.after_load.archive_folder(self._home)
        if archive is not None and not path.exists():
            path = archive / name
        assert planned.size is not None
        assert planned.modified_ns is not None
        piece = StreamSlice(0, str(path), planned.first, planned.last, planned.size, planned.modified_ns, stream=number)
        try:
            for arrivals in read_slice(piece, source):
                self.records += arrivals.records
                tuples, _ = screen_part(arrivals.tuples, plan)
                if tuples.num_rows:
                    yield number, tuples
        except (OSError, UnreadableFileError, SourceRangeGoneError) as error:
            raise FreshetError(f"{path} is needed, and can't be read: {error}") from error


def held_ids(plan: StreamPlan, tuples: pa.Table) -> pa.Array:
    """The ids under which tuples of a stream are held, shape (n,)."""
    texts = event_id_texts(tuples, plan.held.event_id).cast(pa.string())
    return pc.binary_join_element_wise(plan.held.name + STREAM_SEPARATOR, texts, "")
