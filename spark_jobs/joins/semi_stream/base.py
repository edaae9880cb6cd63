"""What every semi-stream join has in common: its life, its view of the relation R, and what it hands back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from spark_jobs.errors import JoinStateError

Int64Array = NDArray[np.int64]
Waiting = TypeVar("Waiting", bound=Sized)

NO_TUPLES: Int64Array = np.empty(0, np.int64)


class Page(NamedTuple):
    """Tuples of R in memory: a page read by its number, or the result of a lookup.

    Where several tuples of R have one key, the relation hands them out as one, so that they are never
    parted: the join settles a stream tuple with all of them at once, and its caller unfolds them.

    Attributes:
        keys: int64, shape (m,), the join key of each tuple; no key stands twice.
        rows: the m tuples as the relation keeps them; the joins hand it back untouched.
        size: bytes that the page takes in memory.
    """

    keys: Int64Array
    rows: Any
    size: int


class Relation(Protocol):
    """R as a join sees it: numbered pages in key order, and an index on the join key."""

    @property
    def page_count(self) -> int:
        """Pages of R; may grow while a join runs, and never falls."""

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs at most, in bytes (v_P of the papers)."""

    @property
    def tuple_bytes(self) -> int:
        """Memory that one tuple needs, in bytes (v_R of the papers)."""

    def read_page(self, number: int) -> Page:
        """Read one page. One seek and one transfer of up to `page_bytes`."""

    def lookup(self, keys: Int64Array, ids: Int64Array) -> Page:
        """Read all tuples of R with one of these keys, by the index.

        Args:
            keys: int64, shape (n,), join keys.
            ids: int64, shape (n,), the stream tuples that ask: a relation whose keys are not
                integers finds the real key through them.
        """

    def gather(self, parts: Sequence[tuple[Any, Int64Array]]) -> Any:
        """Copy tuples out of pages, for a front stage to keep.

        Args:
            parts: at least one (rows of a page, int64 positions in it).

        Returns:
            Rows of the relation's kind: those of the first part, then those of the second, and so on.
        """


class Matches(NamedTuple):
    """Joined tuples: stream tuple ids[i] goes with tuple rows[i] of the page. Both int64, shape (n,)."""

    ids: Int64Array
    rows: Int64Array
    page: Page


class Step(NamedTuple):
    """What one step of a join settled.

    Attributes:
        matches: the joined tuples; may be empty, or None if nothing was read.
        unmatched: int64, shape (u,), stream tuples whose key is not in R.
    """

    matches: Matches | None
    unmatched: Int64Array


@dataclass
class Statistics:
    """Counts of one operator since it was made. Pages, bytes, probes and tuples; never seconds.

    Attributes:
        pages_read: pages of R read by number; each is one seek.
        lookups: accesses to R by its index, each for one key or a batch of keys.
        bytes_read: bytes of R that came into memory.
        probes: tuples of R looked up among stream tuples in memory, keys looked up in R, and keys
            looked up in a front stage.
        pushed: stream tuples taken; at any time pushed = matched + unmatched + shed + pending.
        matched: stream tuples joined.
        unmatched: stream tuples whose key is not in R.
        shed: stream tuples given up.
        extra: counts that only one algorithm has, by name.
    """

    pages_read: int = 0
    lookups: int = 0
    bytes_read: int = 0
    probes: int = 0
    pushed: int = 0
    matched: int = 0
    unmatched: int = 0
    shed: int = 0
    extra: dict[str, int] = field(default_factory=dict)

    @property
    def seeks(self) -> int:
        """Accesses to R: pages read by number, and lookups."""
        return self.pages_read + self.lookups


