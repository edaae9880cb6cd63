"""A warm-up: a worker does with a few made-up tuples all that a batch will have it do, and stores nothing.

Code is compiled where this machine has not compiled it yet, and loaded where it has; connections are made. Otherwise
the first batches would spend seconds on it, while tuples wait.
"""

from __future__ import annotations

import traceback
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.control.fencing import session_name
from spark_jobs.definition.fates import MALFORMED
from spark_jobs.definition.stream_tuple import ARRIVED_AT, POSITION, RANGE, RECORD, EventColumns, LoadCounts
from spark_jobs.errors import WriterFencedError
from spark_jobs.join_state.bucket import Bucket, BucketPlan
from spark_jobs.loading.chunk import Chunk, prepare
from spark_jobs.loading.fact_storage import StorageMode
from spark_jobs.loading.loader import WorkerSession, session_of
from spark_jobs.loading.outcome import Held, Outcome
from spark_jobs.loading.recent_ids import RecentIds
from spark_jobs.loading.stream_batch import latencies
from spark_jobs.lookup.hot_keys.publishing import FrontStagePlan
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.stages.back_task import back_task
from spark_jobs.stages.batch_context import BatchContext, TaskReport
from spark_jobs.stages.failure_kind import failure_kind
from spark_jobs.stages.front_task import front_task
from spark_jobs.warehouse.fact_table import FactTable

_NOBODY, _NO_BATCH = 0, 0
_FILTER_BYTES = 1 << 10
_TUPLES = 8
_NOW = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class WarmUp:
    """Takes a pipeline's tuples as an open batch would, up to the point where they would be sent to the warehouse.

    Attributes:
        event: the pipeline's event columns.
        fact: its fact table.
        careful: no tuple is stored already.
    """

    event: EventColumns
    fact: FactTable
    careful: bool = False

    @property
    def compares_ids(self) -> bool:
        """As of a batch."""
        return True

    def session(self, url: str, patience: timedelta) -> WorkerSession:
        """A session like a batch's."""
        return session_of(url, self.event.pipeline, _NOBODY, session_name("load", self.event.pipeline), patience)

    def transaction(self, part: Outcome) -> WarmUpTransaction:
        """What lets a part of an outcome go, encoded."""
        return WarmUpTransaction(self, prepare(part, self.event, self.fact, _NO_BATCH))

    def __str__(self) -> str:
        return f"a warm-up of pipeline {self.event.pipeline}"


class WarmUpTransaction:
    """Does with a chunk what a loading transaction does outside of the warehouse.

    Args:
        warm_up: where to.
        chunk: what.
    """

    def __init__(self, warm_up: WarmUp, chunk: Chunk) -> None:
        self._warm_up = warm_up
        self._chunk = chunk

    @property
    def ids(self) -> IdSketch:
        """A sketch, as a batch makes one."""
        return self._chunk.ids()

    def store(self, session: WorkerSession, mode: StorageMode) -> LoadCounts:
        """Go through it; nothing is stored."""
        session.connection()
        facts, held, event = self._chunk.facts, self._chunk.held, self._warm_up.event
        if facts is not None and facts.tuples.num_rows:
            hashes = facts.hashes
            recent = RecentIds(_FILTER_BYTES)
            recent.add(event.pipeline, hashes)
            recent.among(event.pipeline, hashes)
            facts.rows.render(0, facts.rows.count)
            latencies(facts.tuples, event.event_time, 0.0)
        if len(held):
            rows = held.encoded()
            rows.render(0, rows.count)
        return LoadCounts()

    def recorded(self, session: WorkerSession) -> LoadCounts | None:
        """Nothing ever is."""
        return None


def read_nothing(piece: Hashable) -> Iterator[Arrivals]:
    """Reads a piece of a source in which there is nothing."""
    return iter(())


def warm_up(context: BatchContext, columns: Mapping[str, pa.DataType]) -> str | None:
    """Send tuples that match, tuples that may not, and bad records through both stages, by each way a batch may take.

    Of R it reads a page or two for each of these ways.

    Args:
        context: a batch whose destination stores nothing.
        columns: the source's columns.

    Returns:
        the traceback of an error that the warm-up met: the stream can do without the rest of it. None where it met
        none.

    Raises:
        WarehouseUnavailableError, SchemaMismatchError, WriterFencedError, psycopg2.Error: the first batch would meet
            the same.
    """
    try:
        _warm_up(context, columns)
    except WriterFencedError:
        raise
    except Exception as error:
        if failure_kind(error) is not None:
            raise
        return traceback.format_exc()
    return None


