"""Loading inside a task: collects what the task settles and loads it in bounded chunks."""

from __future__ import annotations

import time

import pyarrow as pa
from pyspark import TaskContext

from spark_jobs.loading.accumulation.arrived_parts import PartsBeside
from spark_jobs.loading.chunk import chunk_rows
from spark_jobs.loading.loader import Loader
from spark_jobs.loading.outcome import Held, Outcome
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.stages.batch_context import BatchContext, concatenated


def is_retried() -> bool:
    """Whether the task that runs here has been tried before: some of its tuples may be stored already."""
    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0


class TaskLoading:
    """Facts and held tuples of one task, loaded chunk by chunk.

    Args:
        context: the batch.
        beside: parts that are to be loaded with the facts that they belong to, where facts accumulate.

    Attributes:
        seconds: time spent in the warehouse.
        unsettled: the event ids that the task has read, less those that it has loaded.
    """

    def __init__(self, context: BatchContext, beside: PartsBeside | None = None) -> None:
        read = [plan.spec for plan in context.lookups]
        self._loader = Loader(context.warehouse_url, context.destination, retried=is_retried(), read=read)
        self._beside = beside
        self._facts: list[pa.Table] = []
        self._held: list[Held] = []
        self._filled = 0.0  # share of a chunk
        self.seconds = 0.0
        self.unsettled = IdSketch()

    def add(self, facts: pa.Table | None, held: list[Held]) -> None:
        """Take settled tuples; loads them, and those before them, as chunks get full."""
        share = sum(part.tuples.num_rows / chunk_rows(part.tuples) for part in held)
        if facts is not None and facts.num_rows:
            share += facts.num_rows / chunk_rows(facts)
        if self._filled + share > 1:
            self.finish()
        if facts is not None and facts.num_rows:
            self._facts.append(facts)
        self._held += held
        self._filled += share
        if self._filled >= 1:
            self.finish()

    def finish(self) -> None:
        """Load what is there."""
        if not self._filled:
            return
        started = time.perf_counter()
        facts = concatenated(self._facts) if self._facts else None
        self._loader.load(Outcome(facts, self._held, self._beside))
        self.unsettled -= self._loader.settled
        self._loader.settled = IdSketch()
        self._facts, self._held, self._filled = [], [], 0.0
        self.seconds += time.perf_counter() - started


def partition_number() -> int:
    """Which of its stage's tasks this is; the same when it is tried again."""
    task = TaskContext.get()
    return 0 if task is None else task.partitionId()
