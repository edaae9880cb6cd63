"""What every stream-stream join has in common: its life, what goes in, what comes out, and what it counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spark_jobs.errors import JoinStateError

if TYPE_CHECKING:
    from spark_jobs.joins.stream_stream.patterns import Pattern
    from spark_jobs.joins.stream_stream.predicates import Predicate

Int64Array = NDArray[np.int64]

MOST_STREAMS = 16
NO_TUPLES: Int64Array = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Tuples:
    """Tuples of one stream, column by column, in the order of arrival. All int64, shape (n,).

    Attributes:
        ids: at least 0, unique within the stream; the caller's. The tuple itself stays with the caller.
        keys: the join attribute; where it is an interval [low, high), its low end.
        highs: the interval's high end, above the low one; None where the attribute is one value.
        starts: from when the tuple is valid; None where tuples are valid for ever.
        ends: until when, exclusively: [start, end) of 004 §5.1, end above start.
    """

    ids: Int64Array
    keys: Int64Array
    highs: Int64Array | None = None
    starts: Int64Array | None = None
    ends: Int64Array | None = None

    def part(self, where: slice | NDArray[np.bool_] | Int64Array) -> Tuples:
        """Some of the tuples, in the order that is asked for."""
        return self._each(lambda column: column[where])

    def copied(self) -> Tuples:
        """The same, in int64 arrays of its own."""
        return self._each(lambda column: np.array(column, np.int64))

    def contiguous(self) -> Tuples:
        """The same, in arrays as kernels take them."""
        return self._each(lambda column: np.ascontiguousarray(column, np.int64))

    def _each(self, change: Callable[[Int64Array], Int64Array]) -> Tuples:
        highs, starts, ends = (None if c is None else change(c) for c in (self.highs, self.starts, self.ends))
        return Tuples(change(self.ids), change(self.keys), highs, starts, ends)


@dataclass(frozen=True, slots=True)
class Results:
    """What one call of a join settled.

    Attributes:
        ids: int64, shape (streams, m): result i is made of tuple ids[s, i] of each stream s. No result comes twice.
        starts: int64, shape (m,), from when each result is valid (004 §5.1: where all its tuples are); None without
            validity.
        ends: until when.
        unmatched: int64, shape (2, u): stream and id of tuples that have left the join for good and are in no result,
            of this call or another. No tuple comes twice.
        refused: int64, shape (r,): ids of the call's own tuples that came too late, or against a punctuation: they
            were not taken.
        propagated: the punctuations that now hold for the results too, with the stream that each came from: no
            result of a later call matches them, if no tuple comes against them (an algorithm that has forgotten a
            punctuation for lack of memory takes such tuples).
    """

    ids: Int64Array
    starts: Int64Array | None = None
    ends: Int64Array | None = None
    unmatched: Int64Array = field(default_factory=lambda: np.empty((2, 0), np.int64))
    refused: Int64Array = field(default_factory=lambda: NO_TUPLES)
    propagated: Sequence[tuple[int, Pattern]] = ()

    @property
    def count(self) -> int:
        """How many results there are."""
        return int(self.ids.shape[1])


def of_stream(stream: int, ids: Int64Array) -> Int64Array:
    """Stream and id of some tuples of a stream, shape (2, n): as `Results.unmatched` has them."""
    return np.stack((np.full(len(ids), stream), ids))


@dataclass
class Statistics:
    """Counts of one operator since it was made: tuples, probes and pages; never seconds.

    Attributes:
        arrived: tuples taken, of all streams.
        refused: tuples not taken.
        probes: tables, sweep areas or bit vectors looked into for one tuple.
        early: results of `arrive`, `punctuate`, `reach` and `request_propagation`.
        late: results of `advance` and `finish`.
        unmatched: tuples reported as unmatched.
        purged: tuples that left memory or disk because nothing could match them any more.
        flushed: tuples written to disk, each time that they were.
        punctuations: punctuations taken.
        propagated: punctuations handed on.
    """

    arrived: int = 0
    refused: int = 0
    probes: int = 0
    early: int = 0
    late: int = 0
    unmatched: int = 0
    purged: int = 0
    flushed: int = 0
    punctuations: int = 0
    propagated: int = 0


class StreamStreamJoin(ABC):
    """A join of two or more streams with each other, within a memory budget fixed when it is made.

    Its life: `arrive` and `punctuate` as the streams bring tuples and punctuations; `advance` a step of the
    background work (purge, disk stage, merge, propagation) when the streams pause, while there `is_work`; `finish`
    when all streams have ended. A result is a tuple of each stream, of which every two match by the predicate and are
    valid at a common time; each comes once, as early as the algorithm can tell. A tuple that leaves the operator
    without having been in a result is told as unmatched: once.

    What the operator holds is never more than its budget; the results belong to the caller. After an error of the disk
    nothing is promised any more. It does the same
    whenever it is given the same calls: the same state, files and results (`join_state` builds on that).

    An algorithm implements `is_work`, `memory_used`, `tuples_in_memory`, `tuples_on_disk`, `check` and the underscored
    methods; arguments reach those validated, and counts of what passes are kept here.

    Attributes:
        streams: how many there are.
        predicate: when two tuples match.
        statistics: what was done so far.
    """

    needs_validity = False
    """Whether tuples have starts and ends; they then come in order of (start, end), stream by stream (004 §5.1),
    but for a temporal join that was made with `AsFound`."""

    def __init__(self, streams: int, predicate: Predicate) -> None:
        if not 2 <= streams <= MOST_STREAMS:
            raise ValueError(f"from 2 to {MOST_STREAMS} streams can be joined, not {streams}")
        self.streams = streams
        self.predicate = predicate
        self.statistics = Statistics()
        self._finished = False
        # Tuples that had arrived when background work was last asked for.
        self._arrived_before = 0

    @property
    def arrived_since_advance(self) -> int:
        """Tuples taken since background work was last asked for: how high the load is."""
        return self.statistics.arrived - self._arrived_before

    @property
    @abstractmethod
    def is_work(self) -> bool:
        """Whether `advance` has anything to do."""

    def arrive(self, stream: int, tuples: Tuples) -> Results:
        """Take tuples of one stream, in their order.

        Raises:
            JoinStateError: after `finish`; or an argument is not as `Tuples` and `needs_validity` say. Nothing is
                taken then.
            MemoryBudgetError: an algorithm that has no disk has no room for them. Nothing is taken then.
        """
        self._expect_life(stream)
        self._expect_columns(tuples)
        if not len(tuples.ids):
            return self._none()
        results = self._arrive(stream, tuples.contiguous())
        self.statistics.arrived += len(tuples.ids) - len(results.refused)
        self.statistics.refused += len(results.refused)
        return self._counted(results, early=True)

    def punctuate(self, stream: int, pattern: Pattern) -> Results:
        """Learn that the stream brings no more tuples whose key matches a pattern (001 §2.2).

        Algorithms that make no use of it take note and do nothing.

        Raises:
            JoinStateError: after `finish`, or there is no such stream.
        """
        self._expect_life(stream)
        self.statistics.punctuations += 1
        return self._counted(self._punctuate(stream, pattern), early=True)

    def reach(self, stream: int, start: int) -> Results:
        """Learn that the stream brings no more tuples that start before a time: so that one that pauses holds up none.

        Only algorithms whose tuples have validity make use of it.

        Raises:
            JoinStateError: after `finish`, or there is no such stream.
        """
        self._expect_life(stream)
        return self._counted(self._reach(stream, start), early=True)

    def request_propagation(self) -> Results:
        """Hand on all punctuations that may be, for an operator downstream that asks (001 §3.5, pull mode).

        Only algorithms that hand punctuations on have any.
        """
        self._expect_unfinished()
        return self._counted(self._propagated(), early=True)

    def advance(self) -> Results:
        """Do one step of background work; nothing where there is none."""
        worth = self.is_work and not self._finished
        results = self._counted(self._step(), early=False) if worth else self._none()
        self._arrived_before = self.statistics.arrived
        return results

    def finish(self) -> Iterator[Results]:
        """All streams have ended: what is left of the results, then the tuples that stay unmatched. Ends the life.

        Raises:
            JoinStateError: it was called before.
        """
        self._expect_unfinished()
        self._finished = True
        return (self._counted(results, early=False) for results in self._finish())

    @abstractmethod
    def memory_used(self) -> int:
        """Bytes held now: tables, areas, buffers and directories; never more than the budget. O(1)."""

    @abstractmethod
    def tuples_in_memory(self) -> int:
        """How many tuples memory holds. O(streams)."""

    @abstractmethod
    def tuples_on_disk(self) -> int:
        """How many tuples lie on disk. O(1)."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant of the data structures; for tests, O(memory)."""

    @abstractmethod
    def _arrive(self, stream: int, tuples: Tuples) -> Results:
        """Take at least one tuple."""

    def _punctuate(self, stream: int, pattern: Pattern) -> Results:
        """Take a punctuation."""
        return self._none()

    def _propagated(self) -> Results:
        """Hand on what may be."""
        return self._none()

    def _reach(self, stream: int, start: int) -> Results:
        """Take note of a start."""
        return self._none()

    @abstractmethod
    def _step(self) -> Results:
        """Do one step of background work; there is some."""

    @abstractmethod
    def _finish(self) -> Iterator[Results]:
        """Settle all that is left, in pieces that fit the memory."""

    def _none(self) -> Results:
        """Results of a call that settled nothing."""
        nothing = np.empty((self.streams, 0), np.int64)
        return Results(nothing, NO_TUPLES, NO_TUPLES) if self.needs_validity else Results(nothing)

    def _counted(self, results: Results, *, early: bool) -> Results:
        if early:
            self.statistics.early += results.count
        else:
            self.statistics.late += results.count
        self.statistics.unmatched += results.unmatched.shape[1]
        self.statistics.propagated += len(results.propagated)
        return results

    def _expect_unfinished(self) -> None:
        if self._finished:
            raise JoinStateError("the streams have ended (`finish`): make a new operator for what comes now")

    def _expect_life(self, stream: int) -> None:
        self._expect_unfinished()
        if not 0 <= stream < self.streams:
            raise JoinStateError(f"there is no stream {stream}: there are {self.streams}, numbered from 0")

    def _expect_columns(self, tuples: Tuples) -> None:
        expected = {"highs": self.predicate.interval, "starts": self.needs_validity, "ends": self.needs_validity}
        for name, needed in expected.items():
            if (getattr(tuples, name) is not None) != needed:
                verb = "need" if needed else "have no"
                raise JoinStateError(f"tuples of {type(self).__name__} by {self.predicate} {verb} {name}")
        columns = (tuples.ids, tuples.keys, tuples.highs, tuples.starts, tuples.ends)
        lengths = {len(column) for column in columns if column is not None}
        if len(lengths) > 1:
            raise JoinStateError(f"columns of {sorted(lengths)} values: every tuple has one value in each")
        if not len(tuples.ids):
            return
        if tuples.ids.min() < 0:
            raise JoinStateError(f"id {tuples.ids.min()} given: ids begin at 0")
        if tuples.highs is not None and (tuples.highs <= tuples.keys).any():
            raise JoinStateError("an interval ends before it begins, or is empty: [low, high) needs low < high")
        if tuples.starts is not None and tuples.ends is not None and (tuples.ends <= tuples.starts).any():
            raise JoinStateError("a tuple is valid for no time at all: [start, end) needs start < end")
