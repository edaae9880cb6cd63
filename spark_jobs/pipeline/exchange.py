"""The exchange: how tuples that wait for a back stage travel to the task that owns their range of R."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.pipeline.batch_context import BatchContext, LookupPlan
from spark_jobs.relation.keys import KeyColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

MISSING = "_missing"  # bit i is set while lookup i is still to be done
OWNER = "_owner"  # the partition that does the next one


def page_column(lookup: int) -> str:
    """Column with the page of R on which a tuple's key would be, for one lookup."""
    return f"_page_{lookup}"


def waiting_schema(tuples: StructType, context: BatchContext) -> StructType:
    """Spark schema of the tuples that wait: the tuple, all fetched columns, and where it has to go."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import IntegerType, LongType, StructType

    schema = StructType(list(tuples.fields))
    for plan in context.lookups:
        for field in plan.spec.fetched_schema:
            schema = schema.add(field.name, from_arrow_type(field.type))
    schema = schema.add(MISSING, LongType())
    for plan in context.lookups:
        schema = schema.add(page_column(plan.position), LongType())
    return schema.add(OWNER, IntegerType())


def exchanged(waiting: DataFrame, parts: int) -> DataFrame:
    """Send each waiting tuple to the partition that owns its range of R."""
    return waiting.repartitionById(parts, OWNER)


def forward(waiting: pa.Table, keys: list[KeyColumns], context: BatchContext) -> pa.Table:
    """Lay out tuples for their first exchange.

    Args:
        waiting: tuples with all fetched columns and `_missing`, shape (n,).
        keys: their keys, for each lookup.
        context: the batch.
    """
    missing = waiting[MISSING].to_numpy()
    for plan, key in zip(context.lookups, keys, strict=True):
        pages = np.full(waiting.num_rows, -1, np.int64)
        wanted = np.flatnonzero(missing & plan.bit)
        if wanted.size:
            pages[wanted] = _pages(plan, key.take(wanted))
        waiting = waiting.append_column(page_column(plan.position), pa.array(pages))
    return with_owner(waiting, context)


def with_owner(waiting: pa.Table, context: BatchContext) -> pa.Table:
    """Set the owner of each tuple for the first lookup that it still lacks."""
    missing = waiting[MISSING].to_numpy()
    owners = np.zeros(waiting.num_rows, np.int32)
    undecided = np.ones(waiting.num_rows, bool)
    for plan in context.lookups:
        here = np.flatnonzero(undecided & ((missing & plan.bit) != 0))
        if here.size:
            pages = waiting[page_column(plan.position)].to_numpy()[here]
            owners[here] = _owners(plan, pages, context.parts)
            undecided[here] = False
    if OWNER in waiting.column_names:
        waiting = waiting.drop_columns([OWNER])
    return waiting.append_column(OWNER, pa.array(owners))


def _pages(plan: LookupPlan, keys: KeyColumns) -> NDArray[np.int64]:
    if plan.pages is None:
        # Keys without an order that we know: any spread will do, as long as equal keys stay together.
        return keys.codes & 0x7FFF_FFFF
    return plan.pages.value().index.page_of(keys)


def _owners(plan: LookupPlan, pages: NDArray[np.int64], parts: int) -> NDArray[np.int32]:
    if plan.pages is None:
        return (pages % parts).astype(np.int32)
    return plan.pages.value().ranges.owner_of(pages)
