"""The lookups of a pipeline as its driver carries them from batch to batch: plans, front stages, the watch over R."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

from numpy import int64
from numpy.typing import NDArray
from psycopg2 import extensions
from pyspark import SparkContext

from spark_jobs.definition import PipelineDefinition
from spark_jobs.lookup.hot_keys.hot_set_files import HotSetFiles
from spark_jobs.lookup.hot_keys.learned import LearnedHotSet
from spark_jobs.lookup.hot_keys.lookup_watch import LookupWatch
from spark_jobs.lookup.hot_keys.publishing import FrontStagePlan, Leases
from spark_jobs.lookup.hot_keys.relation_watch import RelationWatch
from spark_jobs.lookup.local_copy.store import CopyStore
from spark_jobs.lookup.lookup_folder import LookupFolder, lookup_folder
from spark_jobs.lookup.planning.copy_reading import CopyReading
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.lookup.planning.memory import front_stage_bytes, said_of_memory
from spark_jobs.lookup.planning.page_renewal import PageRenewal
from spark_jobs.lookup.planning.planning import plan_lookups
from spark_jobs.lookup.relation.reading_connection import ReadingConnection, reading_connection
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.settings import Home
from spark_jobs.warehouse.connection_pool import ConnectionPool


class Found(Protocol):
    """What a batch's tasks found out about R."""

    def hits(self, lookup: int) -> NDArray[int64] | None:
        """Hits of each slot of a lookup's hot set, int64 (slots,); None where nothing was counted."""

    def offers(self, lookup: int) -> list[tuple[RelationRows, NDArray[int64]]]:
        """Tuples of R that proved frequent, with their frequencies, int64 (n,)."""


