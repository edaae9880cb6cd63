"""The task of a bucket: joins what arrived with its state, takes the results on, and writes its next version."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.columns.event_id import event_id_texts
from spark_jobs.definition.fates import EXPIRED, JOINED, Fate
from spark_jobs.definition.joined_tuple import JOINED_ID, qualified
from spark_jobs.definition.stream_tuple import POSITION, RANGE
from spark_jobs.join_state.bucket import Bucket
from spark_jobs.join_state.bucket_plan import RESULTS, JoinedPiece, Settled, total_counts
from spark_jobs.join_state.joined_tuples import alone
from spark_jobs.loading.outcome import Held
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.stages.batch_context import BatchContext, TaskReport
from spark_jobs.stages.collect_task import by_stream
from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.front_task import FrontTask
from spark_jobs.stages.hot_buckets import taken_bucket
from spark_jobs.stages.stream_plan import JoinPlan, StreamPlan


def join_task(
    context: BatchContext,
    plan: JoinPlan,
    bucket: int,
    parcels: Iterable[bytes],
    report: Callable[[TaskReport], Any],
) -> Iterator[Parcel]:
    """Join one bucket's tuples, and take the joined ones through the front stage; then checkpoint the bucket.

    The batch is not closed before all its tasks have ended. Until then the version that it started from counts, and
    whoever does the bucket's part again starts from that.

    Args:
        context: the batch.
        plan: how it is joined.
        bucket: the bucket's number.
        parcels: the tuples that arrived for it.
        report: takes the task's reports when it has ended.

    Returns:
        the joined tuples that miss at least one front stage.

    Raises:
        StateDamagedError: the bucket can't be restored; the message says what to do.
    """
    front, clock = FrontTask(context, report), Stopwatch()
    joining = BucketJoin(plan, parcels)
    with taken_bucket(plan, bucket) as state:
        clock.lap("restore")
        for arrivals in joining.take(state, clock):
            yield from front.add(arrivals)
        clock.start()
        state.checkpoint(plan.batch_no)
        if plan.keep_from:
            state.forget(plan.keep_from)
        clock.lap("checkpoint")
    front.finish()
    report(TaskReport(stage="join", seconds=clock.seconds, counts={}, streams={bucket: joining.counts}))


class Stopwatch:
    """Adds up the seconds of several activities that take turns.

    Attributes:
        seconds: of each.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._started = time.perf_counter()

    def start(self) -> None:
        """Begin an activity: what was done before is none."""
        self._started = time.perf_counter()

    def lap(self, activity: str) -> None:
        """End an activity, and begin the next one."""
        now = time.perf_counter()
        self.seconds[activity] = self.seconds.get(activity, 0.0) + now - self._started
        self._started = now


class BucketJoin:
    """One bucket's part of a batch.

    Args:
        plan: how the batch is joined.
        parcels: the tuples that arrived for the bucket.

    Attributes:
        counts: of each stream, how many came to which fate; once all is taken.
    """

    def __init__(self, plan: JoinPlan, parcels: Iterable[bytes]) -> None:
        self._plan = plan
        self._parcels = parcels
        self.counts: tuple[Counter[Fate], ...] = ()

    def take(self, state: Bucket, clock: Stopwatch) -> Iterator[Arrivals]:
        """The joined tuples, and those of the streams that are late, come after the last, or have expired.

        Args:
            state: the bucket.
            clock: takes the time of the join as `take`.
        """
        plan, taken = self._plan, []
        arrived = by_stream(self._parcels, len(plan.streams))
        if plan.bucket.is_punctuated:
            arrived = [
                None if each is None else each.sort_by([(RANGE, "ascending"), (POSITION, "ascending")])
                for each in arrived
            ]
        for piece in state.take(arrived, plan.watermarks, plan.watermarks):
            taken.append(piece.counts)
            joined = self._joined(piece)
            held = list(self._held(piece))
            clock.lap("take")
            yield Arrivals(joined, held, joined.num_rows)
            clock.start()
        clock.lap("take")
        self.counts = total_counts(taken)

    def _joined(self, piece: JoinedPiece) -> pa.Table:
        """The joined tuples, and those that are to be taken for such though they have one part only."""
        plan = self._plan
        found = [piece.joined] if piece.joined.num_rows else [plan.joined.empty_table()]
        if not plan.identified:
            return found[0]
        emitted = [
            alone(plan.bucket.streams, number, tuples, plan.joined)
            for number, fate, tuples in piece.settled
            if plan.join.settled(plan.streams[number].held.name, fate) == JOINED
        ]
        joined = pa.concat_tables([found[0].select(plan.joined.names).cast(plan.joined), *emitted])
        return joined.append_column(JOINED_ID, joined_ids(joined, plan.streams))

    def _held(self, piece: JoinedPiece) -> Iterator[Held]:
        for settled in piece.settled:
            stream = self._plan.streams[settled.stream].held
            fate = self._plan.join.settled(stream.name, settled.fate)
            if fate == JOINED:
                continue
            # What expires may have come with an earlier batch, whose ranges are numbered in another way.
            of_batch = settled.fate.share != EXPIRED.share
            tuples = settled.tuples if of_batch else settled.tuples.drop_columns([RANGE, POSITION])
            yield Held(fate, self._reason(settled), None, tuples, stream=stream)

    def _reason(self, settled: Settled) -> str | pa.StringArray:
        if RESULTS not in settled.tuples.column_names:
            return self._plan.reasons[settled.stream][settled.fate]
        count = settled.tuples[RESULTS].cast(pa.string())
        allowed = f" facts; most_facts: {self._plan.bucket.most_results}"
        return pc.binary_join_element_wise("too many: about ", count, allowed, "").combine_chunks()


def joined_ids(joined: pa.Table, streams: Sequence[StreamPlan]) -> pa.Array:
    """The ids of the parts of joined tuples as one text each: `[17,null]` where the second is missing; shape (n,)."""
    parts = []
    for stream in streams:
        key = [replace(each, source=qualified(stream.held.name, each.source)) for each in stream.held.event_id]
        texts = event_id_texts(joined, key).cast(pa.string())
        parts.append(pc.fill_null(pc.utf8_slice_codeunits(texts, 1, -1), ",".join(["null"] * len(key))))
    inner = pc.binary_join_element_wise(*parts, ",")
    return pc.binary_join_element_wise("[", inner, "]", "")
