"""R behind its read limit: counts the tuples that a task reads, and makes it wait where they are too many."""

from __future__ import annotations

from typing import Protocol

from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.relation_spec import RelationSpec
from spark_jobs.stages.read_limit import ReadLimit


class ReadRelation(Protocol):
    """R as a task reads it: PostgresRelation, or what stands before it."""

    @property
    def spec(self) -> RelationSpec:
        """What is read."""

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs at most, in bytes."""

    def read_page(self, number: int) -> Page:
        """Read one page."""

    def read_pages(self, first: int, count: int) -> Page:
        """Read pages that follow each other as one."""

    def lookup_keys(self, keys: KeyColumns) -> Page:
        """Read the tuples with these keys."""


class MeteredRelation:
    """A relation whose reads are counted, and limited.

    A page costs the tuples that are on it, a lookup the keys that are asked for, whether they are found or not.
    What prepares a stream is not counted: pages are cut by the index alone, and calibration reads for a tenth of a
    second.

    Args:
        relation: R.
        limit: shared by all that this process reads for the lookup; None: only count.

    Attributes:
        limit: as given.
        tuples_read: tuples of R, and keys asked for, since it was made.
    """

    def __init__(self, relation: ReadRelation, limit: ReadLimit | None) -> None:
        self.limit = limit
        self.tuples_read = 0
        self._relation = relation
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
    def spec(self) -> RelationSpec:
        """What is read."""
        return self._relation.spec

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs at most, in bytes."""
        return self._relation.page_bytes

    def read_page(self, number: int) -> Page:
        """Read one page when the limit allows it."""
        self._wait()
        page = self._relation.read_page(number)
        self._count(len(page.keys))
        return page

    def read_pages(self, first: int, count: int) -> Page:
        """Read pages that follow each other as one, when the limit allows it."""
        self._wait()
        page = self._relation.read_pages(first, count)
        self._count(len(page.keys))
        return page

    def lookup_keys(self, keys: KeyColumns) -> Page:
        """Read the tuples with these keys when the limit allows it."""
        self._wait()
        self._count(len(keys))
        return self._relation.lookup_keys(keys)

    def _wait(self) -> None:
        if self.limit is not None:
            self.limit.wait()

    def _count(self, tuples: int) -> None:
        self.tuples_read += tuples
        if self.limit is not None:
            self.limit.take(tuples)
