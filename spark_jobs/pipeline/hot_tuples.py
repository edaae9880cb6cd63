"""The driver's side of a front stage: learns from the batches which tuples of R are hot, publishes versions of them."""

from __future__ import annotations

import logging

import numpy as np
from pyspark import SparkContext

from spark_jobs.joins.semi_stream.front_stage import FrontStage
from spark_jobs.pipeline.batch_context import FrontStagePlan, HotTuples, LookupPlan
from spark_jobs.pipeline.mapped_broadcast import MappedBroadcast, unique_name
from spark_jobs.pipeline.task_reports import BatchReport
from spark_jobs.relation.relation_rows import RelationRows

_log = logging.getLogger(__name__)

# Hits of every hot tuple are counted in one batch of so many: frequencies change slowly, and the counts of a
# large hot set are megabytes that each task would have to send.
_COUNTED_BATCHES = 8


class HotTuplesKeeper:
    """Keeps the front stage of one lookup up to date.

    After each batch it takes the tuples of R that the back stage found frequent, and publishes a new
    version if that changes the cache. The running batch is never disturbed: a version is read-only, and
    the next batch names the one it uses.

    Args:
        plan: the lookup.
        context: Spark, to publish versions.
        memory_bytes: memory of the front stage; 0 if the lookup has none.
    """

    def __init__(self, plan: LookupPlan, context: SparkContext, memory_bytes: int) -> None:
        self._plan = plan
        self._spark = context
        self._stage = FrontStage(memory_bytes, max(plan.spec.tuple_bytes, 1)) if plan.front else None
        self._rows = RelationRows.empty(plan.spec)
        self._name = unique_name(f"hot-{plan.position}")
        self._published: MappedBroadcast | None = None
        self._batches = 0

    def plan_for_batch(self) -> FrontStagePlan:
        """What the next batch uses and reports."""
        if self._stage is None:
            return FrontStagePlan(None, most_offers=0, count_hits=False)
        return FrontStagePlan(
            hot=self._published,
            most_offers=self._stage.capacity,
            count_hits=self._batches % _COUNTED_BATCHES == 0,
        )

    def learn(self, report: BatchReport) -> None:
        """Take what a batch found out, and publish a new version if the cache changed. O(capacity)."""
        if self._stage is None:
            return
        self._batches += 1
        position = self._plan.position
        hits = report.hits(position)
        if hits is not None:
            self._stage.observe_hits(hits * _COUNTED_BATCHES)
        offers = report.offers(position)
        if offers and self._take(offers):
            self._publish()

    def close(self) -> None:
        """Free what was published."""
        if self._published is not None:
            self._published.withdraw()

    def _take(self, offers: list[tuple[RelationRows, np.ndarray]]) -> bool:
        """Offer tuples to the cache; whether that changed it."""
        assert self._stage is not None
        rows = RelationRows.concatenate([part for part, _ in offers])
        accepted = self._stage.offer(rows.keys.codes, np.concatenate([part for _, part in offers]))
        publication = self._stage.publish()
        if publication is None:
            return False
        candidates = RelationRows.concatenate([self._rows, rows.take(accepted)])
        self._rows = candidates.take(publication.sources)
        return True

    def _publish(self) -> None:
        assert self._stage is not None
        former, hot_set = self._published, self._stage.hot_set
        value = HotTuples(hot_set, self._rows)
        self._published = MappedBroadcast.publish(self._spark, self._name, hot_set.version, value)
        if former is not None:
            former.withdraw()
        _log.info("%s: %d hot tuples, version %d", self._plan.spec.relation, len(self._rows), hot_set.version)
