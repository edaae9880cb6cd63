"""A copy as the joins see it, and one in which the tuples that have changed since are those of PostgreSQL."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_jobs.columns.arrow_buffers import single_array
from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.joins.semi_stream.base import Int64Array, Page
from spark_jobs.lookup.local_copy.copy_files import CopyManifest, PageFiles
from spark_jobs.lookup.relation.relation_rows import RelationRows, rows_of
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.lookup.relation.stored_relation import StoredRelation, page_of_rows

# Pages that a lookup holds in memory at once: many, because each read costs Python some work beside the disk's.
_PAGES_OF_A_LOOKUP = 64


class LocalCopy(StoredRelation):
    """R as it was when the copy was made. A page that is damaged or gone is read from PostgreSQL instead.

    Args:
        manifest: the copy.
        spec: R, with the key and fetched columns that the copy was made with.
        live: R itself, cut into the copy's own pages.
        page_rows: tuples of a page, a multiple of the copy's own; None: those.

    Attributes:
        pages_read_live: pages of the copy's own size that were read from PostgreSQL instead.

    Raises:
        ValueError: the page size is no such multiple.
    """

    def __init__(
        self, manifest: CopyManifest, spec: RelationSpec, live: StoredRelation, page_rows: int | None = None
    ) -> None:
        super().__init__(spec, manifest.index.with_page_rows(page_rows or manifest.index.page_rows))
        self._manifest = manifest
        self._files = PageFiles(manifest, spec)
        self._live = live
        self._stored_pages = self.pages.page_rows // manifest.index.page_rows  # that make one of this relation's pages
        self.pages_read_live = 0

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs at most, in bytes: what was read stands beside the tuples that are made of it."""
        largest = int(self._manifest.places.size.max())
        return self._stored_pages * largest + self.pages.page_rows * self.spec.tuple_bytes

    def read_pages(self, first: int, count: int = 1) -> Page:
        """Read pages that follow each other as one: one access to the disk for each part that they lie in."""
        start = first * self._stored_pages
        stop = min(start + count * self._stored_pages, self._manifest.index.page_count)
        return page_of_rows(self._rows(np.arange(start, stop)))

    def lookup_keys(self, keys: KeyColumns) -> Page:
        """Read the tuples with these keys, shape (n,); keys may repeat or be invalid.

        One access to the disk for each run of pages that any of them falls on, in the order of the keys.
        """
        wanted = keys.distinct()
        pages = np.unique(self._manifest.index.page_of(wanted))
        found = [RelationRows.empty(self.spec)]
        for first in range(0, len(pages), _PAGES_OF_A_LOOKUP):
            some = self._rows(pages[first : first + _PAGES_OF_A_LOOKUP])
            found.append(some.take(np.flatnonzero(some.keys.is_in(wanted))))
        return page_of_rows(RelationRows.concatenate(found))

    def close(self) -> None:
        """Close its files; a later read opens them again."""
        self._files.close()

    def _rows(self, pages: Int64Array) -> RelationRows:
        """The tuples on some of the copy's own pages, ascending; at least one."""
        batches = self._files.read(pages)
        sound = [batch for batch in batches if batch is not None]
        parts = [self._rows_of_batches(sound)] if sound else []
        for number, batch in zip(pages.tolist(), batches, strict=True):
            if batch is None:
                self.pages_read_live += 1
                parts.append(self._live.read_pages(number).rows)
        return RelationRows.concatenate(parts)

    def _rows_of_batches(self, batches: list[pa.RecordBatch]) -> RelationRows:
        if len(batches) == 1:
            return rows_of(batches[0].columns, self.spec)
        columns = pa.Table.from_batches(batches).columns
        return rows_of([single_array(column) for column in columns], self.spec)


class ChangedCopy(StoredRelation):
    """A copy in which the tuples with some keys are those of PostgreSQL, or are missing, as they are there.

    They are read once, now, and take the place of the copy's on whatever page is read: so every algorithm finds
    them, and the stream tuples need not be parted. Other keys may have changed, too; they must not be asked for.

    Args:
        copy: the copy.
        live: R itself.
        changed: the changed keys that stream tuples have, all that will be asked for; they may repeat.
    """

    def __init__(self, copy: LocalCopy, live: StoredRelation, changed: KeyColumns) -> None:
        super().__init__(copy.spec, copy.pages)
        self._copy = copy
        self._changed = changed.distinct()
        self._rows: RelationRows = live.lookup_keys(self._changed).rows
        self._changed_pages = copy.page_of(self._rows.keys)

    @property
    def pages_read_live(self) -> int:
        """Damaged pages that were read from PostgreSQL instead."""
        return self._copy.pages_read_live

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs, in bytes."""
        return self._copy.page_bytes

    def read_pages(self, first: int, count: int = 1) -> Page:
        """Read pages that follow each other as one."""
        here = (self._changed_pages >= first) & (self._changed_pages < first + count)
        return self._changed_in(self._copy.read_pages(first, count), here)

    def lookup_keys(self, keys: KeyColumns) -> Page:
        """Read the tuples with these keys."""
        return self._changed_in(self._copy.lookup_keys(keys), self._rows.keys.is_in(keys))

    def _changed_in(self, page: Page, changed_rows: np.ndarray) -> Page:
        """Tuples of the copy without those that have changed, and with some of the changed ones."""
        unchanged = ~page.rows.keys.is_in(self._changed)
        if unchanged.all() and not changed_rows.any():
            return page
        kept = page.rows.take(np.flatnonzero(unchanged))
        return page_of_rows(RelationRows.concatenate([kept, self._rows.take(np.flatnonzero(changed_rows))]))
