"""The hot set of a lookup as the driver has it: learned from batches, reread when R changes, published in versions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from pyspark import SparkContext

from spark_jobs.hot_set.hot_set_files import HotSetVersion
from spark_jobs.hot_set.publishing import FrontStagePlan, HotTuples, Leases, MappedBroadcast, unique_name
from spark_jobs.joins.semi_stream.front_stage import FrontStage
from spark_jobs.joins.semi_stream.hot_set import HotSet
from spark_jobs.relation.changes.unnoticed import ChangedKeys, Changes
from spark_jobs.relation.keys.key_columns import KeyColumns
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.relation.relation_spec import RelationSpec

_log = logging.getLogger(__name__)

# Hits of every hot tuple are counted in one of this many batches: frequencies change slowly, and the counts of a
# large hot set are megabytes that each task would have to send.
_COUNTED_BATCHES = 8

Reread = Callable[[KeyColumns], RelationRows]
"""Reads the tuples of R that have these keys, as they are now."""

Offers = list[tuple[RelationRows, NDArray[np.int64]]]
"""Tuples of R, each int64 (n,) times found."""


def rehearse_learning() -> None:
    """Have the code compiled or loaded that a driver learns by; otherwise the first batches would wait for it."""
    stage = FrontStage(1 << 16, 64)
    keys, counts = np.arange(8), np.ones(8, np.int64)
    for _ in range(2):
        stage.offer(keys, 100 * counts)
        stage.publish()
    stage.observe_hits(np.ones(stage.hot_set.slot_count, np.int64))
    stage.remove(np.array([0]))
    stage.replace_all(keys, counts.astype(np.float32))
    stage.hot_set.probe(keys)


@dataclass(frozen=True)
class _Published:
    """A version that tasks can use, and its keys."""

    broadcast: MappedBroadcast
    hot_set: HotSet


@dataclass
class _UnderWay:
    """A batch: the version that it was planned with, whether it counts hits, and what has changed since."""

    used: _Published | None
    counts_hits: bool
    changed: ChangedKeys = field(default_factory=ChangedKeys)


class LearnedHotSet:
    """The hot set of one lookup, as the driver learns and keeps it.

        batches:        plan_for_batch --> (the tasks) --> learn --> release      tuples found frequent come in
        watch thread:   refresh, replace, export                                  tuples that changed are read again

    From each batch it takes the tuples of R that the back stage found frequent, and publishes a new version if
    that changes the cache. Several batches may be under way, and none is disturbed: a version is read-only, and stands
    until the last batch that was planned with it is released. All may be called from any thread: they share the state
    under a lock that none holds while it reads or publishes.

    What a batch found may be older than a change that was noticed after it was planned. Such tuples are not taken:
    their change has been dealt with, and they would not be read again.

    Args:
        spec: the relation.
        position: number of the lookup in the pipeline, from 0.
        context: Spark, to publish versions.
        memory_bytes: memory of the front stage; 0 if the lookup has none.
        leases: which values the batches under way use.
    """

    def __init__(
        self, spec: RelationSpec, position: int, context: SparkContext, memory_bytes: int, leases: Leases
    ) -> None:
        self._spec = spec
        self._spark = context
        self._leases = leases
        self._stage = FrontStage(memory_bytes, max(spec.tuple_bytes, 1)) if memory_bytes else None
        self._rows = RelationRows.empty(spec)
        self._name = unique_name(f"hot-{position}")
        self._version = 0  # counts up whenever keys or tuples change
        self._newest: _Published | None = None
        self._under_way: dict[int, _UnderWay] = {}
        self._until_counted = 0  # batches to plan before one that counts hits
        self._lock = threading.Lock()

    @property
    def hot_tuples(self) -> int:
        """Tuples in the hot set."""
        return len(self._rows)

    @property
    def hot_keys(self) -> KeyColumns:
        """Keys of the tuples in the hot set."""
        with self._lock:
            return self._rows.keys

    def plan_for_batch(self, batch_no: int) -> FrontStagePlan:
        """What a batch uses and reports. O(1): what was refreshed until now is published already."""
        if self._stage is None:
            return FrontStagePlan(None, most_offers=0, count_hits=False)
        with self._lock:
            newest = self._newest
            counts = self._until_counted == 0
            self._until_counted = _COUNTED_BATCHES - 1 if counts else self._until_counted - 1
            self._under_way[batch_no] = _UnderWay(newest, counts)
            if newest is not None:
                self._leases.take(batch_no, newest.broadcast)
        return FrontStagePlan(
            hot=None if newest is None else newest.broadcast, most_offers=self._stage.capacity, count_hits=counts
        )

    def learn(self, hits: NDArray[np.int64] | None, offers: Offers, batch_no: int) -> None:
        """Take what a batch that is under way found out, and publish if the hot set changed. O(capacity).

        Args:
            hits: hits of each slot of the version that it used, int64 (slots,); None where they were not counted.
            offers: tuples of R that its tasks found frequent, with how often each was found.
            batch_no: the batch.
        """
        if self._stage is None:
            return
        with self._lock:
            batch = self._under_way[batch_no]
            batch.counts_hits = False
            if hits is not None:
                self._observe(hits * _COUNTED_BATCHES, batch)
            changed = bool(offers) and self._take(offers, batch)
        if changed:
            self._publish()

    def release(self, batch_no: int) -> None:
        """A batch has ended. If it counted hits, and nothing was learned from it, the next one does."""
        with self._lock:
            batch = self._under_way.pop(batch_no, None)
            if batch is not None and batch.counts_hits:
                self._until_counted = 0

    def refresh(self, changes: Changes, reread: Reread) -> None:
        """Read the hot tuples that have changed again, and publish: every batch planned after this uses them so.

        Args:
            changes: what has changed in R.
            reread: reads tuples of R. If it raises, the hot set stays as it was: call again with these changes.
        """
        if self._stage is None or changes.nothing:
            return
        with self._lock:
            # First of all: which of the changed tuples are hot must not grow while they are read.
            self._note(changes)
            stale = self._rows.keys if changes.anything else self._hot_among(changes.keys)
        self.read_again(stale, reread)

    def read_again(self, keys: KeyColumns, reread: Reread) -> None:
        """Read hot tuples again, without knowing of any change, and publish.

        What a batch under way finds may be older, and is taken all the same: this is for callers that read all hot
        tuples again and again. Who will not do so once more has to call `refresh`.

        Args:
            keys: which tuples; those that are hot no longer are left out.
            reread: reads tuples of R. If it raises, the hot set stays as it was.
        """
        if not len(keys):
            return
        found = reread(keys)
        with self._lock:
            changed = self._put(keys.codes, found)
        if changed:
            self._publish()

    def replace(self, rows: RelationRows, frequencies: NDArray[np.float32], changes: Changes, reread: Reread) -> None:
        """Take over other hot tuples: a rebuilt version, or that with which a driver starts.

        Args:
            rows: tuples of R, n of them; the most frequent are taken if they are too many.
            frequencies: float32, shape (n,), how often each was found.
            changes: what has changed in R since they were read.
            reread: reads tuples of R.
        """
        if self._stage is None:
            return
        if len(rows) > self._stage.capacity:
            frequent = np.argpartition(frequencies, -self._stage.capacity)[-self._stage.capacity :]
            rows, frequencies = rows.take(frequent), frequencies[frequent]
        hot_set = HotSet(0, rows.keys.codes)
        slots = np.unique(hot_set.probe(changes.keys.codes))
        stale = rows.keys if changes.anything else rows.keys.take(slots[slots >= 0])
        if len(stale):
            rows, gone = _with_reread(rows, hot_set, stale.codes, reread(stale))
            kept = np.delete(np.arange(len(rows)), gone)
            rows, frequencies = rows.take(kept), frequencies[kept]
        with self._lock:
            self._note(changes)
            self._stage.replace_all(rows.keys.codes, frequencies)
            self._rows = rows
            self._version += 1
        self._publish()

    def forget(self) -> None:
        """Drop all tuples, and publish; what the batches under way find is not taken either."""
        if self._stage is None:
            return
        with self._lock:
            for batch in self._under_way.values():
                batch.changed.add_all()
            self._rows = RelationRows.empty(self._spec)
            self._stage.replace_all(self._rows.keys.codes, np.empty(0, np.float32))
            self._version += 1
        self._publish()

    def export(self, noticed: str | None) -> HotSetVersion | None:
        """The hot set as it is now, to be written down; None where there is nothing.

        Args:
            noticed: pg_snapshot of the last refresh; None where changes are not noticed.
        """
        with self._lock:
            if self._stage is None or not len(self._rows):
                return None
            frequencies = self._stage.frequencies.copy()
            return HotSetVersion(1, "learned", datetime.now(UTC), self._rows, frequencies, noticed)

    def close(self) -> None:
        """Free what was published, once no batch uses it."""
        with self._lock:
            newest, self._newest = self._newest, None
        if newest is not None:
            self._leases.retire(newest.broadcast)

    def _note(self, changes: Changes) -> None:
        for batch in self._under_way.values():
            if changes.anything:
                batch.changed.add_all()
            else:
                batch.changed.add(changes.keys.codes)

    def _hot_among(self, keys: KeyColumns) -> KeyColumns:
        """Those of the hot tuples that have one of these keys."""
        assert self._stage is not None
        slots = np.unique(self._stage.hot_set.probe(keys.codes))
        return self._rows.keys.take(slots[slots >= 0])

    def _observe(self, hits: NDArray[np.int64], batch: _UnderWay) -> None:
        """Record the hits of the version that the batch used, whose slots may be others' by now."""
        assert self._stage is not None
        used = batch.used
        if used is not None and used.hot_set is not self._stage.hot_set:
            slots = self._stage.hot_set.probe(used.hot_set.keys)
            still = slots >= 0
            moved = np.zeros(self._stage.hot_set.slot_count, np.int64)
            moved[slots[still]] = hits[still]
            hits = moved
        self._stage.observe_hits(hits)

    def _take(self, offers: Offers, batch: _UnderWay) -> bool:
        """Offer what a batch found to the hot set; whether that changed it."""
        assert self._stage is not None
        rows = RelationRows.concatenate([part for part, _ in offers])
        frequencies = np.concatenate([part for _, part in offers])
        outdated = batch.changed.contains(rows.keys.codes)
        if outdated.any():
            current = np.flatnonzero(~outdated)
            rows, frequencies = rows.take(current), frequencies[current]
        accepted = self._stage.offer(rows.keys.codes, frequencies)
        publication = self._stage.publish()
        if publication is None:
            return False
        candidates = RelationRows.concatenate([self._rows, rows.take(accepted)])
        self._rows = candidates.take(publication.sources)
        self._version += 1
        return True

    def _put(self, asked: NDArray[np.int64], found: RelationRows) -> bool:
        """Put tuples that were read again into the hot set, and drop those that are gone; whether that changed it."""
        assert self._stage is not None
        rows, gone = _with_reread(self._rows, self._stage.hot_set, asked, found)
        if gone.size:
            rows = rows.take(self._stage.remove(gone).sources)
        elif rows.columns.equals(self._rows.columns):
            return False  # what changed is not fetched
        self._rows = rows
        self._version += 1
        return True

    def _publish(self) -> None:
        assert self._stage is not None
        with self._lock:
            version, value = self._version, HotTuples(self._stage.hot_set, self._rows)
        published = _Published(MappedBroadcast.publish(self._spark, self._name, version, value), value.keys)
        with self._lock:
            outdated = self._newest
            if outdated is None or outdated.broadcast.version < version:
                self._newest = published
            else:
                outdated = published  # another thread was quicker with a newer version
        if outdated is not None:
            self._leases.retire(outdated.broadcast)
        _log.info("%s: %d hot tuples, version %d", self._spec.relation, len(value.rows), version)


def _with_reread(
    rows: RelationRows, hot_set: HotSet, asked: NDArray[np.int64], found: RelationRows
) -> tuple[RelationRows, NDArray[np.int64]]:
    """Hot tuples with those that were read again as they are now.

    Args:
        rows: the hot tuples, in the order of the slots.
        hot_set: their keys.
        asked: int64, shape (n,), codes of the keys that were looked up; some may have left the hot set since.
        found: what R has of them.

    Returns:
        The tuples, in the same slots; and the slots of those that R no longer has, int64, ascending. O(slots).
    """
    slots = hot_set.probe(found.keys.codes)
    there = np.flatnonzero(slots >= 0)
    asked_slots = hot_set.probe(asked)
    gone = np.setdiff1d(asked_slots[asked_slots >= 0], slots)
    if not there.size:
        return rows, gone
    sources = np.arange(len(rows))
    sources[slots[there]] = len(rows) + there
    return RelationRows.concatenate([rows, found]).take(sources), gone
