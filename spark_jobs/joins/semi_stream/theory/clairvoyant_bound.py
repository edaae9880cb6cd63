"""How few page loads a stream needs at least, even if one knew all of it in advance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel, read_only

Int64Array = NDArray[np.int64]

# Of halving the interval of prices; the bound holds for every price, so that no more than its sharpness is at stake.
_STEPS = 40


def fewest_page_loads(pages: Int64Array, waiting_tuples: int) -> int:
    """A lower bound on the page loads of every algorithm that holds no more waiting stream tuples than this.

    It holds for whatever joins a page, when it is loaded, with tuples that have come by then and forgets it: MESHJOIN,
    HYBRIDJOIN with any lookup position, and a clairvoyant that knows the stream to come. It does not hold for one that
    keeps tuples of R; of an algorithm with a front stage give the misses.

    Why it holds: number the stream tuples in order of arrival. A schedule divides the tuples of each page into groups
    of consecutive ones, each settled by one load, which comes no sooner than the group's last tuple. So a tuple t_i of
    a group that ends with t_j is in memory at least when t_i, t_i + 1, ..., t_j have come: t_j - t_i + 1 times out of
    the T at which the T stream tuples have come. Each time there are at most h in memory, hence

        sum over all tuples of (t_j - t_i)  <=  (h - 1) T

    Let that be broken, but at a price c >= 0 for each unit: the cheapest schedule at that price, less c (h - 1) T,
    costs no more than the cheapest one that obeys (Lagrangian relaxation; the price is the dual variable). At a price
    the pages no longer compete for memory. For each alone the cheapest division into groups is a dynamic program,

        f(j) = 1 + min over i of  f(i - 1) + c sum over i <= l <= j of (t_j - t_l)

    whose inner minimum is over lines in t_j, so that all of it takes O(n). The best price is found by bisection on the
    slope of the bound, which is concave in c.

    It may be out of reach: it lets memory hold h tuples on average, where an algorithm holds h at most.

    Args:
        pages: int64, shape (T,), the page of each stream tuple in order of arrival.
        waiting_tuples: stream tuples that memory holds, h, at least 1.
    """
    by_page = np.argsort(pages, kind="stable").astype(np.int64)
    starts = np.flatnonzero(np.diff(pages[by_page], prepend=-1)).astype(np.int64)
    borders = read_only(np.append(starts, len(pages)))
    arrivals = read_only(by_page)
    allowed = float(waiting_tuples - 1) * len(pages)
    best = float(len(starts))
    # At a price of 1 it never pays to let a tuple wait one turn more; at less than 1 / T^2 it always does.
    low, high = -2 * np.log(len(pages) + 1.0), 0.0
    for _ in range(_STEPS):
        price = float(np.exp((low + high) / 2))
        cost, waited = _cheapest(arrivals, borders, price)
        best = max(best, cost - price * allowed)
        if waited > allowed:
            low = np.log(price)
        else:
            high = np.log(price)
    at_price_of_one, _ = _cheapest(arrivals, borders, 1.0)
    best = max(best, at_price_of_one - allowed)
    return int(np.ceil(best - 1e-6 * max(1.0, best)))


@kernel
def _cheapest(arrivals: Int64Array, borders: Int64Array, price: float) -> tuple[float, float]:
    """Least cost of all pages at a price, and the time that tuples wait in that schedule.

    The lines of the inner minimum: number i, for a group that begins after the first i tuples, has slope -price * i and
    intercept f(i) + price * (t_1 + ... + t_i). Times grow, so the best line's number does too.
    """
    longest = 0
    for page in range(len(borders) - 1):
        longest = max(longest, borders[page + 1] - borders[page])
    lines = np.empty(longest + 1, np.int64)
    intercepts = np.empty(longest + 1, np.float64)
    sums = np.empty(longest + 1, np.float64)
    waits = np.empty(longest + 1, np.float64)
    total, waited = 0.0, 0.0
    for page in range(len(borders) - 1):
        begin = borders[page]
        # Times from the page's first tuple on, so that sums stay small enough to be exact.
        origin = arrivals[begin]
        intercepts[0], sums[0], waits[0], lines[0] = 0.0, 0.0, 0.0, 0
        first, last = 0, 0
        cost = 0.0
        for j in range(1, borders[page + 1] - begin + 1):
            time = np.float64(arrivals[begin + j - 1] - origin)
            while first < last and (
                intercepts[lines[first + 1]] - price * lines[first + 1] * time
                <= intercepts[lines[first]] - price * lines[first] * time
            ):
                first += 1
            i = lines[first]
            sums[j] = sums[j - 1] + time
            cost = 1.0 + intercepts[i] - price * i * time + price * (j * time - sums[j])
            waits[j] = waits[i] + (j - i) * time - (sums[j] - sums[i])
            intercepts[j] = cost + price * sums[j]
            while last > first and (intercepts[j] - intercepts[lines[last]]) * (lines[last] - lines[last - 1]) <= (
                intercepts[lines[last]] - intercepts[lines[last - 1]]
            ) * (j - lines[last]):
                last -= 1
            last += 1
            lines[last] = j
        total += cost
        waited += waits[borders[page + 1] - begin]
    return total, waited
