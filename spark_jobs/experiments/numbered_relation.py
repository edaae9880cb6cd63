"""R with integer keys and pages of any size, which the figures are measured with; PostgreSQL's tables as such."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.joins.semi_stream.base import Int64Array, Page, Relation
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.stored_relation import RelationPart


class NumberedRelation(Relation, Protocol):
    """R that knows its size, its keys, and the page of a key, without being read."""

    @property
    def row_count(self) -> int:
        """Tuples of R."""

    @property
    def page_row_step(self) -> int:
        """Page sizes that cost nothing to cut to are multiples of this many tuples."""

    def with_page_rows(self, page_rows: int) -> NumberedRelation:
        """The same R in pages of this many tuples."""

    def pages_of(self, keys: Int64Array) -> Int64Array:
        """The page on which each key is or would be, int64, shape (n,)."""

    def sample_keys(self, count: int) -> Int64Array:
        """Keys from all over R, ascending, int64, shape (count,) at most."""


class NumberedTable(RelationPart):
    """A table of PostgreSQL whose keys are the numbers from 0 on.

    Args:
        live: the table.
    """

    def __init__(self, live: LiveRelation) -> None:
        super().__init__(live, integer_keys(live, np.empty(0, np.int64)), range(live.page_count))
        self.live = live

    @property
    def row_count(self) -> int:
        """Tuples of R."""
        return self.live.spec.row_count

    @property
    def page_row_step(self) -> int:
        """Pages can be cut anew to multiples of this many tuples."""
        return self.live.pages.page_rows

    def with_page_rows(self, page_rows: int) -> NumberedTable:
        """R in larger pages, without reading its index anew.

        Raises:
            ValueError: the size is no multiple of this relation's.
        """
        return NumberedTable(self.live.with_page_rows(page_rows))

    def pages_of(self, keys: Int64Array) -> Int64Array:
        """The page on which each key is or would be, int64, shape (n,)."""
        return self.live.page_of(integer_keys(self.live, keys))

    def sample_keys(self, count: int) -> Int64Array:
        """Keys from all over R, ascending, int64, shape (count,) at most."""
        return np.linspace(0, self.row_count - 1, min(count, self.row_count)).round().astype(np.int64)

    def lookup(self, keys: Int64Array, ids: Int64Array) -> Page:
        """Read the tuples with these keys."""
        return self.live.lookup_keys(integer_keys(self.live, keys))


def integer_keys(live: LiveRelation, keys: Int64Array) -> KeyColumns:
    """Keys of a relation whose key is one integer, int64, shape (n,)."""
    return KeyColumns(live.spec.key_kinds, keys, None, np.ones(len(keys), np.bool_))
