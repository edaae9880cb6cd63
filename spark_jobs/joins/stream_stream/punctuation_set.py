"""The punctuations of one stream that have come, and which of them may be handed on (001 §3.5).

Single keys stand in the hash chains beside the tuples, as if they were tuples of another stream: `arrival` is the
punctuation's count, that of the stream's own tuples in memory with its key, and `matched` tells that it was handed on.
Ranges of keys are few: they have a list, in which each is counted in the same way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.base import Int64Array
from spark_jobs.joins.stream_stream.patterns import EMPTY, Pattern, enumeration, ranges_of, union
from spark_jobs.joins.stream_stream.spilled_partitions import STREAMS
from spark_jobs.joins.structures.hashed_streams import ARRIVAL, KEY, MATCHED, HashedStreams

# Counts of a punctuation that has not been counted yet, and of one with tuples on disk.
NOT_COUNTED, ON_DISK = -1, -2
_LEAST_RANGES, _MOST_RANGES = 64, 512
_KEYS_PER_RANGE = 8
MOST_COVERED = 512
# Up to so many keys it is quicker to look each of them up than to look at all tuples.
MOST_LOOKED_UP = 4096
# Rows of the ranges.
_FIRST, _LAST, _COUNT = range(3)
_ROWS = 3
NO_KEYS: Int64Array = np.empty(0, np.int64)


class PunctuationSet:
    """What one stream has said that it brings no more of.

    Args:
        memory: the tuples; chain 2 + stream holds the keys.
        stream: whose punctuations.
        partitions: of the tuples.
        most_ready: keys that are known to be ready to be handed on; beyond it all are looked at. Of ranges there are
            an eighth of it at most, from 64 to 512.

    Attributes:
        covered: ranges that were told, and keys that both streams have told and handed on. There is room for
            MOST_COVERED of them; beyond it the smallest are forgotten, which lets later tuples be stored for nothing.
        forgotten: how many keys and ranges found no room.
    """

    def __init__(self, memory: HashedStreams, stream: int, partitions: int, most_ready: int) -> None:
        self._memory = memory
        self._stream = stream
        self._chain = STREAMS + stream
        self.covered = EMPTY
        self.forgotten = 0
        self._most_ready = most_ready
        self._most_ranges = _most_ranges(most_ready)
        self._ready = NO_KEYS
        self._all_may_be_ready = False
        self._ranges: Int64Array = np.zeros((_ROWS, 0), np.int64)
        # For each range and partition, whether the disk part holds none of its keys.
        self._clear: NDArray[np.bool_] = np.zeros((0, partitions), bool)

    @staticmethod
    def bytes_for(partitions: int, most_ready: int) -> int:
        """Memory of the ranges, in bytes; twice for what is covered, as it is replaced as a whole."""
        return _most_ranges(most_ready) * (_ROWS * 8 + partitions) + 2 * MOST_COVERED * 16 + most_ready * 8

    @property
    def is_empty(self) -> bool:
        """Whether nothing was told yet. O(partitions)."""
        return not len(self.covered) and not self._memory.counts[self._chain].any()

    def covers(self, keys: Int64Array) -> NDArray[np.bool_]:
        """Which keys were told. O(n)."""
        told = self.covered.matches(keys) if len(self.covered) else np.zeros(len(keys), bool)
        if self._memory.counts[self._chain].any():
            told |= self._memory.contains(self._chain, keys)
        return told

    def new_in(self, pattern: Pattern) -> Pattern:
        """What of a pattern was not told before, single keys aside. O(ranges, times log)."""
        new = pattern - self.covered
        # A range that was forgotten may still wait to be handed on; no key lies in two.
        return new - union(*self._ranges[: _LAST + 1]) if self.forgotten else new

    def add_keys(self, keys: Int64Array, first_id: int) -> None:
        """Take new single keys, distinct and not told before; there must be room in memory. O(n)."""
        numbers = np.arange(first_id, first_id + len(keys))
        self._memory.insert(self._chain, keys, numbers, np.full(len(keys), NOT_COUNTED))

    def add_ranges(self, pattern: Pattern) -> None:
        """Take ranges. O(ranges)."""
        self._cover(pattern)
        new = min(len(pattern), self._most_ranges - self._ranges.shape[1])
        self.forgotten += len(pattern) - new
        rows = np.zeros((_ROWS, new), np.int64)
        rows[_FIRST], rows[_LAST], rows[_COUNT] = pattern.firsts[:new], pattern.lasts[:new], NOT_COUNTED
        ranges = np.concatenate((self._ranges, rows), axis=1)
        clear = np.concatenate((self._clear, np.zeros((new, self._clear.shape[1]), bool)))
        order = np.argsort(ranges[_FIRST])
        self._ranges, self._clear = np.ascontiguousarray(ranges[:, order]), clear[order]

    # The index: how many tuples of the stream's own each punctuation has in memory.

    def count_keys(self, keys: Int64Array) -> None:
        """Count tuples for single keys that have come. O(n + tuples)."""
        if not len(keys):
            return
        entries = self._memory.probe(self._chain, keys)
        found = self._memory.count(self._stream, keys)
        new = self._memory.tuples["arrival"][entries.places] == NOT_COUNTED
        counts = found[entries.rows[new]]
        self._memory.tuples["arrival"][entries.places[new]] = counts
        self._note_ready(keys[entries.rows[new][counts == 0]])

    def count_ranges(self, piece: int, on_disk: Int64Array) -> int:
        """Count tuples for ranges that have come; how many tuples were looked at.

        O(keys) for narrow ranges, O(ranges x tuples in memory) for wide ones.

        Args:
            piece: how many tuples are looked at together.
            on_disk: int64, shape (partitions,), the stream's tuples on disk.
        """
        new = np.flatnonzero(self._ranges[_COUNT] == NOT_COUNTED)
        if not len(new):
            return 0
        self._ranges[_COUNT, new] = 0
        self._clear[new] = on_disk == 0
        firsts, lasts = self._ranges[_FIRST, new], self._ranges[_LAST, new]
        narrow = lasts.astype(float) - firsts < MOST_LOOKED_UP
        self._ranges[_COUNT, new[narrow]] = self._memory.count_within(self._stream, firsts[narrow], lasts[narrow])
        if narrow.all():
            return 0
        wide, looked_at = np.zeros(self._ranges.shape[1] + 1, bool), 0
        wide[new[~narrow]] = True
        for partition in range(len(on_disk)):
            for held in self._memory.pieces(self._stream, partition, piece):
                counts = self._memory.count(self._stream, held[KEY])
                ranges = ranges_of(self._ranges[_FIRST], self._ranges[_LAST], held[KEY])
                np.add.at(self._ranges[_COUNT], ranges[wide[ranges]], counts[wide[ranges]])
                looked_at += int(counts.sum())
        return looked_at

    def left_memory(self, keys: Int64Array, counts: Int64Array, *, to_disk: bool) -> None:
        """So many tuples of the stream with these keys, int64, shape (n,), left memory. O(n log ranges)."""
        if self._memory.counts[self._chain].any():
            entries = self._memory.probe(self._chain, keys)
            counted = self._memory.tuples["arrival"][entries.places] > 0
            rows, places = entries.rows[counted], entries.places[counted]
            np.subtract.at(self._memory.tuples["arrival"], places, counts[rows])
            self._note_ready(keys[rows[self._memory.tuples["arrival"][places] == 0]])
        if (self._ranges[_COUNT] > 0).any():
            ranges = ranges_of(self._ranges[_FIRST], self._ranges[_LAST], keys)
            rows = np.flatnonzero(ranges >= 0)
            rows = rows[self._ranges[_COUNT, ranges[rows]] > 0]
            np.subtract.at(self._ranges[_COUNT], ranges[rows], counts[rows])
            if to_disk:
                self._clear[ranges[rows], self._memory.partition_of(keys[rows])] = False

    # A disk part has been read: which punctuations it holds up.

    def look_again(self, partition: int) -> None:
        """Before a disk part is read: nothing is known of it."""
        for held in self._memory.pieces(self._chain, partition, MOST_COVERED):
            keys = held[KEY, held[ARRIVAL] == ON_DISK]
            self._memory.tuples["arrival"][self._memory.probe(self._chain, keys).places] = 0
        self._clear[self._ranges[_COUNT] != NOT_COUNTED, partition] = True

    def seen_on_disk(self, partition: int, keys: Int64Array) -> None:
        """Tuples of the stream with these keys stay on disk. O(n log ranges)."""
        places = self._memory.probe(self._chain, keys).places
        self._memory.tuples["arrival"][places[self._memory.tuples["arrival"][places] == 0]] = ON_DISK
        ranges = ranges_of(self._ranges[_FIRST], self._ranges[_LAST], keys)
        self._clear[ranges[ranges >= 0], partition] = False

    # What may be handed on: what has no tuple of the stream's own left (Theorem 1).

    def hand_on(self, partition: int | None, on_disk: Int64Array) -> Pattern:
        """Take what may be handed on.

        Args:
            partition: where single keys are looked for, whatever lies on disk there, as it was read just now; None for
                those where nothing does.
            on_disk: int64, shape (partitions,), the stream's tuples on disk.

        Returns:
            What was not handed on before. O(keys that may be ready).
        """
        if partition is not None:
            ready = self._ready_in([partition])
        elif self._all_may_be_ready:
            ready = self._ready_in(np.flatnonzero(on_disk == 0).tolist())
        else:
            ready = self._ready
            if on_disk.any():
                ready = ready[on_disk[self._memory.partition_of(ready)] == 0]
        if partition is None:
            # Those with tuples on disk are found when their partition is read.
            self._ready, self._all_may_be_ready = NO_KEYS, False
        handed_on = EMPTY
        if len(ready):
            places = self._memory.probe(self._chain, ready).places
            entries = self._memory.tuples[places]
            places = places[(entries["arrival"] == 0) & (entries["matched"] == 0)]
            self._memory.mark_matched(places)
            handed_on = enumeration(self._memory.tuples["key"][places])
        if not self._ranges.shape[1]:
            return handed_on
        ready_ranges = self._ranges[_COUNT] == 0
        if on_disk.any():
            ready_ranges &= (self._clear | (on_disk == 0)).all(axis=1)
        handed_on = handed_on | union(*self._ranges[: _LAST + 1, ready_ranges])
        self._ranges, self._clear = self._ranges[:, ~ready_ranges], self._clear[~ready_ranges]
        return handed_on

    def take_rest(self) -> Pattern:
        """Empty it; what was never handed on. O(single keys)."""
        rest = EMPTY
        for partition in range(self._memory.partitions):
            while self._memory.counts[self._chain, partition]:
                taken = self._memory.take_partition(self._chain, partition, MOST_COVERED)
                rest = rest | enumeration(taken[KEY, taken[MATCHED] == 0])
        rest = rest | union(*self._ranges[: _LAST + 1])
        self._ranges, self._clear = self._ranges[:, :0], self._clear[:0]
        return rest

    def handed_on_among(self, keys: Int64Array) -> Int64Array:
        """Those of some keys that stand here and were handed on. O(n)."""
        if not len(keys):
            return keys
        entries = self._memory.probe(self._chain, keys)
        return keys[entries.rows[self._memory.tuples["matched"][entries.places] == 1]]

    def close(self, keys: Int64Array) -> None:
        """Keys that the other stream has told and handed on as well need no chain any more. O(n + covered)."""
        if not len(keys):
            return
        self._memory.forget_keys(self._chain, keys)
        self._cover(enumeration(keys))

    def forget_keys(self, count: int) -> None:
        """Give up single keys, to make room. O(single keys)."""
        for partition in range(self._memory.partitions):
            taken = self._memory.take_partition(self._chain, partition, count)
            self.forgotten += taken.shape[1]
            count -= taken.shape[1]

    def check(self) -> None:
        """Assert that the counts are those of the tuples in memory. O(memory)."""
        for partition in range(self._memory.partitions):
            for held in self._memory.pieces(self._chain, partition, MOST_COVERED):
                found = self._memory.count(self._stream, held[KEY])
                counted = held[ARRIVAL] != NOT_COUNTED
                assert (np.maximum(held[ARRIVAL], 0)[counted] == found[counted]).all()
                assert (held[ARRIVAL][held[MATCHED] == 1] <= 0).all()
        assert len(self.covered) <= MOST_COVERED
        assert self._ranges.shape[1] <= self._most_ranges

    def _note_ready(self, keys: Int64Array) -> None:
        if len(self._ready) + len(keys) > self._most_ready:
            self._ready, self._all_may_be_ready = NO_KEYS, True
        elif not self._all_may_be_ready:
            self._ready = np.concatenate((self._ready, keys))

    def _ready_in(self, partitions: list[int]) -> Int64Array:
        """Single keys without a tuple in memory that were not handed on. O(their buckets)."""
        ready = [NO_KEYS]
        for partition in partitions:
            for held in self._memory.pieces(self._chain, partition, MOST_COVERED):
                ready.append(held[KEY, (held[ARRIVAL] == 0) & (held[MATCHED] == 0)])
        return np.concatenate(ready)

    def _cover(self, pattern: Pattern) -> None:
        covered = self.covered | pattern
        if len(covered) > MOST_COVERED:
            # Half of the room, so that this is not done each time. Lengths as floats: a range may exceed int64.
            lengths = covered.lasts.astype(float) - covered.firsts
            kept = np.sort(np.argsort(-lengths, kind="stable")[: MOST_COVERED // 2])
            self.forgotten += len(covered) - len(kept)
            covered = Pattern(covered.firsts[kept], covered.lasts[kept])
        self.covered = covered


def _most_ranges(most_ready: int) -> int:
    return max(_LEAST_RANGES, min(most_ready // _KEYS_PER_RANGE, _MOST_RANGES))
