"""What the relation watch does for one lookup."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from datetime import timedelta

from psycopg2 import extensions

from spark_jobs.definition import Lookup
from spark_jobs.driver.lookups.copy_reading import CopyReading
from spark_jobs.hot_set.cache_files import CacheStore
from spark_jobs.hot_set.front_stage.hot_tuple_files import HotTupleFiles
from spark_jobs.hot_set.front_stage.hot_tuples import HotTuplesKeeper
from spark_jobs.hot_set.watch.noticing import Noticing
from spark_jobs.relation.changes.triggers import Outcome
from spark_jobs.relation.live import LiveRelation
from spark_jobs.relation.reading_connection import ReadingConnection
from spark_jobs.stages.batch_context import LookupPlan
from spark_jobs.warehouse.cache_rows import CacheRow


class LookupWatch:
    """Keeps the front stage of one lookup as new as R, and its files as new as the front stage.

    Args:
        lookup: the lookup.
        plan: its plan.
        keeper: its front stage.
        store: the versions of its hot tuples on disk.
        reading: connection that hot tuples are read again through.
        writer: writes files.
        copy: the lookup's local copy of R, where it reads one.
    """

    def __init__(
        self,
        lookup: Lookup,
        plan: LookupPlan,
        keeper: HotTuplesKeeper,
        store: CacheStore,
        reading: ReadingConnection,
        writer: Executor,
        copy: CopyReading | None,
    ) -> None:
        self.lookup = lookup
        self._position = plan.position
        self._keeper = keeper
        self._copy = copy
        self._noticing = Noticing(lookup, LiveRelation(reading.url, plan.spec, connection=reading), keeper)
        self._files = HotTupleFiles(plan.spec, keeper, store, self._noticing, writer)

    def begin(self, connection: extensions.connection, outcome: Outcome) -> None:
        """Before the first batch: fill the front stage from its files.

        Args:
            connection: to the warehouse.
            outcome: whether triggers note the relation's changes.
        """
        self._noticing.watch(connection, outcome)
        self._files.begin(connection)

    def watch(self, connection: extensions.connection, outcome: Outcome) -> None:
        """Triggers, or the tables themselves, may be others than the last time."""
        self._noticing.watch(connection, outcome)

    def notice(self, connection: extensions.connection) -> None:
        """Bring changes of R into the front stage."""
        self._noticing.notice(connection)

    def renew(self, connection: extensions.connection) -> None:
        """Take over a rebuilt version if there is a new one."""
        self._files.take_over_rebuilt(connection)

    def write_learned(self, *, at_end: bool = False) -> None:
        """Write down what the front stage holds, if it is time."""
        self._files.write_learned(at_end=at_end)

    def row(self) -> CacheRow:
        """What is to be told about it."""
        held, refused = self._files.held, self._files.refused
        in_use = None if self._copy is None else self._copy.in_use
        if refused is None and self._copy is not None:
            refused = self._copy.refused
        return CacheRow(
            lookup=self._position,
            relation=self.lookup.relation,
            version=0 if held is None else held.version,
            origin=None if held is None else held.origin,
            hot_tuples=self._keeper.hot_tuples,
            built_at=None if held is None else held.built_at,
            rebuilt_at=self._files.rebuilt_at,
            snapshot_version=None if in_use is None else in_use.version,
            snapshot_at=None if in_use is None else in_use.built_at,
            watched=self._noticing.watched,
            noticed=self._noticing.noticed,
            noticed_ago=timedelta(seconds=time.monotonic() - self._noticing.noticed_at),
            notice_changes=self.lookup.notice_changes,
            refused=None if refused is None else refused[0],
            refused_at=None if refused is None else refused[1],
        )
