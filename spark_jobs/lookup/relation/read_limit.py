"""`read_limit`: how many tuples of R may be read in a second, because R lives in an operational database."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from functools import cache

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.lookup.relation.stored_relation import StoredRelation

Clock = Callable[[], float]
Sleep = Callable[[float], None]

LONGEST_SLEEP_SECONDS = 0.05
SHORTEST_SLEEP_SECONDS = 0.001
SAVED_SECONDS = 2.0
READ_SECONDS = 0.25


def tuples_at_once(rate: float) -> int:
    """The most tuples that a single read should ask for at this rate, tuples a second."""
    return max(1, int(rate * READ_SECONDS))


class ReadLimit:
    """A token bucket: each tuple of R that is read takes a token, and tokens come back at the allowed rate.

    How many tuples a page holds shows when it has been read. So a read may begin as soon as the bucket is not
    overdrawn, and may overdraw it: the next one then waits for longer. On average the rate is kept; in a single
    second it may be passed by what was saved up between two batches, and by one read.

    Args:
        rate: tokens a second, more than 0.
        clock: tells seconds.
        sleep: waits for seconds; asked for a slice at a time, so that a signal is soon noticed.

    Attributes:
        seconds_waited: how long reads have waited since the limit was made.
    """

    def __init__(self, rate: float, clock: Clock = time.monotonic, sleep: Sleep = time.sleep) -> None:
        self.rate = rate
        self.seconds_waited = 0.0
        self._clock = clock
        self._sleep = sleep
        self._tokens = 0.0  # a new process does not begin with a burst
        self._counted_at = clock()

    @property
    def tuples_at_once(self) -> int:
        """Tuples that a single read should ask for at most."""
        return tuples_at_once(self.rate)

    def seconds_until_ready(self) -> float:
        """How long a read that wants to begin now has to wait; 0 if it may begin."""
        self._refill()
        return max(0.0, -self._tokens / self.rate)

    def wait(self) -> None:
        """Wait until a read may begin."""
        began = self._clock()
        while (left := self.seconds_until_ready()) > 0:
            self._sleep(min(max(left, SHORTEST_SLEEP_SECONDS), LONGEST_SLEEP_SECONDS))
        self.seconds_waited += self._clock() - began

    def take(self, tuples: int) -> None:
        """Account for a read of this many tuples."""
        self._refill()
        self._tokens -= tuples

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(self._tokens + (now - self._counted_at) * self.rate, SAVED_SECONDS * self.rate)
        self._counted_at = now


@cache
def read_limit_of(lookup: Hashable, rate: float) -> ReadLimit:
    """This process' limit for a lookup. Kept from batch to batch: short ones would each begin with a new one.

    Args:
        lookup: tells the lookups of a process apart.
        rate: tuples of R that this process may read in a second.
    """
    return ReadLimit(rate)


class LimitedRelation(StoredRelation):
    """A relation whose reads are counted, and limited.

    A page costs the tuples that are on it, a lookup the keys that are asked for, whether they are found or not.
    What prepares a stream is not counted: pages are cut by the index alone, and calibration reads for a tenth of a
    second.

    Args:
        stored: R.
        limit: shared by all that this process reads for the lookup; None: only count.

    Attributes:
        limit: as given.
        tuples_read: tuples of R, and keys asked for, since it was made.
    """

    def __init__(self, stored: StoredRelation, limit: ReadLimit | None) -> None:
        super().__init__(stored.spec, stored._pages)
        self.limit = limit
        self.tuples_read = 0
        self._stored = stored
        self._waited_before = limit.seconds_waited if limit else 0.0

    @property
    def seconds_waited(self) -> float:
        """How long reads have waited for the limit since it was made."""
        return self.limit.seconds_waited - self._waited_before if self.limit else 0.0

    @property
    def most_tuples(self) -> int | None:
        """Tuples that one read should not exceed, where the reader can choose; None: any number."""
        return self.limit.tuples_at_once if self.limit else None

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs at most, in bytes."""
        return self._stored.page_bytes

    def read_pages(self, first: int, count: int = 1) -> Page:
        """Read pages that follow each other as one, when the limit allows it."""
        self._wait()
        page = self._stored.read_pages(first, count)
        self._count(len(page.keys))
        return page

    def lookup_keys(self, keys: KeyColumns) -> Page:
        """Read the tuples with these keys when the limit allows it."""
        self._wait()
        self._count(len(keys))
        return self._stored.lookup_keys(keys)

    def _wait(self) -> None:
        if self.limit is not None:
            self.limit.wait()

    def _count(self, tuples: int) -> None:
        self.tuples_read += tuples
        if self.limit is not None:
            self.limit.take(tuples)
