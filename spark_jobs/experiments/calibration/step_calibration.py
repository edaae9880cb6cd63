"""Measures what a step of a join costs whatever it settles.

R costs hardly anything to read here, and the processor's caches are as they are after a read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from spark_jobs.experiments.direct_file.file_format import tuple_type
from spark_jobs.joins.semi_stream.base import Int64Array, Page, Relation, SemiStreamJoin
from spark_jobs.lookup.relation.access_costs import Clock

Tuples = NDArray[np.void]

_DISPLACED_BYTES = 2 << 20

_PAGES = 256
_MEMORY_BYTES = 1 << 20
_STEPS = 200
_TUPLE_BYTES = 8


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


class DisplacedCaches:
    """Displaces what the caches nearest to a core hold, which are of about a megabyte.

    Kernels called again and again find code and data there, which makes the steps of a join look cheaper than they
    are between two reads: a page's probes of a hash table of 3 MB, half as dear.
    """

    def __init__(self) -> None:
        self._memory = np.zeros(_DISPLACED_BYTES, np.uint8)

    def displace(self) -> None:
        """Walk through other memory; takes about 0.1 ms."""
        self._memory += 1


def measure_access(make_join: Callable[[Relation, int], SemiStreamJoin], clock: Clock) -> float:
    """Seconds of a step; that for which a stream tuple comes and goes is in it, and does not count for much.

    Args:
        make_join: the join, of relation and memory.
        clock: tells seconds.
    """
    join = make_join(RelationInMemory(_PAGES, 1, _TUPLE_BYTES), _MEMORY_BYTES)
    caches, seconds = DisplacedCaches(), []
    for number in range(_PAGES + _STEPS):
        asked = np.array([number % _PAGES])  # of the page whose turn it is in a scan, too
        ids = np.array([number])
        caches.displace()
        started = clock()
        join.push(asked, asked, ids)
        join.advance()
        seconds.append(clock() - started)
    return median(seconds[_PAGES:])  # by then the kernels have been compiled
