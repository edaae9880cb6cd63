"""A copy with the tuples that have changed since: R as it is now, for the keys that are asked for."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.local_copy.relation import LocalCopy
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.relation.stored_relation import StoredRelation, page_of_rows


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
