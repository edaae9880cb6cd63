"""Drives a stream-stream join through its life and compares it with the naive join."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream import ALGORITHMS, PredicateKind, create
from spark_jobs.joins.stream_stream.base import Results, StreamStreamJoin, Tuples
from spark_jobs.joins.stream_stream.emission import AsFound
from spark_jobs.joins.stream_stream.patterns import Pattern, constant
from spark_jobs.joins.stream_stream.predicates import Band, Equality, Overlap, Predicate, Values
from tests.joins.stream_stream.naive_join import Matches, Row, naive_join, tuples_of

BATCHES = (1, 2, 7, 49, 50, 51, 1000)
FOR_EVER = 2**62
PAGE_BYTES = 256
KEYS = 40
LATENESS = 15


class SameParity:
    """A predicate of the user's: values of one parity, at most 4 apart."""

    interval = False

    def joins(self, left: Values, right: Values) -> NDArray[np.bool_]:
        return (np.abs(left.keys - right.keys) <= 4) & ((left.keys - right.keys) % 2 == 0)

    def removes(self, reached: Values, kept: Values) -> NDArray[np.bool_]:
        return np.less(kept.keys, reached.keys - 4)


# Beside each predicate what it means, written as simply as can be.
PREDICATES: dict[PredicateKind, tuple[Predicate, Matches]] = {
    "equality": (Equality(), lambda a, b: a.key == b.key),
    "overlap": (Overlap(), lambda a, b: a.key < b.high and b.key < a.high),
    "band": (Band(3), lambda a, b: abs(a.key - b.key) <= 3),
    "own": (SameParity(), lambda a, b: abs(a.key - b.key) <= 4 and (a.key - b.key) % 2 == 0),
}


@dataclass(frozen=True)
class Case:
    """What is joined by which algorithm; `joined` makes the operator on a disk.

    Attributes:
        any_order: whether tuples come in any order, and only `reach` tells how far a stream is.
    """

    algorithm: str
    predicate: PredicateKind = "equality"
    streams: int = 2
    any_order: bool = False

    @property
    def validity(self) -> bool:
        return ALGORITHMS[self.algorithm].validity

    @property
    def ordered(self) -> bool:
        return ALGORITHMS[self.algorithm].ordered and not self.any_order

    @property
    def intervals(self) -> bool:
        return self.predicate == "overlap"

    def joined(self, memory: int, spill: VirtualSpill) -> StreamStreamJoin:
        policies = {"emission": AsFound()} if self.any_order else {}
        return create(self.algorithm, self.streams, PREDICATES[self.predicate][0], memory, spill, **policies)

    def least_memory(self) -> int:
        """The smallest budget in bytes with which the operator can be made."""
        too_small, enough = 0, 1 << 24
        while enough - too_small > 1:
            middle = (too_small + enough) // 2
            try:
                self.joined(middle, VirtualSpill(page_bytes=PAGE_BYTES))
                enough = middle
            except MemoryBudgetError:
                too_small = middle
        return enough

    def tuples(self, rows: Sequence[Row]) -> Tuples:
        return tuples_of(rows, intervals=self.intervals, validity=self.validity)


def random_streams(case: Case, randomness: random.Random, counts: Sequence[int]) -> list[list[Row]]:
    """Streams of skewed keys, in order of their validity where there is one: windows of changing length.

    Where any order will do, each tuple is late by up to LATENESS.
    """
    streams = []
    for count in counts:
        clock, rows = 0, []
        for _ in range(count):
            clock += randomness.choice((0, 0, 1, 1, 2, 9))
            key = int(KEYS * randomness.random() ** 2)
            validity = (clock, clock + randomness.choice((1, 5, 20, 60))) if case.validity else (0, FOR_EVER)
            rows.append((key, key + randomness.choice((1, 1, 2, 6)), *validity))
        rows.sort(key=lambda row: row[2:])
        if case.any_order:
            rows.sort(key=lambda row: row[2] + randomness.randrange(LATENESS))
        streams.append([Row(id_, *row) for id_, row in enumerate(rows)])
    return streams


def punctuations_for(rows: Sequence[Row], randomness: random.Random) -> dict[int, list[Pattern]]:
    """For some keys, behind the last tuple with one, the punctuation that tells it: position to patterns."""
    last = {row.key: position for position, row in enumerate(rows)}
    told: dict[int, list[Pattern]] = {}
    for key, position in last.items():
        if randomness.random() < 0.7:
            told.setdefault(position + 1 + randomness.randrange(4), []).append(constant(key))
    return told


@lru_cache(maxsize=40)
def _expected(predicate: PredicateKind, streams: tuple[tuple[Row, ...], ...]) -> dict[tuple[int, ...], tuple[int, int]]:
    """What the naive join gives: once for all algorithms and memories that join the same streams."""
    return naive_join(streams, PREDICATES[predicate][1])


