"""A rehearsal: a worker does with a few made-up tuples all that a batch will have it do, and stores nothing.

Code is compiled where this machine has not compiled it yet, and loaded where it has; connections are made. Otherwise
the first batches would spend seconds on it, while tuples wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spark_jobs.pipeline.source.arrivals import read_by_spark
from spark_jobs.pipeline.tasks.back_stage import back_stages
from spark_jobs.pipeline.tasks.back_task import back_task
from spark_jobs.pipeline.tasks.batch_context import BatchContext, FrontStagePlan, LookupPlan, OwnedPages, TaskReport
from spark_jobs.pipeline.tasks.front_task import front_task
from spark_jobs.pipeline.tasks.mapped_broadcast import MappedBroadcast
from spark_jobs.relation.copy_decoding.decode import decode_copy
from spark_jobs.relation.page_ranges import PageRanges
from spark_jobs.relation.postgres_relation import PostgresRelation
from spark_jobs.relation.queries import sample_query
from spark_jobs.relation.reading_connection import copy_out
from spark_jobs.relation.relation_spec import RelationSpec
from spark_jobs.warehouse.event_columns import ARRIVED_AT, RAW

_TUPLES = 8
_NOW = datetime(2000, 1, 1, tzinfo=UTC)


def rehearse(context: BatchContext, columns: Mapping[str, pa.DataType]) -> None:
    """Send tuples that match, tuples that may not, and bad records through both stages, by each way a batch may take.

    Of R it reads a page or two for each of these ways.

    Args:
        context: a batch whose destination stores nothing.
        columns: the source's columns.
    """
    plans = tuple(_bounded(plan) for plan in context.lookups)
    matching = _with_keys(_tuples(columns), plans, context.warehouse_url)
    for tuples in (matching, _tuples(columns)):
        for once in _ways(replace(context, lookups=plans)):
            _settle(once, tuples)


def _settle(context: BatchContext, tuples: pa.Table) -> None:
    waiting = list(front_task(context, read_by_spark, _unreported)(iter(tuples.combine_chunks().to_batches())))
    for plan in context.lookups:
        waiting = list(back_task(context, plan.position, _unreported)(iter(waiting)))


def _ways(context: BatchContext) -> Iterator[BatchContext]:
    """With the front stages as they are; then, so that nothing is a hit, without, by each of the back stages."""
    yield context
    cold = replace(context, fronts=tuple(FrontStagePlan(None, front.most_offers, True) for front in context.fronts))
    yield cold
    choices = [back_stages(plan.algorithm, plan.pages is not None) for plan in context.lookups]
    for number in range(max(map(len, choices), default=0)):
        plans = zip(context.lookups, choices, strict=True)
        chosen = tuple(replace(plan, algorithm=names[number % len(names)]) for plan, names in plans)
        yield replace(cold, lookups=chosen)


def _bounded(plan: LookupPlan) -> LookupPlan:
    """The plan without its limit, and such that a task owns no page of R but the one that its tuples wait for."""
    pages = None if plan.pages is None else _PageByPage(plan.pages.name, plan.pages.version, plan.pages.content)
    return replace(plan, pages=pages, read_limit=None)


class _PageByPage(MappedBroadcast):
    """R's pages, each of them owned by a task of its own."""

    def value(self) -> OwnedPages:
        owned: OwnedPages = super().value()
        return OwnedPages(owned.index, PageRanges.balanced(owned.index.page_count, owned.index.page_count))


def _tuples(columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Equal tuples with a value in each column, and bad records: a malformed one, and one without values."""
    sound, bad = [True] * _TUPLES, [False] * 2
    values = {name: [_value(kind) if is_sound else None for is_sound in sound + bad] for name, kind in columns.items()}
    raw = [None] * _TUPLES + [b"{", None]
    return pa.table(
        [
            *(pa.array(values[name], kind) for name, kind in columns.items()),
            pa.array([_NOW] * len(raw), pa.timestamp("us", "UTC")),
            pa.array(raw, pa.binary()),
        ],
        names=[*columns, ARRIVED_AT, RAW],
    )


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
    return Decimal(1) if pa.types.is_decimal(kind) else pa.scalar(1).cast(kind).as_py()


def _with_keys(tuples: pa.Table, plans: Sequence[LookupPlan], url: str) -> pa.Table:
    """The tuples with the key of a tuple of each relation; those that have no value stay so."""
    for plan in plans:
        for name, value in zip(plan.spec.stream_columns, _some_key(plan.spec, url), strict=False):
            number = tuples.column_names.index(name) if name in tuples.column_names else -1
            if number >= 0:
                tuples = tuples.set_column(number, name, _filled(tuples[name], value))
    return tuples


def _filled(column: pa.ChunkedArray, value: pa.Scalar) -> pa.ChunkedArray:
    key = value.cast(column.type)
    return pa.chunked_array([pa.array([key.as_py() if known else None for known in column.is_valid()], column.type)])


def _some_key(spec: RelationSpec, url: str) -> list[pa.Scalar]:
    """The key of any tuple of R, column by column; nothing where R is empty."""
    content = PostgresRelation(url, spec).connection.run(lambda connection: copy_out(connection, sample_query(spec, 1)))
    columns = decode_copy(content, list(spec.read_types))[: len(spec.key)]
    return [column[0] for column in columns] if len(columns[0]) else []


def _unreported(report: TaskReport) -> None:
    """Nobody learns from a rehearsal."""
