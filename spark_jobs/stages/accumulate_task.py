"""The task of a bucket whose facts accumulate: it makes rows of the parts of each key, and fills in the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from spark_jobs.loading.accumulation.accumulating_batch import AccumulatingBatch
from spark_jobs.loading.accumulation.arrived_parts import PartsBeside, chunks
from spark_jobs.loading.accumulation.parts import of_joined_tuple
from spark_jobs.loading.loader import Loader
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.stages.batch_context import BatchContext, TaskReport
from spark_jobs.stages.collect_task import by_stream
from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.front_task import FrontTask
from spark_jobs.stages.task_loading import is_retried

_BLOCK_ROWS = 131_072


def accumulate_task(
    context: BatchContext, bucket: int, parcels: Iterable[bytes], report: Callable[[TaskReport], Any]
) -> Iterator[Parcel]:
    """Load the parts of one bucket; those that make rows go through the front stage, and take the others with them.

    Args:
        context: the batch, whose destination is an AccumulatingBatch.
        bucket: the bucket's number.
        parcels: the parts that arrived for it; they are in memory.
        report: takes the task's reports when it has ended.

    Returns:
        the parts that miss at least one front stage.
    """
    batch = context.destination
    assert isinstance(batch, AccumulatingBatch)
    parts = batch.table.parts
    arrived = {
        part.stream: of_joined_tuple(tuples, part)
        for part, tuples in zip(parts, by_stream(parcels, len(parts)), strict=True)
        if tuples is not None
    }
    makers = arrived.pop(batch.table.maker.stream, None)
    beside = PartsBeside(arrived, batch.table)
    if makers is not None:
        makers = makers.append_column(batch.event.event_time, makers[batch.table.maker.event_time])
        front = FrontTask(context, report, beside)
        for start in range(0, makers.num_rows, _BLOCK_ROWS):
            block: pa.Table = makers.slice(start, _BLOCK_ROWS).combine_chunks()
            yield from front.add(Arrivals(block, [], block.num_rows))
        front.finish()
    started = time.perf_counter()
    loader = Loader(context.warehouse_url, batch, retried=is_retried())
    for chunk in chunks(beside.left, batch.table):
        loader.store(batch.placing(chunk))
    spent = time.perf_counter() - started
    report(TaskReport(stage="parts", seconds={"load": spent}, counts={}))
