"""What reading R costs by the size of what is read: the c_I/O of the cost models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Where large pages cost no more than small ones, a line has no slope to tell a throughput from.
_MOST_BYTES_PER_SECOND = 1e12


@dataclass(frozen=True)
class DiskCosts:
    """What R costs to read where it lies: a page by its number, or tuples by their keys.

    Symbols of 000 Table 1 and §4.4: c_I/O(v_P) = page_read_seconds(v_P), a seek and a transfer; 003 §5.3
    charges INLJ c_I/O of one tuple for each lookup, which is lookup_overhead_seconds here.

    Attributes:
        seek_seconds: before the first byte of a page: seek, latency, and what a server does for each query.
        bytes_per_second: from then on; what a server does for each tuple is in it.
        lookup_overhead_seconds: a lookup of one key; what a batch costs, whatever its number of keys.
        lookup_seconds_per_key: one more key in a batch, far from the others.
        page_reads: measured reads, (bytes of the page, seconds), by ascending bytes; none where the constants are
            all that is known.
        lookup_rows: neighbouring tuples of R that one read for a lookup brings: keys of a batch that fall on them
            share it; 1 where each key costs the same.
    """

    seek_seconds: float
    bytes_per_second: float
    lookup_overhead_seconds: float
    lookup_seconds_per_key: float
    page_reads: tuple[tuple[int, float], ...] = ()
    lookup_rows: int = 1

    def page_read_seconds(self, size: float) -> float:
        """One page of so many bytes: c_I/O(v_P).

        Where pages were measured, the line through their costs counts, because a disk that reads the parts of a large
        page at the same time makes no straight line; beyond them and elsewhere, seek and transfer. It never falls
        with the size: where a larger page was read in less time, the smaller one was measured too dear.
        """
        fitted = self.seek_seconds + size / self.bytes_per_second
        if not self.page_reads:
            return fitted
        sizes, seconds = zip(*self.page_reads, strict=True)
        rising = np.minimum.accumulate(seconds[::-1])[::-1]
        if size < sizes[0]:
            return min(fitted, float(rising[0]))
        return float(np.interp(size, sizes, rising)) + max(0.0, size - sizes[-1]) / self.bytes_per_second

    def lookup_seconds(self, keys: int) -> float:
        """One lookup of a batch of at least one key."""
        return self.lookup_overhead_seconds + (keys - 1) * self.lookup_seconds_per_key


def fit_page_reads(sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Seek in seconds and throughput in bytes per second that explain measured page reads best.

    Least squares of the relative errors, so that small pages count as much as large ones. Where the
    best line would need a negative seek or transfer, the best one without is taken.

    Args:
        sizes: bytes of the pages. If all are the same, all their cost is seek: an R of one page has no other.
        seconds: what reading each took, above 0.
    """
    cost = np.asarray(seconds, np.float64)
    columns = np.column_stack([np.ones(len(cost)), np.asarray(sizes, np.float64)]) / cost[:, None]
    if len(set(sizes)) > 1:
        (seek, per_byte), *_ = np.linalg.lstsq(columns, np.ones(len(cost)), rcond=None)
        if seek < 0:
            seek, per_byte = 0.0, _one_cost(columns[:, 1])
        if per_byte * _MOST_BYTES_PER_SECOND >= 1:
            return float(seek), float(1 / per_byte)
    return _one_cost(columns[:, 0]), _MOST_BYTES_PER_SECOND


def _one_cost(column: NDArray[np.float64]) -> float:
    """The factor that brings a column closest to ones."""
    return float(column.sum() / (column**2).sum())
