"""The hot set of a lookup as the driver has it: learned, or all of R; reread when R changes, published in versions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from pyspark import SparkContext

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.joins.semi_stream.front_stage import FrontStage, Publication
from spark_jobs.joins.semi_stream.hot_set import HotSet
from spark_jobs.lookup.changes.unnoticed import ChangedKeys, Changes, WholeRelation
from spark_jobs.lookup.changes.watched_tables import WatchedTable
from spark_jobs.lookup.hot_keys.hot_set_files import HotSetVersion
from spark_jobs.lookup.hot_keys.hot_tuples import HotTuples, Overlay, frequencies_of, hot_tuples_within
from spark_jobs.lookup.hot_keys.publishing import BroadcastSeries, FrontStagePlan, Leases, MappedBroadcast
from spark_jobs.lookup.hot_keys.whole_tuples import WholeTuples, in_slots
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.lookup.relation.relation_spec import RelationSpec

_log = logging.getLogger(__name__)

# Hits of every hot tuple are counted in one of this many batches: frequencies change slowly, and the counts of a
# large hot set are megabytes that each task would have to send.
_COUNTED_BATCHES = 8

Reread = Callable[[KeyColumns], RelationRows]
"""Reads the tuples of R that have these keys, as they are now."""

Offers = list[tuple[RelationRows, NDArray[np.int64]]]
"""Tuples of R, each int64 (n,) times found."""


def warm_up_learning() -> None:
    """Have the code compiled or loaded that a driver learns by; otherwise the first batches would wait for it."""
    stage = FrontStage(64)
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
    """A version that tasks can use.

    Attributes:
        version: its number, as the driver counts them.
        broadcast: its tuples.
        hot_set: their keys.
        rows: the tuples.
        overlay: what has changed since these were published; None where nothing has.
        whole: by what it is known that a key that it lacks is not in R; None where it does not hold all of R.
    """

    version: int
    broadcast: MappedBroadcast
    hot_set: HotSet
    rows: RelationRows
    overlay: MappedBroadcast | None
    whole: WholeRelation | None


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
    under a lock that none holds while it reads or publishes. Another lock has one publish at a time, so that versions
    follow each other; a publication that failed is made up for by the next refresh.

    Where all of R fits, it holds all of R, once that has been read: then nothing is learned, what changes is published
    as an overlay (`WholeTuples`), and as long as every change of R is noted, a key that is not hot is known not to be
    in R. If R outgrows the memory, or two of its keys get to share a hash code, it learns again.

    What a batch found may be older than a change that was noticed after it was planned. Such tuples are not taken:
    their change has been dealt with, and they would not be read again.

    Args:
        spec: the relation.
        position: number of the lookup in the pipeline, from 0.
        context: Spark, to publish versions.
        memory_bytes: memory of the hot tuples, which the workers of a host share; 0 if the lookup has no front stage.
        leases: which values the batches under way use.

    Attributes:
        capacity: how many tuples of R it holds.

    Raises:
        MemoryBudgetError: the memory holds none.
    """

    def __init__(
        self, spec: RelationSpec, position: int, context: SparkContext, memory_bytes: int, leases: Leases
    ) -> None:
        self._spec = spec
        self._leases = leases
        self.capacity = hot_tuples_within(memory_bytes, spec) if memory_bytes else 0
        self._memory_bytes = memory_bytes
        self._stage = FrontStage(self.capacity) if memory_bytes else None  # None: it does not learn
        self._whole: WholeTuples | None = None  # None: not all of R is hot, but what follows
        self._noted: WholeRelation | None = None  # up to when all of R has been brought up to date
        self._rows = RelationRows.empty(spec)
        self._hot_set, _ = HotSet.arranged(0, self._rows.keys.codes)
        self._series = BroadcastSeries(context, f"hot-{position}")
        self._overlays = BroadcastSeries(context, f"changed-{position}")
        self._version = 0  # counts up whenever keys or tuples change
        self._newest: _Published | None = None
        self._under_way: dict[int, _UnderWay] = {}
        self._until_counted = 0  # batches to plan before one that counts hits
        self._lock = threading.Lock()
        self._publishing = threading.Lock()  # taken before the other one

    @property
    def holds_all(self) -> bool:
        """Whether all of R is hot."""
        return self._whole is not None

    @property
    def hot_tuples(self) -> int:
        """Tuples in the hot set."""
        whole = self._whole
        return len(self._rows) if whole is None else len(whole)

    @property
    def hot_keys(self) -> KeyColumns:
        """Keys of the tuples in the hot set that are learned."""
        with self._lock:
            return self._rows.keys

    def plan_for_batch(self, batch_no: int) -> FrontStagePlan:
        """What a batch uses and reports. O(1): what was refreshed until now is published already."""
        if not self.capacity:
            return FrontStagePlan(None, most_offers=0, count_hits=False)
        with self._lock:
            newest, learns = self._newest, self._stage is not None
            counts = learns and self._until_counted == 0
            self._until_counted = _COUNTED_BATCHES - 1 if counts else max(self._until_counted - 1, 0)
            self._under_way[batch_no] = _UnderWay(newest, counts)
            if newest is not None:
                self._leases.take(batch_no, newest.broadcast)
                if newest.overlay is not None:
                    self._leases.take(batch_no, newest.overlay)
            most_offers = self.capacity if learns else 0
            if newest is None:
                return FrontStagePlan(None, most_offers, counts)
            return FrontStagePlan(newest.broadcast, most_offers, counts, newest.whole, newest.overlay)

    def learn(self, hits: NDArray[np.int64] | None, offers: Offers, batch_no: int) -> None:
        """Take what a batch that is under way found out, and publish if the hot set changed. O(capacity).

        Args:
            hits: hits of each slot of the version that it used, int64 (slots,); None where they were not counted.
            offers: tuples of R that its tasks found frequent, with how often each was found.
            batch_no: the batch.
        """
        with self._lock:
            if self._stage is None:
                return
            batch = self._under_way[batch_no]
            batch.counts_hits = False
            if hits is not None:
                self._observe(self._stage, hits * _COUNTED_BATCHES, batch)
            changed = bool(offers) and self._take(self._stage, offers, batch)
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
            reread: reads tuples of R. If it raises, the hot set stays as it was: call again with these changes; as
                where publishing raises.
        """
        if self.holds_all:
            self._refresh_all(changes, reread)
        else:
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
        if len(keys):
            found = reread(keys)
            with self._lock:
                self._put(keys, found)
        self._publish()

    def replace(self, rows: RelationRows, frequencies: NDArray[np.float32], changes: Changes, reread: Reread) -> None:
        """Take over other hot tuples: a rebuilt version, or that with which a driver starts.

        Args:
            rows: tuples of R, n of them; the most frequent are taken if they are too many.
            frequencies: float32, shape (n,), how often each was found.
            changes: what has changed in R since they were read.
            reread: reads tuples of R.
        """
        if not self.capacity:
            return
        if len(rows) > self.capacity:
            frequent = np.argpartition(frequencies, -self.capacity)[-self.capacity :]
            rows, frequencies = rows.take(frequent), frequencies[frequent]
        stale = rows.keys if changes.anything else rows.keys.take(np.flatnonzero(rows.keys.is_in(changes.keys)))
        if len(stale):
            found, kept = reread(stale), np.flatnonzero(~rows.keys.is_in(stale))
            again = frequencies_of(found.keys, rows.keys, frequencies)
            rows, frequencies = RelationRows.concatenate([rows.take(kept), found]), np.r_[frequencies[kept], again]
        with self._lock:
            self._note(changes)
            self._learn_from(rows, frequencies)
        self._publish()

    def hold_all(self, rows: RelationRows, tables: tuple[WatchedTable, ...], changes: Changes, reread: Reread) -> bool:
        """Have all of R hot from now on, if it fits as it is now. If this raises, the hot set stays as it was.

        Args:
            rows: all tuples of R whose codes differ.
            tables: those that hold R's rows, whose triggers have noted all changes since they were read.
            changes: what these are.
            reread: reads tuples of R.

        Returns:
            whether all of R is hot: not where anything may have changed, or it does not fit.
        """
        if changes.anything:
            return False
        with self._lock:
            self._note(changes)
        if len(changes.keys):
            kept = np.flatnonzero(~rows.keys.is_in(changes.keys))
            again = reread(changes.keys.distinct())
            rows = RelationRows.concatenate([rows.take(kept), again])
        if HotTuples.bytes_of(rows) > self._memory_bytes or not rows.keys.codes_differ:
            return False
        whole, noted = WholeTuples.of(rows), WholeRelation(changes.noticed, tables)
        with self._publishing:
            published = self._published(0, whole.hot_set, whole.base, whole, noted, None)
            with self._lock:
                # What was learned meanwhile is of no use any more.
                self._stage, self._whole, self._noted = None, whole, noted
                self._rows = RelationRows.empty(self._spec)
                self._hot_set, _ = HotSet.arranged(0, self._rows.keys.codes)
                self._version += 1
                outdated, self._newest = self._newest, replace(published, version=self._version)
        self._retire(outdated, published)
        return True

    def forget(self) -> None:
        """Drop all tuples, and publish; what the batches under way find is not taken either."""
        if not self.capacity:
            return
        with self._lock:
            for batch in self._under_way.values():
                batch.changed.add_all()
            self._learn_from(RelationRows.empty(self._spec), np.empty(0, np.float32))
        self._publish()

    def export(self, noticed: str | None) -> HotSetVersion | None:
        """What has been learned until now, to be written down; None where that is nothing.

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
            self._version = 0  # there is nothing to publish
        self._retire(newest, None)

    def _note(self, changes: Changes) -> None:
        for batch in self._under_way.values():
            if changes.anything:
                batch.changed.add_all()
            else:
                batch.changed.add(changes.keys.codes)

    def _hot_among(self, keys: KeyColumns) -> KeyColumns:
        """Those of the hot tuples that have one of these keys."""
        slots = np.unique(self._hot_set.probe(keys.codes))
        return self._rows.keys.take(slots[slots >= 0])

    def _observe(self, stage: FrontStage, hits: NDArray[np.int64], batch: _UnderWay) -> None:
        """Record the hits of the version that the batch used, whose slots may be others' by now."""
        used = batch.used
        if used is not None and used.hot_set is not self._hot_set:
            slots = self._hot_set.probe(used.hot_set.keys)
            still = slots >= 0
            moved = np.zeros(self._hot_set.slot_count, np.int64)
            moved[slots[still]] = hits[still]
            hits = moved
        stage.observe_hits(hits)

    def _take(self, stage: FrontStage, offers: Offers, batch: _UnderWay) -> bool:
        """Offer what a batch found to the hot set; whether that changed it."""
        rows = RelationRows.concatenate([part for part, _ in offers])
        frequencies = np.concatenate([part for _, part in offers])
        outdated = batch.changed.contains(rows.keys.codes)
        if outdated.any():
            current = np.flatnonzero(~outdated)
            rows, frequencies = rows.take(current), frequencies[current]
        accepted = stage.offer(rows.keys.codes, frequencies)
        publication = stage.publish()
        if publication is None:
            return False
        self._arrange(RelationRows.concatenate([self._rows, rows.take(accepted)]), publication)
        return True

    def _put(self, asked: KeyColumns, found: RelationRows) -> None:
        """Put tuples that were read again into the hot set, and drop those that are gone."""
        slots, gone = self._slots_of(asked, found)
        there = np.flatnonzero(slots >= 0)
        rows = _with(self._rows, found, slots[there], there)
        if gone.size and self._stage is not None:
            self._arrange(rows, self._stage.remove(gone))
        else:
            self._put_columns(rows)

    def _put_columns(self, rows: RelationRows) -> None:
        """Take other tuples for the same keys; without a new version where what changed is not fetched."""
        self._version += not rows.columns.equals(self._rows.columns)
        self._rows = rows

    def _refresh_all(self, changes: Changes, reread: Reread) -> None:
        """Bring what has changed into the hot set that holds all of R: changed, new and vanished tuples.

        Args:
            changes: what has changed. Where anything may have, nothing stays hot: all of R has to be read again.
            reread: reads tuples of R.
        """
        if changes.anything:
            self.forget()
            return
        asked, former, noted = changes.keys.distinct(), self._whole, self._noted
        assert former is not None
        assert noted is not None
        whole: WholeTuples | None = former
        if len(asked):
            with self._lock:
                self._note(changes)
            whole = former.with_changes(asked, reread(asked))
        if whole is not None and whole.nbytes > self._memory_bytes:
            whole = whole.merged()
        with self._lock:
            if whole is None:
                others = former.rows.take(np.flatnonzero(~former.rows.keys.is_in(asked)))
                self._learn_again(others, "has two keys that share a hash code")
            elif whole.nbytes > self._memory_bytes:
                self._learn_again(whole.rows, "has outgrown the memory that held all of it")
            else:
                self._version += whole is not former
                self._whole, self._noted = whole, replace(noted, noticed=changes.noticed)
        self._publish()

    def _slots_of(self, asked: KeyColumns, found: RelationRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The slots of tuples that were read again, -1 for a new one; and those of hot tuples that R no longer has.

        Args:
            asked: the keys that were looked up; some may have left the hot set since.
            found: what R has of them.
        """
        slots = self._hot_set.probe(found.keys.codes)
        of_asked = self._hot_set.probe(asked.codes)
        hot = np.flatnonzero(of_asked >= 0)
        hot = hot[asked.equals(hot, self._rows.keys, of_asked[hot])]
        return slots, np.setdiff1d(of_asked[hot], slots)

    def _learn_from(self, rows: RelationRows, frequencies: NDArray[np.float32]) -> None:
        """Learn, beginning with these tuples, of shape (n,), and how often each was found."""
        self._whole = self._noted = None
        if self._stage is None:
            self._stage = FrontStage(self.capacity)
        self._arrange(rows, self._stage.replace_all(rows.keys.codes, frequencies))

    def _learn_again(self, rows: RelationRows, why: str) -> None:
        rows = rows if len(rows) <= self.capacity else rows.take(np.arange(self.capacity))
        self._learn_from(rows, np.zeros(len(rows), np.float32))
        _log.warning(
            "%s %s: %d of its tuples stay hot, whichever they are, until it is learned which are frequent",
            self._spec.relation,
            why,
            len(rows),
        )

    def _arrange(self, candidates: RelationRows, publication: Publication) -> None:
        """Make those of the candidates the hot tuples that are the publication's sources."""
        self._hot_set = publication.hot_set
        self._rows = in_slots(candidates, *publication)
        self._version += 1

    def _publish(self) -> None:
        """Publish what is newer than what was published last, by whatever call it came in. Without that: O(1)."""
        with self._publishing:
            with self._lock:
                newest, version, whole, noted = self._newest, self._version, self._whole, self._noted
                if newest is not None and newest.version == version:
                    self._newest = replace(newest, whole=noted)
                if version == (0 if newest is None else newest.version):
                    return
                hot_set, rows = (self._hot_set, self._rows) if whole is None else (whole.hot_set, whole.base)
            published = self._published(version, hot_set, rows, whole, noted, newest)
            with self._lock:
                self._newest = published
        self._retire(newest, published)

    def _published(
        self,
        version: int,
        hot_set: HotSet,
        rows: RelationRows,
        whole: WholeTuples | None,
        noted: WholeRelation | None,
        newest: _Published | None,
    ) -> _Published:
        """Publish a version: what of it the newest one has stands."""
        if newest is not None and newest.rows is rows:
            broadcast = newest.broadcast
        else:
            broadcast = self._broadcast(self._series, HotTuples.of(hot_set, rows), len(rows))
        overlay = None
        if whole is not None and not whole.is_merged:
            overlay = self._broadcast(self._overlays, whole.overlay(), len(whole.changed))
        return _Published(version, broadcast, hot_set, rows, overlay, noted)

    def _broadcast(self, series: BroadcastSeries, value: HotTuples | Overlay, count: int) -> MappedBroadcast:
        broadcast = series.publish(value)
        _log.info(
            "%s: %d %s tuples, %d bytes, version %d",
            *(self._spec.relation, count, "hot" if series is self._series else "changed", value.nbytes),
            broadcast.version,
        )
        return broadcast

    def _retire(self, former: _Published | None, published: _Published | None) -> None:
        """Let go of what a former version has, and this one has not."""
        used = () if published is None else (published.broadcast, published.overlay)
        for value in () if former is None else (former.broadcast, former.overlay):
            if value is not None and value not in used:
                self._leases.retire(value)


def _with(rows: RelationRows, found: RelationRows, slots: NDArray[np.int64], places: NDArray[np.int64]) -> RelationRows:
    """Hot tuples with others in some of their slots. O(slots).

    Args:
        rows: the hot tuples, in the order of the slots.
        found: others.
        slots: int64, shape (n,), distinct.
        places: int64, shape (n,), the place among the others of that which belongs in each.
    """
    if not slots.size:
        return rows
    sources = np.arange(len(rows))
    sources[slots] = len(rows) + places
    return RelationRows.concatenate([rows, found]).take(sources)
