"""R where it is stored, by pages and by keys: live in PostgreSQL, in a local copy, or either behind a read limit."""

from __future__ import annotations

from abc import ABC, abstractmethod

from spark_jobs.errors import SchemaMismatchError
from spark_jobs.joins.semi_stream.base import Int64Array, Page
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.page_index import PageIndex
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.relation.relation_spec import RelationSpec


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


def page_of_rows(rows: RelationRows) -> Page:
    """Tuples of R as joins want them, each code once."""
    rows = rows.with_unique_codes()
    return Page(rows.keys.codes, rows, rows.nbytes)
