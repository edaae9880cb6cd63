"""R in memory, page by page: small enough to look at, and it counts what is read of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.semi_stream.base import Page

Int64Array = NDArray[np.int64]

TUPLE_BYTES = 40


def value_of(key: int) -> int:
    """What the tuple of R with this key holds besides it."""
    return (int(key) * 31 + 7) % 1_000_003


class MemoryRelation:
    """Pages of R by key range; the ranges stay as they are when R grows.

    Args:
        keys: join keys of the tuples, distinct.
        page_rows: tuples on a page, when it is made.
        most_rows: tuples on a page at most, once R has grown; page_rows if left out.
    """

    def __init__(self, keys: Iterable[int], page_rows: int = 8, most_rows: int | None = None) -> None:
        ordered = sorted(keys)
        self._pages = [ordered[i : i + page_rows] for i in range(0, len(ordered), page_rows)] or [[]]
        self._first_keys = np.array([page[0] for page in self._pages[1:]], np.int64)
        self._most_rows = most_rows or page_rows
        self.page_reads: Counter[int] = Counter()

    @property
    def page_count(self) -> int:
        return len(self._pages)

    @property
    def page_bytes(self) -> int:
        return self._most_rows * TUPLE_BYTES

    @property
    def tuple_bytes(self) -> int:
        return TUPLE_BYTES

    @property
    def keys(self) -> set[int]:
        return {key for page in self._pages for key in page}

    def pages_of(self, keys: Int64Array) -> Int64Array:
        """The page on which each key would be."""
        return np.searchsorted(self._first_keys, keys, side="right").astype(np.int64)

    def insert(self, key: int) -> None:
        """R grows by a tuple, if its page has room; it is put last there, wherever it belongs by its key."""
        page = self._pages[int(self.pages_of(np.array([key]))[0])]
        if key not in page and len(page) < self._most_rows:
            page.append(key)

    def append_page(self, keys: Iterable[int]) -> None:
        """R grows by a page, behind all others; its keys are above those of all others."""
        ordered = sorted(keys)
        self._first_keys = np.append(self._first_keys, ordered[0])
        self._pages.append(ordered)

    def read_page(self, number: int) -> Page:
        self.page_reads[number] += 1
        return _page(self._pages[number])

    def lookup(self, keys: Int64Array, ids: Int64Array) -> Page:
        assert len(keys) == len(ids)
        assert len(set(keys.tolist())) == len(keys)
        present = self.keys
        return _page([key for key in keys.tolist() if key in present])

    def gather(self, parts: Sequence[tuple[Int64Array, Int64Array]]) -> Int64Array:
        return np.concatenate([rows[positions] for rows, positions in parts])


def _page(keys: Sequence[int]) -> Page:
    values = np.array([value_of(key) for key in keys], np.int64)
    return Page(np.array(keys, np.int64), values, len(keys) * TUPLE_BYTES)
