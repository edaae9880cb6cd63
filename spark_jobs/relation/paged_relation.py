"""What relations have in common that are read by page and by key, wherever their tuples lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from spark_jobs.errors import JoinStateError, SchemaMismatchError
from spark_jobs.joins.semi_stream.base import Int64Array, Page
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.page_index import PageIndex
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.relation.relation_spec import RelationSpec


class PagedRelation(ABC):
    """A relation as the joins see it.

    Args:
        spec: the relation, its key and fetched columns.
        pages: cuts R into pages; None for a relation that is only looked up.
    """

    def __init__(self, spec: RelationSpec, pages: PageIndex | None) -> None:
        self._spec = spec
        self._pages = pages

    @property
    def spec(self) -> RelationSpec:
        """What is read."""
        return self._spec

    @property
    def pages(self) -> PageIndex:
        """The page index.

        Raises:
            SchemaMismatchError: the relation was opened without one.
        """
        if self._pages is None:
            raise SchemaMismatchError(
                self._spec.page_refusal
                or f"{self._spec.relation} was opened for lookups only: build a PageIndex first."
            )
        return self._pages

    @property
    def page_count(self) -> int:
        """Pages of R."""
        return self.pages.page_count

    @property
    def page_rows(self) -> int:
        """Tuples of a page when R was cut into pages."""
        return self.pages.page_rows

    @property
    @abstractmethod
    def page_row_step(self) -> int:
        """Pages can be cut anew to multiples of this many tuples."""

    @property
    @abstractmethod
    def row_count(self) -> int:
        """Tuples of R, as far as that is known."""

    @property
    @abstractmethod
    def page_bytes(self) -> int:
        """Memory that one page needs, in bytes."""

    @property
    def tuple_bytes(self) -> int:
        """Memory of one tuple on average, in bytes."""
        return self._spec.tuple_bytes

    def page_of(self, keys: KeyColumns) -> Int64Array:
        """The page on which each key is, or would be; int64, shape (n,)."""
        return self.pages.page_of(keys)

    def pages_of(self, keys: Int64Array) -> Int64Array:
        """The same for the keys themselves, int64 (n,), of a relation whose key is one integer or date.

        Raises:
            JoinStateError: the relation's keys are hash codes, which have no order: use `page_of`.
        """
        return self.page_of(self._integer_keys(keys))

    def read_page(self, number: int) -> Page:
        """Read one page whole, however many tuples it has by now."""
        return self.read_pages(number, 1)

    @abstractmethod
    def read_pages(self, first: int, count: int) -> Page:
        """Read pages that follow each other as one."""

    def lookup(self, keys: Int64Array, ids: Int64Array) -> Page:
        """Read the tuples with these keys, int64 (n,), of a relation whose key is one integer or date.

        Raises:
            JoinStateError: the relation's keys are hash codes, from which a key can't be told: use `lookup_keys`.
        """
        return self.lookup_keys(self._integer_keys(keys))

    @abstractmethod
    def lookup_keys(self, keys: KeyColumns) -> Page:
        """Read the tuples with these keys, shape (n,), in one access; keys may repeat or be invalid."""

    def gather(self, parts: Sequence[tuple[RelationRows, Int64Array]]) -> RelationRows:
        """Copy tuples out of pages: those at the given positions, part after part; at least one part."""
        return RelationRows.concatenate([rows.take(positions) for rows, positions in parts])

    def _integer_keys(self, keys: Int64Array) -> KeyColumns:
        kinds = self._spec.key_kinds
        if len(kinds) > 1 or not kinds[0].is_number:
            raise JoinStateError(
                f"The keys of {self._spec.relation} can't be told from hash codes: use lookup_keys and page_of."
            )
        return KeyColumns(kinds, keys, None, np.ones(len(keys), np.bool_))


def page_of_rows(rows: RelationRows) -> Page:
    """Tuples of R as joins want them, each code once."""
    rows = rows.with_unique_codes()
    return Page(rows.keys.codes, rows, rows.nbytes)
