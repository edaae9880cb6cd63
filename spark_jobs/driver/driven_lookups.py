"""The lookups of a pipeline as its driver carries them from batch to batch: plans, front stages, the watch over R."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from psycopg2 import extensions
from pyspark import SparkContext

from spark_jobs.definition import PipelineDefinition
from spark_jobs.driver.lookups.page_renewal import PageRenewal
from spark_jobs.driver.lookups.planning import front_stage_bytes, plan_lookups
from spark_jobs.driver.lookups.snapshot_reading import SnapshotReading
from spark_jobs.hot_set.cache_files import CacheStore, LookupFolder, lookup_folder
from spark_jobs.hot_set.front_stage.hot_tuples import HotTuplesKeeper
from spark_jobs.hot_set.watch.lookup_watch import LookupWatch
from spark_jobs.hot_set.watch.relation_watch import RelationWatch
from spark_jobs.relation.postgres_snapshot import SnapshotStore
from spark_jobs.relation.reading_connection import ReadingConnection
from spark_jobs.relation.relation_spec import RelationSpec
from spark_jobs.settings import Home
from spark_jobs.stages.batch_context import FrontStagePlan, LookupPlan
from spark_jobs.stages.reports import BatchReport


class DrivenLookups:
    """Made before the driver takes the pipeline over, and closed at its end.

    Args:
        definition: the pipeline.
        relations: its relations, as the catalog describes them.
        home: the installation.
        warehouse_url: libpq URL of the warehouse.
        context: Spark.
        parts: tasks that share a lookup's back stage.

    Attributes:
        plans: the plan of each lookup in the batch that was planned last, in the pipeline's order.
    """

    def __init__(
        self,
        definition: PipelineDefinition,
        relations: tuple[RelationSpec, ...],
        home: Home,
        warehouse_url: str,
        context: SparkContext,
        parts: int,
    ) -> None:
        self._live_plans = plan_lookups(definition, relations, warehouse_url, context, parts)
        self.plans: tuple[LookupPlan, ...] = self._live_plans
        self._snapshots: dict[int, SnapshotReading] = {}
        self._parts = parts
        self._definition = definition
        self._home = home
        self._url = warehouse_url
        self._spark = context
        self._renewals = [PageRenewal(warehouse_url, context) for _ in self._live_plans]
        self._keepers = [
            HotTuplesKeeper(plan, context, front_stage_bytes(lookup))
            for plan, lookup in zip(self.plans, definition.lookups, strict=True)
        ]
        self._watch: RelationWatch | None = None

    def begin(self, connection: extensions.connection) -> None:
        """Have changes of R noted, and fill the front stages with what former drivers or rebuilds have left.

        Args:
            connection: to the warehouse, where the pipeline is registered; not in a transaction.
        """
        reading = ReadingConnection(self._url, patience=0)  # the watch itself tries again
        writer = ThreadPoolExecutor(1, "hot-tuple-files")
        watches = []
        for plan, lookup, keeper in zip(self.plans, self._definition.lookups, self._keepers, strict=True):
            folder = lookup_folder(self._home, self._definition.name, plan.position, plan.spec, connection)
            snapshot = self._snapshot_of(plan, folder) if lookup.read == "snapshot" else None
            if plan.front or snapshot is not None:
                store = CacheStore(folder.hot_tuples)
                watches.append(LookupWatch(lookup, plan, keeper, store, reading, writer, snapshot))
        connection.commit()
        self._watch = RelationWatch(self._url, self._definition.name, watches, writer)
        self._watch.begin(connection)

    def start_watching(self, epoch: int) -> None:
        """From now on bring changes of R into the front stages; tell the warehouse so, as the driver of this epoch."""
        assert self._watch is not None
        self._watch.start_as(epoch)

    def plan_for_batch(self) -> tuple[tuple[LookupPlan, ...], tuple[FrontStagePlan, ...]]:
        """The plan and the front stage of each lookup for the next batch. Between two batches."""
        fronts = tuple(keeper.plan_for_batch() for keeper in self._keepers)
        # After that: a change that the front stages have dealt with must be known to be missing in a snapshot.
        self.plans = tuple(
            self._snapshots[plan.position].plan_for_batch(plan) if plan.position in self._snapshots else plan
            for plan in self._live_plans
        )
        return self.plans, fronts

    def learn(self, report: BatchReport) -> None:
        """Take what a batch found out. Between two batches: pages of R may be cut anew, which no task may use then."""
        for keeper in self._keepers:
            keeper.learn(report)
        for number, renewal in enumerate(self._renewals):
            self._renew_pages(number, renewal)

    def close(self) -> None:
        """Write down what was learned, end the watch, and free what was published."""
        if self._watch is not None:
            self._watch.stop()
        for keeper in self._keepers:
            keeper.close()
        for snapshot in self._snapshots.values():
            snapshot.close()

    def _renew_pages(self, number: int, renewal: PageRenewal) -> None:
        former = self._live_plans[number]
        renewed = renewal.after_batch(former)
        if renewed is former:
            return
        # First of all: whatever goes wrong from here on, no later batch may be planned with pages that are withdrawn.
        self._live_plans = (*self._live_plans[:number], renewed, *self._live_plans[number + 1 :])
        if former.pages is not None:
            former.pages.withdraw()

    def _snapshot_of(self, plan: LookupPlan, folder: LookupFolder) -> SnapshotReading:
        store, oldest = SnapshotStore(folder.snapshots), self._definition.retention.ledger
        reading = SnapshotReading(store, self._url, self._spark, self._parts, oldest)
        self._snapshots[plan.position] = reading
        return reading
