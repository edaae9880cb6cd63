"""The first stage of a batch of several streams: reads and screens their tuples, and sends each to its key's bucket."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.definition.fates import Fate
from spark_jobs.errors import SourceRangeChangedError, UnreadableFileError
from spark_jobs.join_state.bucket import bucket_of
from spark_jobs.loading.outcome import Held
from spark_jobs.source.landed_streams import StreamSlice
from spark_jobs.stages.batch_context import BatchContext, Collected, PieceEnd, TaskReport
from spark_jobs.stages.exchange import Parcel, packed, unpacked
from spark_jobs.stages.screening import screen_part
from spark_jobs.stages.stream_plan import StreamPlan
from spark_jobs.stages.task_loading import TaskLoading

STREAM = b"stream"
"""Key in the schema's metadata of a parcel: the number of the stream whose tuples it holds."""


def collect_task(
    context: BatchContext,
    streams: Sequence[StreamPlan],
    buckets: int,
    pieces: Iterable[StreamSlice],
    report: Callable[[TaskReport], Any],
) -> Iterator[Parcel]:
    """Read some pieces of the streams; what can't be joined is rejected, and loaded at once.

    Args:
        context: the batch.
        streams: of the pipeline, in its order.
        buckets: how many there are.
        pieces: what the task has to read.
        report: takes the task's report when it has ended.

    Returns:
        sound tuples by bucket; each parcel holds tuples of one stream.
    """
    started = time.perf_counter()
    loading = TaskLoading(context)
    ends: list[PieceEnd] = []
    collected: dict[Any, Collected] = {}
    for piece in pieces:
        plan = streams[piece.stream]
        records, unreadable, mark = 0, None, None
        rejected = Counter[Fate]()
        newest: int | None = None
        try:
            for arrivals in plan.reader(piece.piece):
                tuples, held = screen_part(arrivals.tuples, plan)
                held = arrivals_held(arrivals.rejected, plan) + held
                records += arrivals.records
                mark = arrivals.mark
                for group in held:
                    rejected[group.fate] += group.tuples.num_rows
                loading.add(None, held)
                newest = _newest(tuples, plan, newest)
                yield from _by_bucket(tuples, piece.stream, plan.key, buckets)
        except (UnreadableFileError, SourceRangeChangedError) as error:
            unreadable = str(error)
        ends.append(PieceEnd(piece, records, unreadable, mark))
        collected[piece] = Collected(piece.stream, records, rejected, newest)
    loading.finish()
    seconds = {"load": loading.seconds, "total": time.perf_counter() - started}
    report(TaskReport(stage="collect", seconds=seconds, counts={}, pieces=ends, collected=collected))


def by_stream(parcels: Iterable[bytes], streams: int) -> list[pa.Table | None]:
    """The tuples of the parcels that a bucket got, of each stream; None where there are none."""
    parts: list[list[pa.Table]] = [[] for _ in range(streams)]
    for parcel in parcels:
        tuples = unpacked(parcel)
        parts[int(tuples.schema.metadata[STREAM])].append(tuples)
    return [pa.concat_tables(part) if part else None for part in parts]


def arrivals_held(rejected: Sequence[Held], plan: StreamPlan) -> list[Held]:
    """Records that could not be decoded, as those of their stream."""
    return [
        Held(group.fate, group.reason, group.relation, group.tuples, group.identified, plan.held) for group in rejected
    ]


def _newest(tuples: pa.Table, plan: StreamPlan, before: int | None) -> int | None:
    """The largest event time so far, microseconds since 1970."""
    largest = pc.max(tuples[plan.held.event.event_time].cast(pa.timestamp("us", "UTC")).cast(pa.int64())).as_py()
    return before if largest is None else largest if before is None else max(before, largest)


def _by_bucket(tuples: pa.Table, stream: int, on: Sequence[str], buckets: int) -> Iterator[Parcel]:
    if not tuples.num_rows:
        return
    tuples = tuples.replace_schema_metadata({STREAM: str(stream).encode()})
    owners = bucket_of(tuples, on, buckets)
    for owner in np.unique(owners).tolist():
        yield packed(owner, tuples.filter(pa.array(owners == owner)))