def warm_up_bucket(plan: BucketPlan, columns: Sequence[Mapping[str, pa.DataType]]) -> str | None:
    """Join made-up tuples of several streams, and write and restore a version of their state, in a folder that goes.

    Args:
        plan: the bucket.
        columns: of each stream's source.

    Returns:
        as of `warm_up`.
    """
    reached = [0] * len(columns)
    try:
        with TemporaryDirectory(prefix="freshet-warm-up-") as folder:
            bucket = Bucket(plan, Path(folder), 0)
            arrived = [_tuples(each, set()).slice(0, 1) for each in columns]
            if plan.predicate.interval:
                arrived = [
                    _from_below(part, stream.matched[0]) for part, stream in zip(arrived, plan.streams, strict=True)
                ]
            for _ in bucket.take(arrived, reached, reached):
                pass
            bucket.checkpoint(1)
            bucket.close()
            Bucket(plan, Path(folder), 1).close()
    except Exception:
        return traceback.format_exc()
    return None


def _warm_up(context: BatchContext, columns: Mapping[str, pa.DataType]) -> None:
    plans = tuple(plan.page_by_page() for plan in context.lookups)
    keys = {name for plan in plans for name in plan.spec.stream_columns} - set(context.event.event_id)
    unmatched = _tuples(columns, keys)
    for tuples in (_with_keys(unmatched, plans, context.warehouse_url), unmatched):
        for once in _ways(replace(context, lookups=plans)):
            _settle(once, tuples)


def _settle(context: BatchContext, tuples: pa.Table) -> None:
    waiting = list(front_task(context, [tuples], _arrivals, unreported))
    for plan in context.lookups:
        packed = [parcel.tuples for parcel in waiting]
        waiting = list(back_task(context, plan.position, packed, unreported))


def _arrivals(tuples: pa.Table) -> Iterator[Arrivals]:
    yield Arrivals(tuples, [Held(MALFORMED, "malformed", None, tuples.slice(0, 1), identified=False)], tuples.num_rows)


def _ways(context: BatchContext) -> Iterator[BatchContext]:
    """With the front stages as they are; then, so that nothing is a hit, without, by each of the back stages."""
    yield context
    cold = replace(context, fronts=tuple(FrontStagePlan(None, front.most_offers, True) for front in context.fronts))
    yield cold
    choices = [plan.back_stages for plan in context.lookups]
    for number in range(max(map(len, choices), default=0)):
        plans = zip(context.lookups, choices, strict=True)
        chosen = tuple(replace(plan, algorithm=names[number % len(names)]) for plan, names in plans)
        yield replace(cold, lookups=chosen)


def _tuples(columns: Mapping[str, pa.DataType], keys: Set[str]) -> pa.Table:
    """Equal tuples with a value in each column, one without `keys`, and one with nothing but nulls."""
    count = _TUPLES + 2

    def values(name: str, kind: pa.DataType) -> pa.Array:
        value = _value(kind)
        return pa.array([*[value] * _TUPLES, None if name in keys else value, None], kind)

    return pa.table(
        [
            *(values(name, kind) for name, kind in columns.items()),
            pa.array([_NOW] * count, pa.timestamp("us", "UTC")),
            pa.array([b"{}"] * count, pa.large_binary()),
            pa.array([0] * count, pa.int32()),
            pa.array(range(count), pa.int64()),
        ],
        names=[*columns, ARRIVED_AT, RECORD, RANGE, POSITION],
    )


def _from_below(tuples: pa.Table, low: str) -> pa.Table:
    """The same with the low end of their keys below any value of `_value`."""
    position = tuples.schema.get_field_index(low)
    kind = tuples.schema.field(low).type
    value = Decimal(-1).scaleb(-kind.scale) if pa.types.is_decimal(kind) else -1
    return tuples.set_column(position, low, pa.array([value] * tuples.num_rows, kind))


def _value(kind: pa.DataType) -> Any:
    """Some value of a type that a source's column may have."""
    if pa.types.is_timestamp(kind):
        return _NOW
    if pa.types.is_date(kind):
        return date(2000, 1, 1)
    if pa.types.is_string(kind):
        return "a"
    if pa.types.is_binary(kind):
        return b"a"
    # 1 is no decimal(4,4).
    return Decimal(0) if pa.types.is_decimal(kind) else pa.scalar(1).cast(kind).as_py()


def _with_keys(tuples: pa.Table, plans: Sequence[LookupPlan], url: str) -> pa.Table:
    """The tuples with the key of a tuple of each relation; those that have no value stay so."""
    for plan in plans:
        for name, value in plan.some_key(tuples.schema, url).items():
            filled = pc.if_else(tuples[name].is_valid(), value, pa.scalar(None, value.type))
            tuples = tuples.set_column(tuples.column_names.index(name), name, filled)
    return tuples


def unreported(report: TaskReport) -> None:
    """Drops a report, as all of a warm-up are."""
