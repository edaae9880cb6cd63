"""R as a back stage sees it: its task's pages and lookups, with the stream tuples' own keys behind their codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.stages.metered_relation import ReadRelation


class KeyedRelation:
    """Joins' view of a relation for one task's tuples, whose ids are positions in `keys`.

    Pages are numbered from the first of the task's range on, so that an algorithm that reads all of R, page
    after page, reads the range that its task owns, and no task reads what another one does.

    Args:
        relation: R.
        keys: keys of the task's stream tuples, shape (n,).
        pages: the pages of R that the task owns; none for a relation that can't be read by pages.
    """

    def __init__(self, relation: ReadRelation, keys: KeyColumns, pages: range) -> None:
        self._relation = relation
        self._keys = keys
        self._pages = pages

    @property
    def first_page(self) -> int:
        """R's own number of this view's page 0."""
        return self._pages.start

    @property
    def page_count(self) -> int:
        """Pages of the range."""
        return len(self._pages)

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs at most, in bytes; of a relation without pages, that one tuple needs."""
        return self._relation.page_bytes if self._pages else self._relation.spec.tuple_bytes

    def read_page(self, number: int) -> Page:
        """Read one page of the range."""
        return self._relation.read_page(self._pages[number])

    def read_pages(self, first: int, count: int) -> Page:
        """Read pages of the range that follow each other as one page."""
        pages = self._pages[first : first + count]
        return self._relation.read_pages(pages.start, len(pages))

    def lookup(self, keys: NDArray[np.int64], ids: NDArray[np.int64]) -> Page:
        """Read the tuples of R that have the keys of these stream tuples."""
        return self._relation.lookup_keys(self._keys.take(ids))
