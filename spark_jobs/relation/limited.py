"""R behind its read limit: counts the tuples that a task reads, and makes it wait where they are too many."""

from __future__ import annotations

from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.read_limit import ReadLimit
from spark_jobs.relation.stored_relation import StoredRelation


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
