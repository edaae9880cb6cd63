"""PJoin: XJoin that makes use of punctuations: it forgets what can match nothing any more, and hands punctuations on.

    stream 0:  tuples --- probe stream 1, store --- unless a punctuation of stream 1 has their key: probe only
               punctuation "no more 7" --- forget the tuples of stream 1 with key 7; the join brings no more 7 from here
                                           once no tuple of stream 0 with key 7 is left: hand it on

A key that a punctuation names stands in the same buckets as the tuples, in chains of its own, so that a tuple finds
both with one wait for memory, and a punctuation finds its tuples without a look at the others.

Ding, Mehta, Rundensteiner, Heineman, Joining Punctuated Streams, EDBT 2004 (001 §2, §3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.activation import Activation
from spark_jobs.joins.stream_stream.base import NO_TUPLES, Int64Array, Results, Tuples, of_stream
from spark_jobs.joins.stream_stream.events import Component, Event, Monitor, Registry, lazy_index
from spark_jobs.joins.stream_stream.flushing import FlushingPolicy
from spark_jobs.joins.stream_stream.patterns import EMPTY, Pattern
from spark_jobs.joins.stream_stream.predicates import Predicate
from spark_jobs.joins.stream_stream.punctuation_set import MOST_LOOKED_UP, PunctuationSet
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.spilled_partitions import MOST_PARTITIONS, STREAMS, SpilledPartitions, paired
from spark_jobs.joins.stream_stream.x_join import XJoin
from spark_jobs.joins.structures.hashed_streams import KEY

Find = Literal["index", "scan"]
# Ranges of punctuations of one stream that wait for a purge, or to be counted; more are dealt with at once. Their
# number follows the budget, of which they take a 32nd.
_LEAST_PENDING, _MOST_PENDING = 64, 8192
_PENDING_BYTES = 2 * STREAMS * 2 * 8
_PENDING_SHARE = 32


class PJoin(XJoin):
    """Joins two streams by equal keys, and forgets what their punctuations say is done with.

    A tuple that comes against a punctuation of its own stream is refused, as long as that is remembered: where there is
    no room for all punctuations, some are forgotten. O(1) a tuple, result and punctuated key; a
    range of keys costs a look at all tuples in memory.

    Args:
        streams: two.
        predicate: equality.
        memory_bytes: the budget; punctuations take part of it, 32 bytes a key.
        spill: the disk.
        monitor: the thresholds; if left out, eager purge and propagation after each call.
        registry: what is done when one is reached; if left out, that of 001 Table 1.
        find: how a purge finds its tuples: by the punctuated keys ("index"), or by a look at all tuples, as the paper
            does it ("scan").
        clock: for propagation by time, in any unit. A state that is stored and goes on elsewhere needs one that
            repeats.
        flushing: what is flushed when memory is full.
        activation: when a pause is used to read a disk part.
        partitions: a power of two; if left out, as many as the pages of the disk allow, 64 at most.

    Attributes:
        monitor: thresholds and counts; the former may be changed at any time.
        registry: may be changed at any time.
        scanned: tuples that purges have looked at.

    Raises:
        MemoryBudgetError: the budget does not hold one tuple.
        ValueError: the predicate is another one, or there are other than two streams.
    """

    name = "p_join"

    def __init__(
        self,
        streams: int,
        predicate: Predicate,
        memory_bytes: int,
        spill: SpillStore,
        *,
        monitor: Monitor | None = None,
        registry: Registry | None = None,
        find: Find = "index",
        clock: Callable[[], float] = lambda: 0.0,
        flushing: FlushingPolicy | None = None,
        activation: Activation | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__(
            streams, predicate, memory_bytes, spill, flushing=flushing, activation=activation, partitions=partitions
        )
        self.monitor = monitor or Monitor()
        self.registry = registry or lazy_index()
        self.scanned = 0
        self._find = find
        self._clock = clock
        count = self.parts.partitions
        self._most_pending = _most_pending(memory_bytes)
        self._told = [PunctuationSet(self.parts.memory, stream, count, self._most_pending) for stream in range(STREAMS)]
        self._told_ids = 0
        # Punctuations of each stream since the last purge and since they were last counted.
        self._unpurged = [EMPTY] * STREAMS
        self._uncounted = [EMPTY] * STREAMS
        # What waits for the disk parts of each partition to meet: punctuations, and the purge buffer (001 §3.1), which
        # is no more than the tuples in memory that a punctuation of the other stream is done with.
        self._waiting: Int64Array = np.zeros(count, np.int64)

    def _partitions(self, memory_bytes: int, spill: SpillStore, partitions: int | None) -> SpilledPartitions:
        most = partitions or MOST_PARTITIONS
        pending = _most_pending(memory_bytes)
        return SpilledPartitions(
            memory_bytes,
            spill,
            algorithm=self.name,
            partitions=partitions,
            chains=2 * STREAMS,
            other_bytes=STREAMS * PunctuationSet.bytes_for(most, pending) + most * 8 + pending * _PENDING_BYTES,
        )

    @property
    def is_work(self) -> bool:
        """Whether a disk part is worth reading: for results, for what it keeps in memory, or for punctuations."""
        return not self._finished and (super().is_work or self._disk_part_to_settle() is not None)

    def check(self) -> None:
        """Assert that memory, directory and punctuations are sound and within the budget. O(memory)."""
        super().check()
        for told in self._told:
            told.check()

    # Tuples.

    def _arrive(self, stream: int, tuples: Tuples) -> Results:
        settled = []
        first, count = 0, len(tuples.ids)
        while first < count:
            wanted = min(count - first, self.parts.buffered)
            if self.parts.memory.room < wanted:
                settled.append(self._answer(Event.STATE_FULL))
                self._expect_room()
            until = first + min(wanted, self.parts.memory.room)
            settled.append(self._meet_punctuated(stream, tuples.part(slice(first, until))))
            first = until
        if self._time_has_passed():
            settled.append(self._answer(Event.PROPAGATE_TIME_EXPIRED))
        return _all_of(settled)

    def _meet_punctuated(self, stream: int, tuples: Tuples) -> Results:
        """The memory join: results with what is in memory; tuples are stored if something may still match them."""
        refused = NO_TUPLES
        if not self._told[stream].is_empty:
            against = self._told[stream].covers(tuples.keys)
            if against.any():
                refused, tuples = tuples.ids[against], tuples.part(~against)
        if self._told[1 - stream].is_empty:
            return Results(self._meet(stream, tuples), refused=refused)
        passing = self._told[1 - stream].covers(tuples.keys)
        if self.parts.on_disk[1 - stream].any():
            partitions = self.parts.memory.partition_of(tuples.keys)
            # What lies on disk has to meet them first.
            waiting = passing & (self.parts.on_disk[1 - stream, partitions] > 0)
            np.add.at(self._waiting, partitions[waiting], 1)
            passing &= ~waiting
        found = self.parts.meet(stream, tuples.keys, tuples.ids, storing=~passing)
        self.statistics.probes += len(tuples.keys)
        self.statistics.purged += int(passing.sum())
        ids = paired(stream, tuples.ids[found.rows], found.ids)
        passing[found.rows] = False
        return Results(ids, unmatched=of_stream(stream, tuples.ids[passing]), refused=refused)

    # Punctuations.

    def _punctuate(self, stream: int, pattern: Pattern) -> Results:
        settled = []
        new = self._told[stream].new_in(pattern)
        single = new.firsts == new.lasts
        keys = new.firsts[single]
        keys = keys[~self._told[stream].covers(keys)] if len(keys) else keys
        for first in range(0, len(keys), self._most_pending):
            settled.append(self._take_keys_told(stream, keys[first : first + self._most_pending]))
        ranges = Pattern(new.firsts[~single], new.lasts[~single])
        for first in range(0, len(ranges), self._most_pending):
            piece = slice(first, first + self._most_pending)
            told = Pattern(ranges.firsts[piece], ranges.lasts[piece])
            self._told[stream].add_ranges(told)
            self._waiting += len(told) * self.parts.on_disk.any(axis=0)
            settled.append(self._take_note(stream, told))
        return _all_of(settled) if settled else self._none()

    def _take_keys_told(self, stream: int, keys: Int64Array) -> Results:
        settled = []
        if self.parts.memory.room < len(keys):
            settled.append(self._answer(Event.STATE_FULL))
        while self.parts.memory.room < len(keys) and self.tuples_in_memory():
            self._make_room()
        if self.parts.memory.room < len(keys):
            keys = keys[: self.parts.memory.room]
            self._told[stream].forgotten += 1
        self._told[stream].add_keys(keys, self._told_ids)
        self._told_ids += len(keys)
        partitions = self.parts.memory.partition_of(keys)
        on_disk = self.parts.on_disk[:, partitions].any(axis=0)
        np.add.at(self._waiting, partitions[on_disk], 1)
        settled.append(self._take_note(stream, Pattern(keys, keys)))
        return _all_of(settled)

    def _take_note(self, stream: int, told: Pattern) -> Results:
        """Something new was told: run what answers that."""
        settled = []
        if len(self._unpurged[stream]) + len(told) > self._most_pending:
            settled.append(self._purge())
        if len(self._uncounted[stream]) + len(told) > self._most_pending:
            settled.append(self._build_index())
        self._unpurged[stream] = self._unpurged[stream] | told
        self._uncounted[stream] = self._uncounted[stream] | told
        self.monitor.since_purge += len(told)
        self.monitor.since_propagation += len(told)
        settled.append(self._answer(Event.NEW_PUNCTUATION_READY))
        if self.monitor.since_purge >= self.monitor.purge_threshold:
            settled.append(self._answer(Event.PURGE_THRESHOLD_REACHED))
        threshold = self.monitor.propagate_count
        if threshold is not None and self.monitor.since_propagation >= threshold:
            settled.append(self._answer(Event.PROPAGATE_COUNT_REACHED))
        if self._time_has_passed():
            settled.append(self._answer(Event.PROPAGATE_TIME_EXPIRED))
        return _all_of(settled)

    def _time_has_passed(self) -> bool:
        after = self.monitor.propagate_after
        return after is not None and self._clock() - self.monitor.last_propagation >= after

    def _propagated(self) -> Results:
        return self._answer(Event.PROPAGATE_REQUESTED)

    # The components (001 §3.1).

    def _answer(self, event: Event) -> Results:
        """Run the components that the registry has for an event."""
        components: dict[Component, Callable[[], Results]] = {
            "purge": self._purge,
            "relocate": self._relocate,
            "disk_join": self._disk_join,
            "build_index": self._build_index,
            "propagate": self._propagate,
        }
        wanted = self.registry.components_for(event, self.monitor)
        return _all_of([components[component]() for component in wanted]) if wanted else self._none()

    def _relocate(self) -> Results:
        if self.tuples_in_memory():
            self._make_room()
        return self._none()

    def _expect_room(self) -> None:
        """Make room for a tuple: the registry may do nothing about a full memory, and punctuations may fill it."""
        if not self.parts.memory.room and self.tuples_in_memory():
            self._make_room()
        self._leave_room(1)

    def _leave_room(self, count: int) -> None:
        """Forget punctuations until there is room for some tuples besides them."""
        for told in self._told:
            excess = int(self.parts.memory.counts[STREAMS:].sum()) - (self.parts.memory.capacity - count)
            if excess > 0:
                told.forget_keys(excess)

    def _purge(self) -> Results:
        """Forget the tuples in memory that new punctuations of the other stream say are done with (001 §3.4)."""
        self.monitor.since_purge = 0
        settled = []
        for stream in range(STREAMS):
            told, self._unpurged[1 - stream] = self._unpurged[1 - stream], EMPTY
            if not len(told):
                continue
            keys = told.keys(MOST_LOOKED_UP) if self._find == "index" else None
            if keys is not None:
                settled.append(self._purge_keys(stream, keys))
            else:
                settled += [self._purge_partition(stream, number, told) for number in range(self.parts.partitions)]
        return _all_of(settled) if settled else self._none()

    def _purge_keys(self, stream: int, keys: Int64Array) -> Results:
        """Purge all tuples with some keys, but for those that have to wait for a disk part."""
        if self.parts.on_disk[1 - stream].any():
            partitions = self.parts.memory.partition_of(keys)
            wait = self.parts.on_disk[1 - stream, partitions] > 0
            np.add.at(self._waiting, partitions[wait], 1)
            keys = keys[~wait]
        counts, unmatched = self.parts.forget_keys(stream, keys)
        self.statistics.purged += int(counts.sum())
        if not self._told[stream].is_empty:
            self._told[stream].left_memory(keys[counts > 0], counts[counts > 0], to_disk=False)
        return replace(self._none(), unmatched=of_stream(stream, unmatched))

    def _purge_partition(self, stream: int, partition: int, told: Pattern) -> Results:
        """Purge by a look at all tuples of a partition."""
        settled = []
        for held in self.parts.memory.pieces(stream, partition, self.parts.buffered):
            self.scanned += int(self.parts.memory.count(stream, held[KEY]).sum())
            done_with = told.matches(held[KEY])
            if done_with.any():
                settled.append(self._purge_keys(stream, held[KEY, done_with]))
        return _all_of(settled) if settled else self._none()

    def _build_index(self) -> Results:
        """Count, for new punctuations, the tuples in memory that they match (001 §3.5)."""
        for stream, told in enumerate(self._told):
            uncounted, self._uncounted[stream] = self._uncounted[stream], EMPTY
            if not len(uncounted):
                continue
            single = uncounted.firsts == uncounted.lasts
            told.count_keys(uncounted.firsts[single])
            self.scanned += told.count_ranges(self.parts.buffered, self.parts.on_disk[stream])
        return self._none()

    def _propagate(self) -> Results:
        """Hand on the punctuations that no tuple of their own stream matches any more (001 Theorem 1)."""
        self.monitor.since_propagation = 0
        self.monitor.last_propagation = self._clock()
        return self._handing_on(None)

    def _handing_on(self, partition: int | None) -> Results:
        propagated = []
        for stream, told in enumerate(self._told):
            pattern = told.hand_on(partition, self.parts.on_disk[stream])
            if len(pattern):
                propagated.append((stream, pattern))
                keys = pattern.firsts[pattern.firsts == pattern.lasts]
                closed = self._told[1 - stream].handed_on_among(keys)
                for each in self._told:
                    each.close(closed)
        return replace(self._none(), propagated=propagated)

    # The disk.

    def _flush(self, stream: int, partition: int) -> None:
        self.statistics.flushed += int(self.parts.memory.counts[stream, partition])
        told = self._told[stream]
        if told.is_empty:
            self.parts.flush(stream, partition)
        else:

            def leaving(keys: Int64Array) -> None:
                told.left_memory(keys, np.ones(len(keys), np.int64), to_disk=True)
                self._waiting[partition] += int(told.covers(keys).sum())

            self.parts.flush(stream, partition, told=leaving)

    def _step(self) -> Results:
        return self._answer(Event.STREAMS_EMPTY)

    def _disk_join(self) -> Results:
        """Read a disk part: with what is in memory if that is worth it, else with its partition's other disk part."""
        if super().is_work:
            stream, partition = self._activation.next(self.parts.fresh, self.parts.on_disk)
            return self.parts.pass_over(stream, partition)
        partition_to_settle = self._disk_part_to_settle()
        return self._none() if partition_to_settle is None else self._settle(partition_to_settle)

    def _disk_part_to_settle(self) -> int | None:
        """The partition for whose disk parts most waits."""
        due = self._activation.worth(self._waiting, self.parts.on_disk.sum(axis=0))
        return int(np.argmax(np.where(due, self._waiting, -1))) if due.any() else None

    def _settle(self, partition: int) -> Results:
        """Let all tuples of a partition meet, and forget those that a punctuation is done with, on disk too."""
        settled = [self._purge(), self._build_index()]
        for stream in range(STREAMS):
            self._flush(stream, partition)
            self._told[stream].look_again(partition)
        while self.parts.memory.room < self.parts.buffered and self.tuples_in_memory():
            self._make_room()
        self._leave_room(self.parts.buffered)

        def leaving(stream: int, keys: Int64Array) -> NDArray[np.bool_]:
            gone = self._told[1 - stream].covers(keys)
            self.statistics.purged += int(gone.sum())
            self._told[stream].seen_on_disk(partition, keys[~gone])
            return gone

        settled += list(self.parts.settle(partition, leaving))
        self._waiting[partition] = 0
        settled.append(self._handing_on(partition))
        return _all_of(settled)

    def _finish(self) -> Iterator[Results]:
        rest = [(stream, told.take_rest()) for stream, told in enumerate(self._told)]
        yield from super()._finish()
        yield replace(self._none(), propagated=[(stream, pattern) for stream, pattern in rest if len(pattern)])

    # State.


def _most_pending(memory_bytes: int) -> int:
    return max(_LEAST_PENDING, min(memory_bytes // (_PENDING_SHARE * _PENDING_BYTES), _MOST_PENDING))


def _all_of(settled: list[Results]) -> Results:
    """What several components settled, in their order."""
    if len(settled) == 1:
        return settled[0]
    return Results(
        np.concatenate([results.ids for results in settled], axis=1),
        unmatched=np.concatenate([results.unmatched for results in settled], axis=1),
        refused=np.concatenate([results.refused for results in settled]),
        propagated=[pair for results in settled for pair in results.propagated],
    )
