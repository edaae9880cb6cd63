"""The way of a batch's tuples through the tasks: front stage, then for each lookup an exchange and a back stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spark_jobs.source.arrivals import ArrivalsReader
from spark_jobs.stages.back_task import back_task
from spark_jobs.stages.batch_context import BatchContext, TaskReport
from spark_jobs.stages.exchange import PARCEL_SCHEMA, exchanged
from spark_jobs.stages.front_task import front_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def settle(given: DataFrame, read: ArrivalsReader, context: BatchContext, report: Callable[[TaskReport], Any]) -> None:
    """Send tuples through the front stage and all back stages; each task loads what it settles.

    Args:
        given: what is handed to the first tasks.
        read: makes stream tuples of it.
        context: the batch.
        report: takes the tasks' reports.
    """
    waiting = given.mapInArrow(front_task(context, read, report), PARCEL_SCHEMA)
    for plan in context.lookups:
        task = back_task(context, plan.position, report)
        waiting = exchanged(waiting, context.parts).mapInArrow(task, PARCEL_SCHEMA)
    unsettled = waiting.collect()
    if unsettled:
        raise AssertionError(f"{len(unsettled)} parcels of {context.destination} passed all lookups unsettled")
