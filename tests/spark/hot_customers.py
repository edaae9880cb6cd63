"""The front stage of the shop's lookup of customers, driven by hand: batches and looks in any order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing

import numpy as np
import psycopg2
import pyarrow as pa
from psycopg2 import extensions
from pyspark import SparkContext

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.definition import Lookup, PipelineDefinition
from spark_jobs.driver.checks import check_tables
from spark_jobs.lookup.changes.triggers import WatchOutcome, watch_relations
from spark_jobs.lookup.hot_keys.cache_table import Watched
from spark_jobs.lookup.hot_keys.hot_tuples import HotTuples
from spark_jobs.lookup.hot_keys.learned import LearnedHotSet
from spark_jobs.lookup.hot_keys.noticing import Noticing
from spark_jobs.lookup.hot_keys.publishing import FrontStagePlan, Leases
from spark_jobs.lookup.planning.memory import front_stage_bytes
from spark_jobs.lookup.planning.planning import plan_lookups
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.relation_rows import RelationRows


class HotCustomers:
    """A hot set and its noticing.

    Args:
        definition: the pipeline, with one lookup.
        url: the warehouse.
        context: Spark.
        connection: to look for changes.
    """

    def __init__(
        self, definition: PipelineDefinition, url: str, context: SparkContext, connection: extensions.connection
    ) -> None:
        with closing(psycopg2.connect(url)) as checking:
            relations = check_tables(checking, definition).relations
        [self.plan] = plan_lookups(definition, relations, url, context, 2)
        [lookup] = definition.lookups
        self.connection = connection
        self.leases = Leases()
        self.batch_no = 0  # of the batch that began last
        self.hot_set = LearnedHotSet(self.plan.spec, 0, context, front_stage_bytes(lookup), self.leases)
        self.relation = LiveRelation(url, self.plan.spec)
        self.seconds_passed = 0.0  # beside those that do
        self.noticing = Noticing(lookup, self.relation, self.hot_set, lambda: time.monotonic() + self.seconds_passed)
        self.noticing.watch(connection, self.outcome(lookup))

    def outcome(self, lookup: Lookup) -> WatchOutcome:
        """Whether triggers note the relation's changes now."""
        return watch_relations(self.connection, [lookup])[self.plan.spec.relation]

    def read(self, customers: Sequence[int]) -> RelationRows:
        """What a back stage finds in R now."""
        keys = KeyColumns.encode([pa.array(customers, pa.int64())], self.plan.spec.key_kinds)
        return self.relation.lookup_keys(keys).rows

    def begin_batch(self) -> FrontStagePlan:
        """A batch is planned, whatever others are under way."""
        self.batch_no += 1
        return self.hot_set.plan_for_batch(self.batch_no)

    def end_batch(
        self, found: RelationRows, frequency: int = 10, hits: np.ndarray | None = None, batch_no: int | None = None
    ) -> None:
        """A batch ends, the one that began last unless one is named, and its back stage has found these."""
        batch_no = self.batch_no if batch_no is None else batch_no
        offers = [(found, np.full(len(found), frequency, np.int64))] if len(found) else []
        self.hot_set.learn(hits, offers, batch_no)
        self.release(batch_no)

    def release(self, batch_no: int) -> None:
        """A batch has ended."""
        self.hot_set.release(batch_no)
        self.leases.release(batch_no)

    def batch(self, customers: Sequence[int]) -> None:
        """A whole batch that finds these in R."""
        self.begin_batch()
        self.end_batch(self.read(customers))

    def look(self) -> None:
        """The watch looks for changes, once."""
        self.noticing.notice(self.connection)

    def mode(self) -> Watched:
        """How changes are noticed now."""
        return self.noticing.watched

    def hot(self) -> dict[int, str | None]:
        """City of each hot customer, as the next batch would find it."""
        plan = self.hot_set.plan_for_batch(-1)
        hot: HotTuples | None = None if plan.hot is None else plan.hot.value()
        self.release(-1)
        if hot is None:
            return {}
        return dict(zip(hot.hot_set.keys.tolist(), hot.columns["city"].to_pylist(), strict=True))
