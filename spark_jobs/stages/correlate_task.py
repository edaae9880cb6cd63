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
from spark_jobs.definition.correlation import JOINED_ID, qualified, settled_as
from spark_jobs.definition.fates import EXPIRED, JOINED, Fate
from spark_jobs.definition.stream_tuple import POSITION, RANGE
from spark_jobs.join_state.correlated import RESULTS, Correlated, Settled, total_counts
from spark_jobs.join_state.joined_tuples import alone
from spark_jobs.loading.outcome import Held
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.stages.batch_context import BatchContext, TaskReport
from spark_jobs.stages.collect_task import by_stream
from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.front_task import front_task
from spark_jobs.stages.hot_buckets import taken_bucket
from spark_jobs.stages.stream_plan import JoinPlan, StreamPlan


def correlate_task(
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
    joining = _Joining(plan, bucket, parcels)
    yield from front_task(context, [bucket], joining.read, report)
    report(TaskReport(stage="correlate", seconds=joining.seconds, counts={}, streams={bucket: joining.counts}))


class _Joining:
    """One bucket's part of a batch."""

    def __init__(self, plan: JoinPlan, bucket: int, parcels: Iterable[bytes]) -> None:
        self._plan = plan
        self._bucket = bucket
        self._parcels = parcels
        self.counts: tuple[Counter[Fate], ...] = ()
        self.seconds = {"restore": 0.0, "take": 0.0, "checkpoint": 0.0}

    def read(self, bucket: int) -> Iterator[Arrivals]:
        """The joined tuples, and those of the streams that are late, come after the last, or have expired."""
        plan, seconds = self._plan, self.seconds
        began = time.perf_counter()
        arrived = by_stream(self._parcels, len(plan.streams))
        if plan.bucket.is_punctuated:
            arrived = [
                None if each is None else each.sort_by([(RANGE, "ascending"), (POSITION, "ascending")])
                for each in arrived
            ]
        taken = []
        with taken_bucket(plan, bucket) as state:
            seconds["restore"] = time.perf_counter() - began
            began = time.perf_counter()
            for correlated in state.take(arrived, plan.reached, plan.reached):
                seconds["take"] += time.perf_counter() - began
                taken.append(correlated.counts)
                joined = self._joined(correlated)
                yield Arrivals(joined, list(self._held(correlated)), joined.num_rows)
                began = time.perf_counter()
            seconds["take"] += time.perf_counter() - began
            began = time.perf_counter()
            state.checkpoint(plan.batch_no)
            if plan.keep_from:
                state.forget(plan.keep_from)
            seconds["checkpoint"] = time.perf_counter() - began
        self.counts = total_counts(taken)

    def _joined(self, correlated: Correlated) -> pa.Table:
        """The joined tuples, and those that are to be taken for such though they have one part only."""
        plan = self._plan
        found = [correlated.joined] if correlated.joined.num_rows else [plan.joined.empty_table()]
        if not plan.identified:
            return found[0]
        emitted = [
            alone(plan.bucket.streams, number, tuples, plan.joined)
            for number, fate, tuples in correlated.settled
            if settled_as(fate, plan.becomes[number]) == JOINED
        ]
        joined = pa.concat_tables([found[0].select(plan.joined.names).cast(plan.joined), *emitted])
        return joined.append_column(JOINED_ID, joined_ids(joined, plan.streams))

    def _held(self, correlated: Correlated) -> Iterator[Held]:
        for settled in correlated.settled:
            fate = settled_as(settled.fate, self._plan.becomes[settled.stream])
            if fate == JOINED:
                continue
            # What expires may have come with an earlier batch, whose ranges are numbered in another way.
            of_batch = settled.fate.share != EXPIRED.share
            tuples = settled.tuples if of_batch else settled.tuples.drop_columns([RANGE, POSITION])
            yield Held(fate, self._reason(settled), None, tuples, stream=self._plan.streams[settled.stream].held)

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
