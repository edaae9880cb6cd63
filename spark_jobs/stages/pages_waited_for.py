"""Which pages of R the stream tuples of one task wait for, and how many wait for each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PagesWaitedFor:
    """The pages of n stream tuples, numbered from the first that the task owns.

    Attributes:
        of_tuples: int64, shape (n,), the page of each tuple.
        count: different pages among them.
        cheapest_first: int64, shape (n,), the tuples' positions, those first whose read most others share.
    """

    of_tuples: NDArray[np.int64]
    count: int
    cheapest_first: NDArray[np.int64]

    @classmethod
    def of(cls, pages: NDArray[np.int64]) -> PagesWaitedFor:
        """Sort tuples by their pages, int64, shape (n,). O(n log n).

        All tuples of a batch are at hand, so what each costs is known: a part 1/n of a page that n of them wait for.
        And since those of a page follow one another, each page is read once, however few tuples the queue holds.
        The paper (003 section 4.2), which sees one tuple after the other, finds out by letting them grow old.
        """
        count, cheapest_first = _cheapest_first(pages)
        return cls(pages, count, cheapest_first)

    def looked_up(self, codes: NDArray[np.int64]) -> PagesWaitedFor:
        """The same tuples for an algorithm that looks their keys up, int64, shape (n,): those of a key share a read."""
        return replace(self, cheapest_first=_cheapest_first(codes)[1])


def _cheapest_first(reads: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
    """How many different reads there are, and the tuples' positions, those of the most wanted read first."""
    distinct, position, waiting = np.unique(reads, return_inverse=True, return_counts=True)
    return len(distinct), np.lexsort((position, -waiting[position]))
