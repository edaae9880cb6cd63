"""The task of a bucket whose facts accumulate: it puts the parts of each key together, and loads them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from spark_jobs.loading.accumulation.accumulating_batch import AccumulatingBatch
from spark_jobs.loading.accumulation.arrived_parts import ArrivedParts, chunks
from spark_jobs.loading.loader import Loader
from spark_jobs.stages.batch_context import BatchContext, TaskReport
from spark_jobs.stages.collect_task import by_stream
from spark_jobs.stages.task_loading import is_retried


def accumulate_task(context: BatchContext, parcels: Iterable[bytes], report: Callable[[TaskReport], Any]) -> None:
    """Load the parts of one bucket.

    Args:
        context: the batch, whose destination is an AccumulatingBatch.
        parcels: the parts that arrived for it; they are in memory.
        report: takes the task's report when it has ended.
    """
    started = time.perf_counter()
    batch = context.destination
    assert isinstance(batch, AccumulatingBatch)
    streams = [part.stream for part in batch.table.parts]
    tuples = dict(zip(streams, by_stream(parcels, len(streams)), strict=True))
    arrived = ArrivedParts({stream: found for stream, found in tuples.items() if found is not None})
    loader = Loader(context.warehouse_url, batch, retried=is_retried())
    loading = 0.0
    for chunk in chunks(arrived, batch.table):
        transaction = batch.placing(chunk)
        began = time.perf_counter()
        loader.store(transaction)
        loading += time.perf_counter() - began
    seconds = {"join": 0.0, "load": loading, "total": time.perf_counter() - started}
    report(TaskReport(stage="front", seconds=seconds, counts={}))