class DrivenLookups:
    """Made before the driver takes the pipeline over, and closed at its end.

        plan_for_batch(7) --> (the batch is under way) --> learn(its report, 7) --> release(7)

    Several batches may be under way at once, and end in any order. What one was planned with (hot tuples, pages of R,
    a copy of it, changed keys) stands until it is released. One thread plans; any may learn and release meanwhile.

    Args:
        definition: the pipeline.
        relations: its relations, as the catalog describes them.
        home: the installation.
        pool: connections to the warehouse.
        context: Spark.
        parts: tasks that share a lookup's back stage.
    """

    def __init__(
        self,
        definition: PipelineDefinition,
        relations: tuple[RelationSpec, ...],
        home: Home,
        pool: ConnectionPool,
        context: SparkContext,
        parts: int,
    ) -> None:
        self._live_plans = plan_lookups(definition, relations, pool.url, context, parts)
        reading_connection(pool.url).close()  # of this thread, which stays, and will not read R soon
        self._copies: dict[int, CopyReading] = {}
        self._parts = parts
        self._definition = definition
        self._home = home
        self._pool = pool
        self._spark = context
        self._leases = Leases()
        self._plans_lock = threading.Lock()  # the live plans, and the leases of their pages
        self._learning = threading.Lock()
        self._renewals = [PageRenewal(pool.url, context) for _ in self._live_plans]
        self._hot_sets = [
            LearnedHotSet(plan.spec, plan.position, context, front_stage_bytes(lookup), self._leases)
            for plan, lookup in zip(self._live_plans, definition.lookups, strict=True)
        ]
        self._watches: dict[int, LookupWatch] = {}
        self._watch: RelationWatch | None = None

    def begin(self, connection: extensions.connection) -> None:
        """Have changes of R noted, and fill the hot sets with what former drivers or rebuilds have left.

        Args:
            connection: to the warehouse, where the pipeline is registered; not in a transaction.
        """
        reading = ReadingConnection(self._pool.url, patience=0)  # the watch itself tries again
        writer = ThreadPoolExecutor(1, "hot-set-files")
        for plan, lookup, hot_set in zip(self._live_plans, self._definition.lookups, self._hot_sets, strict=True):
            folder = lookup_folder(self._home, self._definition.name, plan.position, plan.spec, connection)
            copy = self._copy_of(plan, folder) if lookup.read == "snapshot" else None
            if plan.front or copy is not None:
                files, in_use = HotSetFiles(folder.hot_set), None if copy is None else copy.in_use
                of_lookup = (lookup, plan.spec, plan.position, hot_set, files, reading)
                watch = LookupWatch(*of_lookup, front_stage_bytes(lookup), writer, in_use)
                self._watches[plan.position] = watch
        connection.commit()
        self._watch = RelationWatch(self._pool, self._definition.name, list(self._watches.values()), reading, writer)
        self._watch.begin(connection)

    def take_in(self) -> bool:
        """Have hot what has been read of R by now; before the watch starts. Whether all of some R is still being read.

        Raises:
            psycopg2.Error, WarehouseUnavailableError: the warehouse is away.
        """
        assert self._watch is not None
        return self._watch.take_in()

    def start_watching(self, epoch: int) -> None:
        """From now on bring changes of R into the hot sets; tell the warehouse so, as the driver of this epoch."""
        assert self._watch is not None
        self._watch.start_as(epoch)

    def plan_for_batch(self, batch_no: int) -> tuple[tuple[LookupPlan, ...], tuple[FrontStagePlan, ...]]:
        """The plan and the front stage of each lookup for a batch, in the pipeline's order; under way from now on.

        Args:
            batch_no: its number. A batch that is planned again, because it failed, lets go of its former plan.

        Raises:
            WarehouseUnavailableError: the warehouse went away and did not come back in time.
        """
        self.release(batch_no)
        fronts = tuple(hot_set.plan_for_batch(batch_no) for hot_set in self._hot_sets)
        with self._plans_lock:
            live_plans = self._live_plans
            for plan in live_plans:
                if plan.pages is not None:
                    self._leases.take(batch_no, plan.pages)
        # After the fronts: a change that they have dealt with must be known to be missing in a copy.
        plans = tuple(
            self._copies[plan.position].plan_for_batch(plan, batch_no) if plan.position in self._copies else plan
            for plan in live_plans
        )
        return tuple(map(self._explained, plans, self._hot_sets)), fronts

    def learn(self, report: Found, batch_no: int) -> None:
        """Take what a batch found out that is under way still."""
        with self._learning:
            for position, hot_set in enumerate(self._hot_sets):
                hot_set.learn(report.hits(position), report.offers(position), batch_no)
            for number, (renewal, hot_set) in enumerate(zip(self._renewals, self._hot_sets, strict=True)):
                if not hot_set.holds_all:  # else no page is read
                    self._renew_pages(number, renewal)

    def release(self, batch_no: int) -> None:
        """A batch has ended, well or not: what no other one uses, and is outdated, is withdrawn."""
        for hot_set in self._hot_sets:
            hot_set.release(batch_no)
        self._leases.release(batch_no)

    def close(self) -> None:
        """When no batch is under way: write down what was learned, end the watch, and free what was published."""
        if self._watch is not None:
            self._watch.stop()
        for hot_set in self._hot_sets:
            hot_set.close()
        for copy in self._copies.values():
            copy.close()
        for plan in self._live_plans:
            if plan.pages is not None:
                self._leases.retire(plan.pages)
        self._leases.release_all()

    def _renew_pages(self, number: int, renewal: PageRenewal) -> None:
        former = self._live_plans[number]
        renewed = renewal.after_batch(former)
        if renewed is former:
            return
        with self._plans_lock:
            self._live_plans = (*self._live_plans[:number], renewed, *self._live_plans[number + 1 :])
        if former.pages is not None:
            self._leases.retire(former.pages)

    def _explained(self, plan: LookupPlan, hot_set: LearnedHotSet) -> LookupPlan:
        """The plan with what is to be told of it: how much of R is hot, besides how R is read."""
        lookup = self._definition.lookups[plan.position]
        watch = self._watches.get(plan.position)
        unnoted = None if watch is None else watch.unnoted
        said = [plan.reading, said_of_memory(lookup, plan.spec, unnoted=unnoted, holds_all=hot_set.holds_all)]
        return replace(plan, reading="; ".join(each for each in said if each) or None)

    def _copy_of(self, plan: LookupPlan, folder: LookupFolder) -> CopyReading:
        store, oldest = CopyStore(folder.copies), self._definition.retention.ledger
        reading = CopyReading(store, self._pool.url, self._spark, self._parts, oldest, self._leases)
        self._copies[plan.position] = reading
        return reading
