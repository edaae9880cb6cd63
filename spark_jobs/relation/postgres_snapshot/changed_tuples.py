"""A snapshot with the tuples that have changed since: R as it is now, for the keys that are asked for."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.paged_relation import page_of_rows
from spark_jobs.relation.postgres_snapshot.relation import PostgresSnapshot
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.relation.relation_spec import RelationSpec


class LiveLookups(Protocol):
    """R in PostgreSQL."""

    def lookup_keys(self, keys: KeyColumns) -> Page:
        """Read the tuples with these keys."""


class SnapshotWithChanges:
    """A snapshot in which the tuples with some keys are those of PostgreSQL, or are missing, as they are there.

    They are read once, now, and take the place of the snapshot's on whatever page is read: so every algorithm finds
    them, and the stream tuples need not be parted. Other keys may have changed, too; nobody may ask for those.

    Args:
        snapshot: the snapshot.
        live: R itself.
        changed: the changed keys that stream tuples have, all that will be asked for; they may repeat.
    """

    def __init__(self, snapshot: PostgresSnapshot, live: LiveLookups, changed: KeyColumns) -> None:
        self._snapshot = snapshot
        self._changed = changed.distinct()
        self._rows: RelationRows = live.lookup_keys(self._changed).rows
        self._pages = snapshot.page_of(self._rows.keys)

    @property
    def spec(self) -> RelationSpec:
        """What is read."""
        return self._snapshot.spec

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs, in bytes."""
        return self._snapshot.page_bytes

    def read_page(self, number: int) -> Page:
        """Read one page."""
        return self.read_pages(number, 1)

    def read_pages(self, first: int, count: int) -> Page:
        """Read pages that follow each other as one."""
        here = (self._pages >= first) & (self._pages < first + count)
        return self._changed_in(self._snapshot.read_pages(first, count), here)

    def lookup_keys(self, keys: KeyColumns) -> Page:
        """Read the tuples with these keys."""
        return self._changed_in(self._snapshot.lookup_keys(keys), self._rows.keys.is_in(keys))

    def _changed_in(self, page: Page, changed_rows: np.ndarray) -> Page:
        """Tuples of the snapshot without those that have changed, and with some of the changed ones."""
        unchanged = ~page.rows.keys.is_in(self._changed)
        if unchanged.all() and not changed_rows.any():
            return page
        kept = page.rows.take(np.flatnonzero(unchanged))
        return page_of_rows(RelationRows.concatenate([kept, self._rows.take(np.flatnonzero(changed_rows))]))
