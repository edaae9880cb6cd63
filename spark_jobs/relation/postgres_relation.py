"""R live in PostgreSQL: read by page and by key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from psycopg2 import sql

from spark_jobs.errors import JoinStateError, SchemaMismatchError
from spark_jobs.joins.semi_stream.base import Int64Array, Page
from spark_jobs.relation.copy_decoding.decode import decode_copy
from spark_jobs.relation.key_literals import representable
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.page_index import DEFAULT_PAGE_ROWS, PageIndex
from spark_jobs.relation.queries import lookup_query, page_query
from spark_jobs.relation.reading_connection import ReadingConnection, reading_connection
from spark_jobs.relation.relation_rows import RelationRows, rows_of
from spark_jobs.relation.relation_spec import RelationSpec

_FIELD_HEADER_BYTES = 4


class PostgresRelation:
    """A relation as the joins see it. Cheap to make: all relations of a process share one connection per warehouse.

    Args:
        url: libpq URL of the warehouse.
        spec: the relation, its key and fetched columns.
        pages: cuts R into pages; None for a relation that is only looked up.
    """

    def __init__(self, url: str, spec: RelationSpec, pages: PageIndex | None = None) -> None:
        self._url = url
        self._spec = spec
        self._pages = pages

    @classmethod
    def open(cls, url: str, spec: RelationSpec, page_rows: int = DEFAULT_PAGE_ROWS) -> PostgresRelation:
        """A relation with pages of `page_rows` tuples, whose index is built now.

        Raises:
            SchemaMismatchError: no index gives R's key in an order that pages can have.
        """
        pages = reading_connection(url).run(lambda connection: PageIndex.build(connection, spec, page_rows))
        return cls(url, spec, pages)

    @property
    def spec(self) -> RelationSpec:
        """What is read."""
        return self._spec

    @property
    def connection(self) -> ReadingConnection:
        """This process' connection to the warehouse."""
        return reading_connection(self._url)

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
    def page_row_step(self) -> int:
        """Pages can be cut anew to multiples of this many tuples."""
        return self.pages.page_rows

    @property
    def row_count(self) -> int:
        """Tuples of R, as far as the catalog knew when it was described."""
        return self._spec.row_count

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs, in bytes: while it is decoded, what was received stands beside the tuples."""
        received = self._spec.tuple_bytes + _FIELD_HEADER_BYTES * (len(self._spec.read_types) + 1)
        return self.pages.page_rows * (self._spec.tuple_bytes + received)

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

    def with_page_rows(self, page_rows: int) -> PostgresRelation:
        """R in larger pages, without reading its index anew.

        Raises:
            ValueError: the size is no multiple of this relation's.
        """
        return PostgresRelation(self._url, self._spec, self.pages.with_page_rows(page_rows))

    def read_page(self, number: int) -> Page:
        """Read one page whole, however many tuples it has by now. One range of the index.

        Raises:
            WarehouseUnavailableError: PostgreSQL went away and did not come back in time.
        """
        return self.read_pages(number, 1)

    def read_pages(self, first: int, count: int) -> Page:
        """Read pages that follow each other as one, in one range of the index.

        Eight pages of 2,000 narrow tuples, in key order or not, take 0.6 of the time that they take one by one.

        Raises:
            WarehouseUnavailableError: PostgreSQL went away and did not come back in time.
        """
        return self._read(page_query(self._spec, self.pages.fences, first, count))

    def lookup(self, keys: Int64Array, ids: Int64Array) -> Page:
        """Read the tuples with these keys, int64 (n,), of a relation whose key is one integer or date.

        Raises:
            JoinStateError: the relation's keys are hash codes, from which a key can't be told: use `lookup_keys`.
        """
        return self.lookup_keys(self._integer_keys(keys))

    def lookup_keys(self, keys: KeyColumns) -> Page:
        """Read the tuples with these keys, shape (n,), in one query by the index; keys may repeat or be invalid."""
        wanted = keys.distinct()
        known = representable(wanted)
        if not known.all():
            wanted = wanted.take(np.flatnonzero(known))
        if not len(wanted):
            return _page(RelationRows.empty(self._spec))
        # Keys that follow each other are found on the same pages of the index.
        return self._read(lookup_query(self._spec, wanted.in_order() if len(wanted.kinds) > 1 else wanted))

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

    def _read(self, query: sql.Composable) -> Page:
        content = self.connection.copy(query)
        return _page(rows_of(decode_copy(content, self._spec.read_types), self._spec))


def _page(rows: RelationRows) -> Page:
    rows = rows.with_unique_codes()
    return Page(rows.keys.codes, rows, rows.nbytes)
