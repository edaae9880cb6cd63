"""Which pages of R the stream tuples of one task wait for, and how many wait for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PagesWaitedFor:
    """The pages of n stream tuples, numbered from the first that the task owns.

    Attributes:
        of_tuples: int64, shape (n,), the page of each tuple.
        count: different pages among them.
        cheapest_first: int64, shape (n,), the tuples' positions, those first whose page most others wait for.
    """

    of_tuples: NDArray[np.int64]
    count: int
    cheapest_first: NDArray[np.int64]

    @classmethod
    def of(cls, pages: NDArray[np.int64]) -> PagesWaitedFor:
        """Sort the tuples by their pages, int64, shape (n,). O(n log n).

        All tuples of a batch are at hand, so what each costs is known: a part 1/n of a page that n of them wait for.
        And since those of a page follow one another, each page is read once, however few tuples the queue holds.
        The paper (003 section 4.2), which sees one tuple after the other, finds out by letting them grow old.
        """
        distinct, position, waiting = np.unique(pages, return_inverse=True, return_counts=True)
        return cls(pages, len(distinct), np.lexsort((position, -waiting[position])))
