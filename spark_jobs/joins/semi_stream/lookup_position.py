"""Which waiting stream tuple decides the page of R that is read next."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.structures.page_counters import PageCounters
from spark_jobs.joins.structures.page_waits import PageWaits
from spark_jobs.joins.structures.stream_tuples import StreamTuples

Int64Array = NDArray[np.int64]

# The best position in the paper's experiment (003 §5.3.1, Fig. 7).
PAPERS_SHARE = 0.15
_NO_PAGES: Int64Array = np.empty(0, np.int64)
# Tuples looked at before a page is read: with as many the choice is as good as among all.
_CANDIDATES = 64
# One access in so many is for the oldest tuple, while some wait for pages that are too new to be counted.
_ACCESSES_PER_OLDEST = 16


class LookupPosition(ABC):
    """A position in the queue; a join asks before every page, while there is at least one tuple.

    It belongs to one join, which tells it what comes and goes; most positions need not know.

    Attributes:
        ranked: whether it asks for tuples by their position, so that the queue must be ranked.
        overloaded: whether tuples are being shed. Whoever sheds sets it; a join that is never told
            looks up so that no tuple waits for ever.
    """

    ranked: bool = False
    overloaded: bool = False

    @abstractmethod
    def choose(self, waiting: StreamTuples) -> int:
        """The page of R to be read: that of the waiting tuple at this position."""

    def arrived(self, pages: Int64Array) -> None:  # noqa: B027
        """Learn which pages new tuples wait for, int64, shape (n,)."""

    def settled(self, page: int, count: int) -> None:  # noqa: B027
        """Learn that a page has been read, and how many tuples left with it."""

    def given_up(self, pages: Int64Array) -> None:  # noqa: B027
        """Learn that the oldest tuples have been shed: which pages they waited for, int64, shape (n,)."""

    def memory_used(self) -> int:
        """Bytes that it holds, the same all its life; a join takes them off its budget."""
        return 0


class OldestTuple(LookupPosition):
    """The queue's end (000 §4.2): no tuple waits longer than it takes to settle those before it."""

    def choose(self, waiting: StreamTuples) -> int:
        """The page of the oldest tuple. O(1)."""
        return waiting.page_of(waiting.oldest)


class FixedPosition(LookupPosition):
    """A fixed share of the queue, counted from its start, while tuples are shed; otherwise its end (003 §5.3.1).

    Args:
        share: between 0, the newest tuple, and 1, the oldest.

    Raises:
        ValueError: share out of range.
    """

    ranked = True

    def __init__(self, share: float = PAPERS_SHARE) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"a lookup position is a share of the queue from 0 (newest) to 1 (oldest), not {share}")
        self.share = share

    def choose(self, waiting: StreamTuples) -> int:
        """The page of the tuple at this share. O(1) for each tuple that came or left since the last call."""
        oldest = len(waiting) - 1
        return waiting.page_of(waiting.at(round(self.share * oldest)) if self.overloaded else waiting.oldest)


class LongestWait(LookupPosition):
    """The page whose tuples have waited longest in all: a position that adapts by itself, page by page.

    Ours, where the papers take a fixed position. Why it is good: a page that is loaded every T arrivals
    settles pT stream tuples then (p its stream probability), which have held pT/2 places of the queue on
    average. To settle as many as possible with a given number of loads and places, T has to be
    proportional to 1/sqrt(p): so every page is due when its tuples' waits, p T^2 / 2 in all, reach the
    same sum. No p needs to be known. With the oldest's, T is 1/p + S for all, and a popular page fills the
    queue with its tuples; with the most tuples', T is proportional to 1/p, and it is loaded too often.
    (Broadcast scheduling knows the rule as "longest wait first".)

    It serves with shedding and without: a tuple's wait grows until its page's turn comes. Only some
    tuples are looked at each time, at places in a row, which takes in all of them in turn.

    Pages that R gets later are not counted: they are read when one of their tuples is the oldest, and one
    access in 16 is for the oldest while there are such tuples.

    Args:
        page_count: pages of R; takes 12 bytes for each.
    """

    def __init__(self, page_count: int) -> None:
        self._waits = PageWaits(page_count)
        self._next_place = 1
        self._accesses = 0

    def choose(self, waiting: StreamTuples) -> int:
        """The page with the longest wait among some. O(1)."""
        self._accesses += 1
        if self._waits.untold and self._accesses % _ACCESSES_PER_OLDEST == 0:
            return waiting.page_of(waiting.oldest)
        if self._next_place > waiting.places:
            self._next_place = 1
        candidates = waiting.some_pages(self._next_place, _CANDIDATES)
        self._next_place += _CANDIDATES
        longest = self._waits.longest(candidates)
        return waiting.page_of(waiting.oldest) if longest < 0 else int(candidates[longest])

    def arrived(self, pages: Int64Array) -> None:
        """Learn which pages new tuples wait for. O(n)."""
        self._waits.arrived(pages)

    def settled(self, page: int, count: int) -> None:
        """Learn that a page has been read. O(1)."""
        self._waits.settled(page, count)

    def given_up(self, pages: Int64Array) -> None:
        """Learn that the oldest tuples have been shed. O(n)."""
        self._waits.given_up(pages)

    def memory_used(self) -> int:
        """Bytes of the pages' waits."""
        return self._waits.memory_used()


class FullestSlot(LookupPosition):
    """The page that most tuples wait for: what the partition-based join reads (000 §2, 003 §2).

    Pages that R gets later have no slot: one access in 16 is for the oldest tuple while some wait for them, and all are
    while no others wait.

    Args:
        page_count: pages of R; takes 8 bytes for each.

    Attributes:
        fullest: how many tuples wait for that page; 0 if none wait, or only for pages without a slot.
    """

    def __init__(self, page_count: int) -> None:
        self._slots = PageCounters(page_count)
        self._untold = 0
        self._accesses = 0
        self._page = 0
        self.fullest = 0

    def choose(self, waiting: StreamTuples) -> int:
        """The page of the fullest slot. O(1): it is known since the last change."""
        self._accesses += 1
        oldest_has_its_turn = self._untold and self._accesses % _ACCESSES_PER_OLDEST == 0
        return waiting.page_of(waiting.oldest) if oldest_has_its_turn or not self.fullest else self._page

    def arrived(self, pages: Int64Array) -> None:
        """Learn which pages new tuples wait for. O(n + page_count)."""
        self._slots.wait(pages)
        self._untold += self._without_slot(pages)
        self._find_fullest()

    def settled(self, page: int, count: int) -> None:
        """Learn that a page has been read. O(page_count)."""
        self._untold -= 0 if self._slots.counts(page) else count
        self._slots.settle(page, count)
        self._find_fullest()

    def given_up(self, pages: Int64Array) -> None:
        """Learn that the oldest tuples have been shed. O(n + page_count)."""
        self._slots.wait(pages, -1)
        self._untold -= self._without_slot(pages)
        self._find_fullest()

    def memory_used(self) -> int:
        """Bytes of the slots' counters."""
        return self._slots.memory_used()

    def _without_slot(self, pages: Int64Array) -> int:
        return int(np.count_nonzero(pages >= len(self._slots.waiting)))

    def _find_fullest(self) -> None:
        if len(self._slots.waiting):
            self._page, self.fullest = self._slots.most_waited_for(besides=_NO_PAGES)