@dataclass
class Run:
    """One operator at work, all its promises checked after every call.

    Attributes:
        found: for each result, from when and until when it is valid.
        unmatched: stream and id of the tuples that were reported as unmatched.
    """

    case: Case
    memory: int
    make: Callable[[int, VirtualSpill], StreamStreamJoin] | None = None
    found: dict[tuple[int, ...], tuple[int, int]] = field(default_factory=dict)
    unmatched: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.spill = VirtualSpill(page_bytes=PAGE_BYTES)
        self.join = (self.make or self.case.joined)(self.memory, self.spill)
        self.arrived: list[list[Row]] = [[] for _ in range(self.case.streams)]
        self._latest = (-(2**63), -(2**63))
        self._reached = [-(2**63)] * self.case.streams
        self._propagated: list[tuple[int, Pattern]] = []
        self._matched: set[tuple[int, int]] = set()
        self._check()

    def arrive(self, stream: int, rows: Sequence[Row]) -> None:
        self.arrived[stream] += rows
        self.take(self.join.arrive(stream, self.case.tuples(rows)))

    def punctuate(self, stream: int, pattern: Pattern) -> None:
        self.take(self.join.punctuate(stream, pattern))

    def reach(self, stream: int, start: int) -> None:
        """Tell how far a stream is. Where memory holds all, what is over by that has left, and was told."""
        self._reached[stream] = max(self._reached[stream], start)
        self.take(self.join.reach(stream, start))
        if self.join.tuples_on_disk():
            return
        for number, rows in enumerate(self.arrived):
            bound = min(reached for other, reached in enumerate(self._reached) if other != number)
            over = {(number, row.id) for row in rows if row.end <= bound}
            assert over - self._matched == {pair for pair in self.unmatched if pair[0] == number}

    def advance(self) -> None:
        self.take(self.join.advance())

    def finish(self) -> None:
        for results in self.join.finish():
            self.take(results)
        assert not self.join.is_work

    def take(self, results: Results) -> None:
        """Note what a call settled."""
        assert not results.refused.size
        starts = [0] * results.count if results.starts is None else results.starts.tolist()
        ends = [FOR_EVER] * results.count if results.ends is None else results.ends.tolist()
        for ids, start, end in zip(zip(*results.ids.tolist(), strict=True), starts, ends, strict=True):
            assert ids not in self.found, f"{ids} came twice"
            assert self.unmatched.isdisjoint(enumerate(ids)), f"{ids} has a tuple that was told as unmatched"
            if self.case.ordered:
                assert (start, end) >= self._latest
                self._latest = (start, end)
            self._assert_not_propagated(ids)
            self.found[ids] = (start, end)
            self._matched.update(enumerate(ids))
        for pair in zip(*results.unmatched.tolist(), strict=True):
            assert pair not in self.unmatched, f"{pair} was told twice"
            assert pair not in self._matched, f"{pair} is in a result"
            self.unmatched.add(pair)
        self._propagated += results.propagated
        self._check()

    def assert_equals_naive_join(self) -> None:
        """All results have come, and every tuple that is in none was told."""
        expected = _expected(self.case.predicate, tuple(map(tuple, self.arrived)))
        assert self.found == expected
        everything = {(stream, row.id) for stream, rows in enumerate(self.arrived) for row in rows}
        assert self.unmatched == everything - self._matched
        counts = self.join.statistics
        assert (counts.arrived, counts.early + counts.late) == (len(everything), len(expected))
        assert counts.unmatched == len(self.unmatched)

    def play(self, streams: Sequence[Sequence[Row]], randomness: random.Random, *, pauses: float = 0.3) -> None:
        """Let streams arrive in pieces of changing size, with punctuations where they are made use of, and pauses."""
        positions = [0] * len(streams)
        told = [
            punctuations_for(rows, randomness) if ALGORITHMS[self.case.algorithm].punctuations else {}
            for rows in streams
        ]
        while any(position < len(rows) for position, rows in zip(positions, streams, strict=True)):
            stream = randomness.choice([s for s, rows in enumerate(streams) if positions[s] < len(rows)])
            for _ in range(randomness.choice(BATCHES)):
                due = sorted(position for position in told[stream] if position > positions[stream])
                until = min([positions[stream] + randomness.choice(BATCHES), len(streams[stream]), *due])
                self.arrive(stream, streams[stream][positions[stream] : until])
                positions[stream] = until
                for pattern in told[stream].pop(until, []):
                    self.punctuate(stream, pattern)
                if until == len(streams[stream]) or randomness.random() < 0.5:
                    break
            if self.case.any_order and positions[stream] < len(streams[stream]) and randomness.random() < 0.5:
                self.reach(stream, min(row.start for row in streams[stream][positions[stream] :]))
            while randomness.random() < pauses:
                self.advance()
        self.finish()

    def _assert_not_propagated(self, ids: tuple[int, ...]) -> None:
        """Theorem 1 of 001: no result comes of a key whose punctuation was handed on."""
        for stream, pattern in self._propagated:
            key = self.arrived[stream][ids[stream]].key
            assert not pattern.matches(np.array([key])).any(), f"{ids} came after its punctuation was handed on"

    def _check(self) -> None:
        self.join.check()
        assert self.join.memory_used() <= self.memory
