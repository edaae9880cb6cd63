"""Which pages and keys of R are read to learn what reading it costs: from all over R, for joins ask for those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from spark_jobs.joins.semi_stream.base import Int64Array, Page, Relation
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.paged_relation import PagedRelation
from spark_jobs.relation.postgres_relation import PostgresRelation
from spark_jobs.relation.relation_size import fits_into_memory

_SMALLEST_PAGE_BYTES = 4 << 10
_LARGEST_PAGE_BYTES = 1 << 20
_FENCES_ENOUGH = 100
_PAGES_OF_KEYS = 16


class CuttableRelation(Relation, Protocol):
    """R whose pages can be cut to another size."""

    @property
    def row_count(self) -> int:
        """Tuples of R."""

    @property
    def tuple_bytes(self) -> int:
        """Memory of a tuple, in bytes."""

    @property
    def page_row_step(self) -> int:
        """Page sizes that cost nothing to cut to are multiples of this many tuples."""

    def with_page_rows(self, page_rows: int) -> CuttableRelation:
        """The same R in pages of so many tuples."""


class NumberedRelation(CuttableRelation, Protocol):
    """R with integer keys, some of which it can name."""

    def sample_keys(self, count: int) -> Int64Array:
        """Keys from all over R, ascending, int64, shape (count,) at most."""


def page_sizes(relation: CuttableRelation) -> list[int]:
    """Tuples of a page, ascending: five sizes from 4 KiB to 1 MiB, as far as R is large enough."""
    step = relation.page_row_step
    sizes = set()
    size = _SMALLEST_PAGE_BYTES
    while size <= _LARGEST_PAGE_BYTES:
        sizes.add(max(1, round(size / relation.tuple_bytes / step)) * step)
        size *= 4
    fitting = {rows for rows in sizes if rows <= relation.row_count}
    return sorted(fitting or {min(sizes)})


def spread_pages(relation: Relation, most: int) -> Int64Array:
    """Up to `most` pages from all over R, in any order; without the last one, which may be short, where it can be."""
    return _shuffled(_spread(max(1, relation.page_count - 1), most))


class SampleLookups:
    """Lookups of keys that are in R.

    Args:
        relation: R.
        most: keys at most.
    """

    def __init__(self, relation: PagedRelation | NumberedRelation, most: int) -> None:
        self._look_up: Callable[[Int64Array], Page]
        if isinstance(relation, PagedRelation):
            columns = _keys_of_pages(relation, most)
            self.count = len(columns)
            self._look_up = lambda numbers: relation.lookup_keys(columns.take(numbers))
        else:
            keys = _shuffled(relation.sample_keys(most))
            self.count = len(keys)
            self._look_up = lambda numbers: relation.lookup(keys[numbers], numbers)

    def look_up(self, numbers: Int64Array) -> Page:
        """Look these of the keys up, int64 (n,), below `count`, in one access."""
        return self._look_up(numbers)


def rows_of_a_lookup(relation: PagedRelation | NumberedRelation) -> int:
    """Neighbouring tuples of R that keys of a batch share the cost of; 1 where a server finds each by itself."""
    return 1 if isinstance(relation, PostgresRelation) else relation.page_row_step


def stays_in_memory(relation: Relation) -> bool:
    """Whether a read that is done again finds R in the server's memory."""
    if not isinstance(relation, PostgresRelation):
        return False
    spec = relation.spec
    return relation.connection.run(lambda connection: fits_into_memory(connection, spec.schema, spec.table))


def _keys_of_pages(relation: PagedRelation, most: int) -> KeyColumns:
    """Keys from as many places as can be told: the first ones of pages, or, of a small R, those on some pages."""
    keys = relation.pages.fences
    if len(keys) < _FENCES_ENOUGH:
        pages = _spread(relation.page_count, _PAGES_OF_KEYS)
        keys = KeyColumns.concatenate([relation.read_page(page).rows.keys for page in pages.tolist()])
    return keys.take(_shuffled(_spread(len(keys), most)))


def _spread(count: int, most: int) -> Int64Array:
    """Up to `most` numbers below `count`, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _shuffled(numbers: Int64Array) -> Int64Array:
    return np.random.default_rng(len(numbers)).permutation(numbers)