class SemiStreamJoin(ABC):
    """A join of stream tuples with R, within a memory budget fixed when it is made.

    Its life: `push` while there is `room`, `advance` while anything is `pending`, in any order that
    the caller likes; `shed` gives up the costliest tuples; `finish` joins all that is left, whenever
    the stream pauses. A step may settle nothing; a bounded number of steps settles a given tuple.
    Stream tuples are an int64 key, the number of the page of R that their key falls on, and an
    int64 id that the caller chose; the tuple itself stays with the caller.

    An algorithm implements `room`, `pending`, `memory_used`, `check` and the three underscored
    methods; arguments reach those validated, and the tuples' counts are kept here.
    """

    def __init__(self) -> None:
        self.statistics = Statistics()
        self._finishing = False

    @property
    @abstractmethod
    def room(self) -> int:
        """How many stream tuples `push` takes now."""

    @property
    @abstractmethod
    def pending(self) -> int:
        """How many stream tuples wait to be joined."""

    @property
    def reads_next(self) -> bool:
        """Whether the next step accesses R; it does not where a front stage has found tuples to settle."""
        return True

    def push(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        """Take stream tuples into memory.

        Args:
            keys: int64, shape (n,), their join keys.
            pages: int64, shape (n,), the page of R on which each key would be.
            ids: int64, shape (n,), at least 0 and unique among the pending ones.

        Raises:
            JoinStateError: n exceeds `room`, the arrays differ in length, or a page number is negative.
        """
        count = len(keys)
        if count > self.room:
            raise JoinStateError(
                f"{count} stream tuples pushed, but there is room for {self.room}: push a part, then advance"
            )
        if not count == len(pages) == len(ids):
            raise JoinStateError(f"{count} keys pushed with {len(pages)} pages and {len(ids)} ids: one each is needed")
        if count:
            if pages.min() < 0:
                raise JoinStateError(f"page {pages.min()} pushed: the pages of R are numbered from 0")
            self._take_in(
                np.ascontiguousarray(keys, np.int64),
                np.ascontiguousarray(pages, np.int64),
                np.ascontiguousarray(ids, np.int64),
            )
            self.statistics.pushed += count

    def advance(self, *, ending: bool = False) -> Step:
        """Do one step: read a page of R (or one batch of lookups) and settle all tuples it settles.

        An algorithm that waits until enough of the stream has come (MESHJOIN) does nothing until then.

        Args:
            ending: whether not to wait for more of the stream, as in `finish`.
        """
        if not self.pending:
            return Step(None, NO_TUPLES)
        self._finishing = ending
        try:
            step = self._step()
        finally:
            self._finishing = False
        if step.matches is not None:
            self.statistics.matched += len(step.matches.ids)
        self.statistics.unmatched += len(step.unmatched)
        return step

    def shed(self, count: int) -> Int64Array:
        """Give up `count` pending tuples, costliest first; their ids, shape (min(count, pending),)."""
        ids = self._give_up(max(0, min(count, self.pending)))
        self.statistics.shed += len(ids)
        return ids

    def finish(self) -> Iterator[Step]:
        """Join all pending tuples, step by step, without waiting for more of the stream."""
        while self.pending:
            yield self.advance(ending=True)

    def _settled_by_lookup(self, found: Page, key: Int64Array, id_: Int64Array) -> Step:
        """Count a lookup for one stream tuple, and settle the tuple by what it brought.

        Args:
            found: what the lookup brought.
            key: int64, shape (1,), the tuple's.
            id_: int64, shape (1,).
        """
        self.statistics.lookups += 1
        self.statistics.probes += 1
        self.statistics.bytes_read += found.size
        rows = np.flatnonzero(found.keys == key)
        if not rows.size:
            return Step(Matches(NO_TUPLES, NO_TUPLES, found), id_)
        return Step(Matches(id_, rows[:1], found), NO_TUPLES)

    @abstractmethod
    def memory_used(self) -> int:
        """Bytes held now: arrays, hash table, queue and disk buffer; never more than the budget."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant of the data structures; for tests, O(memory)."""

    @abstractmethod
    def _take_in(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        """Take at least one stream tuple, at most `room`."""

    @abstractmethod
    def _step(self) -> Step:
        """Do one step; there is at least one pending tuple. While `_finishing`, it may not wait for more of them."""

    @abstractmethod
    def _give_up(self, count: int) -> Int64Array:
        """Forget `count` pending tuples, costliest first; their ids."""


class QueuedJoin(SemiStreamJoin, Generic[Waiting]):
    """What most joins have in common: a tuple waits in `_waiting` from its push until it is settled.

    Attributes:
        capacity: stream tuples that the memory budget holds (H_t of 000, h_S of 003).
    """

    capacity: int
    _waiting: Waiting

    @property
    def room(self) -> int:
        """How many stream tuples `push` takes now."""
        return self.capacity - len(self._waiting)

    @property
    def pending(self) -> int:
        """How many stream tuples wait."""
        return len(self._waiting)
