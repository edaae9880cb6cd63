"""R where it is stored, by its own pages and real keys, and the part of it that a join sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.joins.semi_stream.base import Int64Array, Page
from spark_jobs.lookup.relation.page_index import PageIndex
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.lookup.relation.relation_spec import RelationSpec

# What a page costs in PostgreSQL's memory, by statements of 8 pages instead of one: of 500 narrow tuples 0.08 ms
# instead of 0.25, of 2,000 0.26 instead of 0.42 in key order and 0.79 instead of 1.35 in another; of 2,000 tuples of
# 120 bytes 1.27 instead of 1.55. One by one, pages that follow each other cost as much as any others.
_MOST_PAGES = 8
_LARGEST_RUN_SHARE = 4


class StoredRelation(ABC):
    """R by its own pages and real keys. A join sees a `RelationPart` of it.

    Args:
        spec: the relation, its key and fetched columns.
        pages: cuts R into pages; None for a relation that is only looked up.
    """

    def __init__(self, spec: RelationSpec, pages: PageIndex | None) -> None:
        self.spec = spec
        self._pages = pages

    @property
    def pages(self) -> PageIndex:
        """The page index.

        Raises:
            SchemaMismatchError: the relation was opened without one.
        """
        if self._pages is None:
            raise SchemaMismatchError(
                self.spec.page_refusal or f"{self.spec.relation} was opened for lookups only: build a PageIndex first."
            )
        return self._pages

    @property
    def page_count(self) -> int:
        """Pages of R; none where it can't be read by pages."""
        return self._pages.page_count if self._pages is not None else 0

    @property
    @abstractmethod
    def page_bytes(self) -> int:
        """Memory that one page needs at most, in bytes."""

    def page_of(self, keys: KeyColumns) -> Int64Array:
        """The page on which each key is, or would be; int64, shape (n,)."""
        return self.pages.page_of(keys)

    @abstractmethod
    def read_pages(self, first: int, count: int = 1) -> Page:
        """Read pages that follow each other as one, whole, however many tuples they have by now."""

    @abstractmethod
    def lookup_keys(self, keys: KeyColumns) -> Page:
        """Read the tuples with these keys, shape (n,), in one access; keys may repeat or be invalid."""

    def rows_of_keys(self, keys: KeyColumns, at_once: int) -> RelationRows:
        """The tuples with these keys, shape (n,), looked up this many at a time; those that are gone are left out."""
        parts = (np.arange(first, min(first + at_once, len(keys))) for first in range(0, len(keys), at_once))
        found = [self.lookup_keys(keys.take(part)).rows for part in parts]
        return RelationRows.concatenate([RelationRows.empty(self.spec), *found])


def page_of_rows(rows: RelationRows) -> Page:
    """Tuples of R as joins want them, each code once."""
    rows = rows.with_unique_codes()
    return Page(rows.keys.codes, rows, rows.nbytes)


class RelationPart:
    """The `Relation` of one task's tuples, whose ids are positions in `keys`.

    Pages are numbered from the first of the task's range on, so that an algorithm that reads all of R, page
    after page, reads the range that its task owns, and no task reads what another one does.

    For MESHJOIN and R-MESHJOIN, a page can be a run of stored ones, read in one go. Not for algorithms that read a page
    for the sake of certain stream tuples: its numbers are others then.

    Args:
        stored: R.
        keys: keys of the task's stream tuples, shape (n,).
        pages: the stored pages that the task owns; none for a relation that can't be read by pages.
        pages_at_once: stored pages of a run.
    """

    def __init__(self, stored: StoredRelation, keys: KeyColumns, pages: range, pages_at_once: int = 1) -> None:
        self._stored = stored
        self._keys = keys
        self._pages = pages
        self.pages_at_once = pages_at_once

    @classmethod
    def whole(cls, stored: StoredRelation, keys: KeyColumns | None = None) -> RelationPart:
        """All of R, for tuples with these keys; for none if left out."""
        none = RelationRows.empty(stored.spec).keys
        return cls(stored, none if keys is None else keys, range(stored.page_count))

    def in_runs(self, memory_bytes: int) -> RelationPart:
        """The same part in runs of as many pages as are worthwhile, and take a quarter of a join's memory at most.

        The disk buffer's memory is taken from the stream tuples': fewer of them share each read.
        """
        fitting = memory_bytes // (_LARGEST_RUN_SHARE * max(1, self._stored.page_bytes))
        return self.in_runs_of(max(1, min(_MOST_PAGES, fitting, len(self._pages))))

    def in_runs_of(self, pages_at_once: int) -> RelationPart:
        """The same part in runs of this many pages."""
        return RelationPart(self._stored, self._keys, self._pages, pages_at_once)

    @property
    def first_page(self) -> int:
        """R's own number of this part's page 0."""
        return self._pages.start

    @property
    def page_count(self) -> int:
        """Pages of the range, or runs of them."""
        return -(-len(self._pages) // self.pages_at_once)

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs at most, in bytes; of a relation without pages, that one tuple needs."""
        return self.pages_at_once * self._stored.page_bytes if self._pages else self.tuple_bytes

    @property
    def tuple_bytes(self) -> int:
        """Memory of one tuple on average, in bytes."""
        return self._stored.spec.tuple_bytes

    def read_page(self, number: int) -> Page:
        """Read one page of the range, or one run; the last one may be short."""
        run = self._pages[number * self.pages_at_once : (number + 1) * self.pages_at_once]
        return self._stored.read_pages(run.start, len(run))

    def lookup(self, keys: Int64Array, ids: Int64Array) -> Page:
        """Read the tuples of R that have the keys of these stream tuples."""
        return self._stored.lookup_keys(self._keys.take(ids))

    def gather(self, parts: Sequence[tuple[RelationRows, Int64Array]]) -> RelationRows:
        """Copy tuples out of pages: those at the given positions, part after part; at least one part."""
        return RelationRows.concatenate([rows.take(positions) for rows, positions in parts])
