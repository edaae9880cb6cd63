"""The driver's side of `read: copy`: which copy the next batch reads, and which keys have changed since."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from psycopg2 import extensions
from pyspark import SparkContext

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.lookup.changes.unnoticed import ChangedKeys, unnoticed
from spark_jobs.lookup.changes.watched_tables import noted_since
from spark_jobs.lookup.hot_keys.publishing import BroadcastSeries, Leases, MappedBroadcast
from spark_jobs.lookup.local_copy.copy_files import CopyInUse, CopyManifest
from spark_jobs.lookup.local_copy.local_copy import LocalCopy
from spark_jobs.lookup.local_copy.store import CopyStore
from spark_jobs.lookup.planning.lookup_plan import CopyPlan, LookupPlan, OwnedPages
from spark_jobs.lookup.planning.memory import page_rows_within
from spark_jobs.lookup.planning.planning import check_memory, measured
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.reading_connection import reading_connection

_log = logging.getLogger(__name__)

# How often is looked for a newer copy, and whether changes are still noted. Changes are asked for by every batch.
LOOKED_FOR_SECONDS = 2.0
_LIVE = "R is read live: "


class CopyReading:
    """Turns the live plan of one lookup into one that reads a copy, from batch to batch, where it can.

    Not where there is no sound copy, where changes since it was taken have not all been noted or are too many,
    or where its pages don't fit the back stage's memory: the plan's `reading` then says why R is read live.

    Args:
        store: the copies of the relation.
        warehouse_url: where R is.
        context: Spark, to broadcast what the tasks need.
        parts: tasks that share the back stage.
        oldest: age from which on noted changes may have been deleted; None: they are kept for ever.
        leases: which values the batches under way use.

    Attributes:
        in_use: the copy that the batch planned last reads.
    """

    def __init__(
        self,
        store: CopyStore,
        warehouse_url: str,
        context: SparkContext,
        parts: int,
        oldest: timedelta | None,
        leases: Leases,
    ) -> None:
        self.in_use = CopyInUse()
        self._store = store
        self._url = warehouse_url
        self._published = _Published.of(context)
        self._leases = leases
        self._parts = parts
        self._oldest = oldest
        self._looked_at = -LOOKED_FOR_SECONDS
        self._taken: _TakenCopy | None = None
        self._trusted = False

    def plan_for_batch(self, live: LookupPlan, batch_no: int) -> LookupPlan:
        """The plan of a batch. One at a time; others may be under way, and keep what they were planned with.

        Args:
            live: the plan that reads R itself.
            batch_no: the batch.

        Raises:
            WarehouseUnavailableError: the warehouse went away and did not come back in time.
        """
        if time.monotonic() - self._looked_at >= LOOKED_FOR_SECONDS:
            self._look(live)
            self._looked_at = time.monotonic()
        plan = self._planned(live)
        if self._taken is not None and plan.copy is not None:
            for value in self._taken.published:
                self._leases.take(batch_no, value)
        self.in_use.manifest = self._taken.manifest if self._taken is not None and plan.copy is not None else None
        return plan

    def close(self) -> None:
        """Free what was published, once no batch uses it."""
        if self._taken is not None:
            for value in self._taken.published:
                self._leases.retire(value)
            self._taken = None

    def _look(self, live: LookupPlan) -> None:
        """Take a newer copy up, and find out whether changes since it was taken are known."""
        newest, refused = self._store.newest_sound(self._taken.manifest.version if self._taken is not None else 0)
        if not refused:
            self.in_use.refused = None
        elif self.in_use.refused is None or self.in_use.refused[0] != str(refused[0]):
            _log.error("%s: %s", live.spec.relation, refused[0])
            self.in_use.refused = (str(refused[0]), datetime.now(UTC))
        if newest is not None:
            self.close()
            self._taken = _TakenCopy(newest, live, self._url, self._published, self._parts, self._leases)
            _log.info("%s: reads copy %d from now on", live.spec.relation, newest.version)
        self._trusted = self._taken is not None and reading_connection(self._url).run(self._changes_were_noted)

    def _changes_were_noted(self, connection: extensions.connection) -> bool:
        assert self._taken is not None
        manifest = self._taken.manifest
        if self._oldest is not None and datetime.now(UTC) - manifest.built_at > self._oldest:
            return False
        return noted_since(connection, self._taken.relation, manifest.noticed)

    def _planned(self, live: LookupPlan) -> LookupPlan:
        if live.spec.page_refusal is not None:
            return replace(live, reading=f"{_LIVE}it can't be read by pages, as a snapshot is")
        if self._taken is None:
            return replace(live, reading=f"{_LIVE}there is no snapshot yet; rebuild the cache")
        taken, name = self._taken, f"snapshot {self._taken.manifest.version}"
        if taken.refusal is not None:
            return replace(live, reading=f"{_LIVE}{taken.refusal}")
        if not self._trusted:
            return replace(live, reading=f"{_LIVE}not all changes since {name} were noted; rebuild the cache")
        changed = taken.notice_changes(live)
        if changed.overflow:
            return replace(live, reading=f"{_LIVE}too much has changed since {name}; rebuild the cache")
        at = f"{taken.manifest.built_at:%Y-%m-%d %H:%M:%S} UTC"
        reading = f"R is read from {name} of {at}, {len(changed):,} changed keys live"
        return replace(live, pages=taken.pages, costs=taken.costs or live.costs, copy=taken.plan(), reading=reading)


class _Published(NamedTuple):
    """What is published of each copy, under the same names as of the one before: a worker keeps one of each."""

    manifests: BroadcastSeries
    pages: BroadcastSeries
    changes: BroadcastSeries

    @classmethod
    def of(cls, context: SparkContext) -> _Published:
        return cls(*(BroadcastSeries(context, f"copy-{each}") for each in cls._fields))


class _TakenCopy:
    """A copy that batches read, with what has been published of it."""

    def __init__(
        self,
        manifest: CopyManifest,
        live: LookupPlan,
        url: str,
        published: _Published,
        parts: int,
        leases: Leases,
    ) -> None:
        self.manifest = manifest
        self.relation = live.spec.relation
        self.refusal: str | None = None
        self._url = url
        self._published = published
        self._leases = leases
        self._changes = ChangedKeys()
        self._noticed = manifest.noticed
        self._changed: MappedBroadcast | None = None
        copy = self._fitting(live)
        self.costs = measured(copy, live.back_stage_bytes) if self.refusal is None and live.costs else None
        self._manifest = published.manifests.publish(manifest)
        self.pages = published.pages.publish(OwnedPages(copy.pages, copy.pages.ranges(parts)))

    def plan(self) -> CopyPlan:
        """How tasks read it."""
        return CopyPlan(self._manifest, self._changed)

    def notice_changes(self, live: LookupPlan) -> ChangedKeys:
        """The keys that have changed since it was taken, as of now; published for the tasks."""
        changes = reading_connection(self._url).run(lambda reading: unnoticed(reading, live.spec, self._noticed))
        self._noticed = changes.noticed
        before = len(self._changes)
        if changes.anything:
            self._changes.add_all()
        self._changes.add(changes.keys.codes)
        if len(self._changes) != before and not self._changes.overflow:
            former = self._changed
            self._changed = self._published.changes.publish(self._changes.copy())
            if former is not None:
                self._leases.retire(former)
        return self._changes

    @property
    def published(self) -> list[MappedBroadcast]:
        """What tasks read it by, as of now."""
        return [self._manifest, self.pages, *([] if self._changed is None else [self._changed])]

    def _fitting(self, live: LookupPlan) -> LocalCopy:
        """The copy in pages that fit the back stage's memory; `refusal` says so where they do not."""
        stored = self.manifest.index.page_rows
        page_rows = max(1, page_rows_within(live.spec, live.back_stage_bytes) // stored) * stored
        source = LiveRelation(self._url, live.spec, self.manifest.index)
        copy = LocalCopy(self.manifest, live.spec, source, page_rows)
        try:
            check_memory(live.algorithm, copy, live.back_stage_bytes)
        except MemoryBudgetError as error:
            self.refusal = f"the pages of snapshot {self.manifest.version} are too large: {error}"
        return copy
