"""The front stage: a tuple-level cache of the most frequent tuples of R, before any semi-stream join."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.errors import JoinStateError, MemoryBudgetError
from spark_jobs.joins.memory_budget import most_within
from spark_jobs.joins.semi_stream.admission_threshold import AdmissionThreshold
from spark_jobs.joins.semi_stream.hot_set import MOST_SLOTS, HotSet
from spark_jobs.joins.structures.frequency_recorder import FrequencyRecorder
from spark_jobs.joins.structures.key_table import KeyTable

__all__ = ["FrontStage", "HotSet", "Publication"]

Int64Array = NDArray[np.int64]

# Tuples that may be accepted before the next publication of a full cache, as a part of it.
_STAGED_SHARE = 8
# The same of one that still fills, which a small one may do at once.
_FILLING_SHARE = 4
_LEAST_FILLING = 128
# Stream tuples after which a frequency counts half, per tuple in the cache: at Zipf exponent 1 the rarest
# tuple in the cache has then been seen about six times, enough to tell it from those outside.
_HALF_LIFE_PER_SLOT = 60
# Stream tuples after which a version ends at the latest, per tuple in the cache: a small part of the half-life.
_VERSION_PER_SLOT = 8


class Publication(NamedTuple):
    """A new version of the cache.

    Attributes:
        hot_set: its keys.
        sources: int64, shape (slot_count,), where the tuple of each slot comes from: below the former
            slot count the former slot, from there on the tuples that were accepted or given, in their order. So
            the tuples are `concatenate([former, *accepted]).take(sources)`.
    """

    hot_set: HotSet
    sources: Int64Array


class FrontStage:
    """The cache H_R with frequency recorder and adaptive threshold (003 §3.1, §3.2.1), apart from its tuples.

        stream ---> hot set ---> hits: joined at once              observe_hits --.
                       |                                                          v
                       `---> misses ---> back stage ---> offer ---> [ recorder, threshold ] ---> publish

    The caller probes stream tuples against `hot_set`, reports the hits, and offers what the back stage
    found. It keeps the tuples of R that belong to the slots, and those of accepted offers, until
    `publish` says which of them make the next version.

    Where it departs from the paper: there, a tuple's frequency is the number of its matches in one
    page load, which a long queue of stream tuples makes telling; so its index nested loop join needs
    a temporary buffer of keys. Here a sketch remembers the frequencies of all tuples outside the cache,
    which serves every back stage, and an offer takes the place of the least frequent tuple only if
    it is the more frequent of the two. What would win by chance only is not accepted in the first
    place: to keep it and to publish costs more time than it saves.

    Args:
        capacity: how many tuples of R it holds, at least 1.
        threshold: how frequent an accepted tuple must be; None for a barrier of its own that moves by itself.
    """

    def __init__(self, capacity: int, threshold: AdmissionThreshold | None = None) -> None:
        self.capacity = capacity
        self.hot_set, _ = HotSet.arranged(0, np.empty(0, np.int64))
        self._threshold = threshold or AdmissionThreshold()
        self._recorder = FrequencyRecorder(self.capacity, _HALF_LIFE_PER_SLOT * self.capacity)
        self._least_accepted = math.ceil(self._threshold.value)
        self._clear_staging()

    @staticmethod
    def capacity_within(memory_bytes: int, tuple_bytes: int) -> int:
        """Tuples that a budget holds which is for all of it, as in the papers: what is learned, and the tuples twice.

        Args:
            memory_bytes: the budget.
            tuple_bytes: memory of one tuple of R at the caller.

        Raises:
            MemoryBudgetError: it does not hold one tuple.
        """
        capacity = most_within(memory_bytes, partial(_bytes_for, tuple_bytes=tuple_bytes), MOST_SLOTS)
        if capacity < 1:
            raise MemoryBudgetError(
                f"the front stage was given {memory_bytes:,} bytes, but one tuple of {tuple_bytes:,} bytes needs "
                f"{_bytes_for(1, tuple_bytes):,}: give it more memory, or do without a front stage"
            )
        return capacity

    @property
    def threshold(self) -> float:
        """The frequency from which on an offer is accepted; moves by itself."""
        return self._threshold.value

    @property
    def frequencies(self) -> NDArray[np.float32]:
        """How often the tuple of each slot was found lately, float32, shape (slot_count,), read-only by convention."""
        return self._recorder.of_slots[: self.hot_set.slot_count]

    @property
    def observed(self) -> float:
        """Stream tuples in which `frequencies` were counted; both fade alike."""
        return self._recorder.total

    @property
    def staged(self) -> int:
        """Tuples accepted since the last publication."""
        return self._staged.size

    @property
    def publication_due(self) -> bool:
        """Whether so many have been accepted, or so much of the stream has come, that a publication is worth its cost.

        That is O(capacity): so after an eighth of the capacity was accepted, and the threshold sees to it that
        this takes many times as many stream tuples; or after eight times the capacity in stream tuples.
        """
        return (
            self._staged.size >= _staged_capacity(self.capacity)
            or self._recorder.since_aged >= _VERSION_PER_SLOT * self.capacity
        )

    @property
    def staging_room(self) -> int:
        """How many more can be accepted before the next publication: an eighth of the cache, a quarter if it fills."""
        return self._staged.capacity - self._staged.size

    def observe_hits(self, slot_counts: Int64Array) -> None:
        """Record how many stream tuples found theirs in each slot of `hot_set`. O(slot_count).

        Args:
            slot_counts: int64, shape (slot_count,).

        Raises:
            JoinStateError: the counts belong to another version.
        """
        if len(slot_counts) != self.hot_set.slot_count:
            raise JoinStateError(
                f"hits of {len(slot_counts)} slots reported, but version {self.hot_set.version} of the hot set has "
                f"{self.hot_set.slot_count}: report hits before the next version is published"
            )
        hit = np.flatnonzero(slot_counts)
        self._recorder.record_slots(hit, slot_counts[hit])

    def observe_slots(self, slots: Int64Array) -> None:
        """Record one hit for each stream tuple that was found, int64, shape (n,), their slots. O(n)."""
        self._recorder.record_each(slots)

    def offer(self, keys: Int64Array, frequencies: Int64Array) -> Int64Array:
        """Offer tuples of R that the back stage found, with the number of stream tuples that found each.

        Args:
            keys: int64, shape (n,), their join keys.
            frequencies: int64, shape (n,), at least 1.

        Returns:
            int64, shape (a,): positions of those accepted; the caller keeps these tuples, in this order,
            until the next publication. O(n log n).
        """
        keys = np.ascontiguousarray(keys, np.int64)
        frequencies = np.ascontiguousarray(frequencies, np.int64)
        slots = self.hot_set.probe(keys)
        cached = np.flatnonzero(slots >= 0)
        if cached.size:
            self._recorder.record_slots(slots[cached], frequencies[cached])
        others = np.flatnonzero(slots < 0)
        estimates = self._recorder.record_others(keys[others], frequencies[others])
        frequent = np.flatnonzero(estimates >= self._least_accepted)
        return self._accept(keys, others[frequent], estimates[frequent])

    def offer_rows(self, keys: Int64Array, rows: Int64Array) -> Int64Array:
        """Offer the tuples of a page of R that the back stage found, each as often as it found it.

        Does what `offer` does, in a fraction of its time where few tuples were found, of which none is frequent:
        all are counted as if they were not in the cache, and only those that seem frequent are looked up there.

        Args:
            keys: int64, shape (m,), distinct, the join keys of the page.
            rows: int64, shape (n,), what was found; a row may stand several times.

        Returns:
            int64, shape (a,): rows of those accepted, as for `offer`. O(n + m), and O(f log f) for f frequent ones.
        """
        frequent = self._recorder.record_rows(keys, rows, self._least_accepted)
        if not frequent.size:
            return frequent[0]
        slots = self.hot_set.probe(keys[frequent[0]])
        cached = slots >= 0
        if np.count_nonzero(cached):
            self._recorder.credit_slots(slots[cached], frequent[1, cached])
            frequent = frequent[:, ~cached]
        return self._accept(keys, frequent[0], frequent[2])

    def publish(self) -> Publication | None:
        """Take the most frequent accepted tuples into the cache, in empty slots or for the least frequent ones.

        Returns:
            The new version, or None if the cache stays as it is. In both cases the caller can let go of
            the accepted tuples that are not in it. O(capacity).
        """
        staged = self._staged.keys[: self._staged.size]
        frequencies = self._staged_frequencies[: self._staged.size]
        best_first = np.argsort(-frequencies, kind="stable")
        old_count = self.hot_set.slot_count
        newcomers = best_first[: self.capacity - old_count]
        slots, replacing = self._least_frequent_replaced(best_first[len(newcomers) :], frequencies)

        keys = np.concatenate([self.hot_set.keys, staged[newcomers]])
        sources = np.arange(len(keys))
        sources[old_count:] = old_count + newcomers
        self._recorder.replace(np.arange(old_count, len(keys)), staged[:0], frequencies[newcomers])
        self._recorder.replace(slots, keys[slots], frequencies[replacing])
        keys[slots] = staged[replacing]
        sources[slots] = old_count + replacing

        full = len(keys) == self.capacity
        recorder = self._recorder
        hit_ratio = float(recorder.of_slots.sum()) / max(1.0, recorder.total)
        stream_tuples = recorder.since_aged
        self._threshold.adapt(full=full, accepted=self.staged, stream_tuples=stream_tuples, hit_ratio=hit_ratio)
        recorder.age()
        self._least_accepted = max(math.ceil(self._threshold.value), self._least_that_wins() if full else 1)
        changed = len(newcomers) + len(slots) > 0
        if changed:
            sources = sources[self._arrange(keys)]
        self._clear_staging()
        return Publication(self.hot_set, sources) if changed else None

    def remove(self, slots: Int64Array) -> Publication:
        """Take tuples out of the cache that R no longer has. Accepted tuples stay accepted. O(capacity).

        Args:
            slots: int64, shape (n,), distinct.

        Returns:
            The new version.
        """
        kept = np.delete(np.arange(self.hot_set.slot_count), slots)
        self._recorder.keep(kept)
        self._least_accepted = math.ceil(self._threshold.value)  # there are slots now that nobody has to win
        order = self._arrange(self.hot_set.keys[kept])
        return Publication(self.hot_set, kept[order])

    def replace_all(self, keys: Int64Array, frequencies: NDArray[np.float32]) -> Publication:
        """Put other tuples into the cache, as many as it holds at most, instead of those in it. O(capacity).

        A tuple that was in it keeps its frequency, which is newer. What was accepted is let go of.

        Args:
            keys: int64, shape (n,), distinct, at most `capacity`.
            frequencies: float32, shape (n,), how often each was found, as `frequencies` told at some time.

        Returns:
            The new version, whose sources are positions among the keys.
        """
        former = self.hot_set
        slots = former.probe(keys)
        known = slots >= 0
        frequencies = np.array(frequencies, np.float32)
        frequencies[known] = self._recorder.of_slots[slots[known]]
        evicted = np.delete(np.arange(former.slot_count), slots[known])
        self._recorder.replace_all(evicted, former.keys[evicted], frequencies)
        order = self._arrange(keys)
        self._clear_staging()
        return Publication(self.hot_set, order)

    def memory_used(self) -> int:
        """Bytes of hot set, recorder and accepted keys, without the caller's tuples that belong to them."""
        slots = self.hot_set.memory_used() + self._recorder.memory_used()
        return slots + self._staged.memory_used() + self._staged_frequencies.nbytes

    def check(self) -> None:
        """Assert the invariants of the data structures, and that no accepted tuple is in the cache. O(capacity)."""
        assert self.hot_set.slot_count <= self.capacity
        self.hot_set.check()
        self._recorder.check()
        self._staged.check()
        assert (self.hot_set.probe(self._staged.keys[: self.staged]) < 0).all()

    def _arrange(self, keys: Int64Array) -> Int64Array:
        """Put a new version in force, and its frequencies, which are in the order of the keys, in that of its slots.

        Returns:
            int64, shape (n,): where the key of each slot stands among the keys.
        """
        self.hot_set, order = HotSet.arranged(self.hot_set.version + 1, keys)
        self._recorder.keep(order)
        return order

    def _clear_staging(self) -> None:
        empty = self.capacity - self.hot_set.slot_count
        room = max(min(empty, _filling_capacity(self.capacity)), _staged_capacity(self.capacity))
        self._staged = KeyTable(room)
        self._staged_frequencies: Int64Array = np.zeros(room, np.int64)

    def _accept(self, keys: Int64Array, positions: Int64Array, frequencies: Int64Array) -> Int64Array:
        """Accept the keys at these positions, the most frequent first, while there is room; positions of the new."""
        if not positions.size or not self.staging_room:
            return positions[:0]
        if len(positions) > 1:
            best_first = np.argsort(-frequencies, kind="stable")
            positions, frequencies = positions[best_first], frequencies[best_first]
        return positions[self._stage(keys[positions], frequencies)]

    def _stage(self, keys: Int64Array, frequencies: Int64Array) -> Int64Array:
        """Accept keys while there is room; the positions of those that were not accepted before."""
        before = self._staged.size
        slots = self._staged.insert(keys)
        np.maximum.at(self._staged_frequencies, slots, frequencies[: len(slots)])
        fresh = (slots >= before).nonzero()[0]
        if len(fresh) > self._staged.size - before:
            # Some stand twice. Slots count up as keys come, so these are in order.
            fresh = fresh[np.unique(slots[fresh], return_index=True)[1]]
        return fresh

    def _least_that_wins(self) -> int:
        """More than the eighth of the slots that can be replaced have, by a standard deviation of such a count.

        What is less frequent would win by chance, if at all, and soon be replaced in its turn.
        """
        replaceable = _staged_capacity(self.capacity) - 1
        frequency = float(np.partition(self._recorder.of_slots, replaceable)[replaceable])
        return math.floor(frequency + math.sqrt(frequency)) + 1

    def _least_frequent_replaced(
        self, challengers: Int64Array, frequencies: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Pair the best challenger with the least frequent slot, and so on, while the challenger is more frequent."""
        challengers = challengers[: self.hot_set.slot_count]
        if not challengers.size:
            return challengers, challengers
        of_slots = self._recorder.of_slots[: self.hot_set.slot_count]
        least = np.argpartition(of_slots, len(challengers) - 1)[: len(challengers)]
        least = least[np.argsort(of_slots[least], kind="stable")]
        wins = int(np.count_nonzero(frequencies[challengers] > of_slots[least]))
        return least[:wins], challengers[:wins]


def _staged_capacity(capacity: int) -> int:
    return -(-capacity // _STAGED_SHARE)


def _filling_capacity(capacity: int) -> int:
    return min(capacity, max(_LEAST_FILLING, -(-capacity // _FILLING_SHARE)))


def _bytes_for(capacity: int, tuple_bytes: int) -> int:
    """Memory of a front stage at its largest: while it fills, or full, with all accepted that can be.

    While a new version is made, the keys of the old one stand beside it.
    """
    staged = _staged_capacity(capacity)
    last = _filling_capacity(capacity)
    filling = HotSet.bytes_for(capacity - last) + KeyTable.bytes_for(last) + last * 8 + capacity * tuple_bytes
    full = HotSet.bytes_for(capacity) + KeyTable.bytes_for(staged) + staged * 8 + (capacity + staged) * tuple_bytes
    slots = FrequencyRecorder.bytes_for(capacity) + capacity * 8
    return slots + max(filling, full)
