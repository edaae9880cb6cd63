"""An R that costs hardly anything to read: what a join takes with it is the join's own work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spark_jobs.experiments.direct_file.file_format import tuple_type
from spark_jobs.joins.semi_stream.base import Int64Array, Page

Tuples = NDArray[np.void]


class RelationInMemory:
    """R with the keys 0 to page_count * page_rows - 1 in key order; the tuples of all pages are the same memory.

    Args:
        page_count: pages.
        page_rows: tuples of a page.
        tuple_bytes: size of a tuple.
    """

    def __init__(self, page_count: int, page_rows: int, tuple_bytes: int) -> None:
        self.page_count = page_count
        self.page_rows = page_rows
        self.tuple_bytes = tuple_bytes
        self._tuples: Tuples = np.zeros(page_rows, tuple_type(tuple_bytes))

    @property
    def row_count(self) -> int:
        """Tuples of R."""
        return self.page_count * self.page_rows

    @property
    def page_bytes(self) -> int:
        """Size of a page, in bytes."""
        return self.page_rows * self.tuple_bytes

    def read_page(self, number: int) -> Page:
        """One page; about a microsecond."""
        first = number * self.page_rows
        return Page(np.arange(first, first + self.page_rows), self._tuples, self.page_bytes)

    def lookup(self, keys: Int64Array, ids: Int64Array) -> Page:
        """The tuples with these keys, all of which are in R."""
        return Page(keys, np.resize(self._tuples, len(keys)), len(keys) * self.tuple_bytes)

    def gather(self, parts: Sequence[tuple[Tuples, Int64Array]]) -> Tuples:
        """Copy tuples out of pages, part after part."""
        return np.concatenate([rows[positions] for rows, positions in parts])
