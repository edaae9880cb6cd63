"""How many stream tuples a page load settles in HYBRIDJOIN, and where the page with the longest wait is read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.semi_stream.theory.popularity import FloatArray, PagePopularity, StreamPopularity
from spark_jobs.joins.semi_stream.theory.root import increasing_root
from spark_jobs.joins.semi_stream.theory.setting import BackStage, Setting

# Of equation (2) of 000 in the authors' settings: R = 2 million tuples sorted by popularity, Zipf exponent 1.
PAPER_CONSTANT = -1.36

# Memory weights of 000 Table 1: alpha of the hash table and beta of the queue together, in bytes a stream tuple, and
# the disk buffer with the index of its keys, as a part of the page (1.125 to 1.25: it is a power of two).
_TUPLE_BYTES = 43
_PAGE_PART = 1.19

_WAIT_BYTES = 12


def hybrid_join(setting: Setting, stream: StreamPopularity, cached_keys: float = 0) -> BackStage:
    """HYBRIDJOIN's cost model, 000 §4.4.

    Equation (1) gives the tuples that memory holds, `stays_in_queue` stands for equation (2), and equation (3) is
    the seconds of an access.

    Arguments and errors as of a `BackStageModel`.
    """
    waiting_tuples = hybrid_join_tuples(setting, "hybrid_join")
    matches = stays_in_queue(stream.pages(setting.page_rows, cached_keys), waiting_tuples).matches_per_load
    seconds = setting.page_seconds + matches * setting.processor.per_joined_tuple
    # Time passes while a page is read, and then the queue is full.
    return BackStage(waiting_tuples, waiting_tuples, matches, seconds)


def hybrid_join_tuples(setting: Setting, algorithm: str, fixed_bytes: float = 0) -> float:
    """Stream tuples that the memory holds, from 000 equation (1).

    Args:
        setting: with the memory of this stage.
        algorithm: whose memory it is, for the error.
        fixed_bytes: what it needs besides the page.

    Raises:
        MemoryBudgetError: the memory does not hold a page and one stream tuple.
    """
    tuples = (setting.memory_bytes - _PAGE_PART * setting.page_bytes - fixed_bytes) / _TUPLE_BYTES
    if tuples < 1:
        raise MemoryBudgetError(
            f"{algorithm} can't work with {setting.memory_bytes:,.0f} bytes and pages of {setting.page_bytes:,.0f}: "
            "give it more memory, or make the pages smaller"
        )
    return tuples


class Stays(NamedTuple):
    """How long the tuples of a full queue stay, in stream tuples that come meanwhile.

    Attributes:
        at_load: float64, shape (c,): the oldest tuple of a page of each class, when that page is loaded.
        loads: float64, shape (c,): loads of one page of each class, per stream tuple.
        matches_per_load: w, stream tuples that a page load settles on average.
        mean: a stream tuple, on average over all of them.
    """

    at_load: FloatArray
    loads: FloatArray
    matches_per_load: float
    mean: float


def stays_in_queue(popularity: PagePopularity, waiting_tuples: float) -> Stays:
    """Solve the balance of a full queue: its length, as it follows from the stays, is what memory holds. O(c).

    Time is counted in stream tuples. A page of probability p is loaded when its oldest tuple, having stayed S_p, is
    the oldest of all; S_p p others have come for it meanwhile; and it waits 1/p more for its next first tuple. So

        loads per stream tuple  f_p = p / (1 + p S_p)        matches per load   w = 1 / sum f_p
        mean queue length       sum f_p (S_p + p E[S_p^2] / 2)  =  h - (E[n^2]/E[n] - 1) / 2

    where n, with mean 1 + p S_p, is what a load settles. The subtrahend is there because stream tuples come in steps
    of n: the queue is full, h, only after the last of them.

    S_p is the same for all pages as long as none takes much of the stream. A heavy page, though, settles many at
    once, and the next tuples stay longer by as much, until the others have made up for it: stays are a sawtooth
    with a tooth at each load of a heavy page. Pages asked for again at once fall into step with it, so that all of them
    meet the lowest stay, C; rare ones meet a random point of the sawtooth, E above it on average. In between a page
    drifts by its gap 1/p per cycle through the part of the cycle that the heavy pages leave free:

        S_p = C + E (1 - exp(-H / ((1 - H) p E)))    E = C b / 2    H = (sum p^2)^2 / sum p^3    b = sum p^3 / sum p^2

    H is the heavy pages' share of the stream and b the size of one of them: both exact if there are m of them, equally
    heavy. Both limits are exact as well: H to 0, and a queue so long that every page is in step (then
    h = C (1 + sum p^2) / 2). In simulations it is within 3 % (tests), where constant S is up to 57 % off.

    Args:
        popularity: of the pages, among the stream tuples that reach this stage.
        waiting_tuples: what memory holds, H_t (h_S in 003).
    """
    p = popularity.probabilities
    squares, cubes = popularity.mean(p), popularity.mean(p * p)
    heaviness = cubes / squares
    heavy_share = min(squares / heaviness, 1 - 1e-12)
    drift = heavy_share / ((1 - heavy_share) * p)

    def stays(lowest: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        excess = lowest * heaviness / 2
        out_of_step = -np.expm1(-drift / max(excess, 1e-9))
        at_load = lowest + excess * out_of_step
        return at_load, p / (1 + p * at_load), out_of_step * excess * excess / 3

    def time_in_queue(lowest: float) -> float:
        at_load, loads, variance = stays(lowest)
        return popularity.sum(loads * (at_load + p * (at_load * at_load + variance) / 2))

    def surplus(lowest: float) -> float:
        at_load, loads, _ = stays(lowest)
        settled = 1 + p * at_load
        squared = popularity.sum(loads * (settled * settled + p * at_load * (1 - p)))
        return time_in_queue(lowest) + (squared - 1) / 2 - waiting_tuples

    # A tuple that has stayed S leaves behind all S that came later and are not settled yet, at least half of those of
    # other pages: the lowest stay is below twice the queue's length, unless most of the stream has left early.
    high = 2.0 * waiting_tuples + 1
    while surplus(high) < 0:
        high *= 4
    lowest = increasing_root(surplus, 0.0, high)
    at_load, loads, _ = stays(lowest)
    return Stays(at_load, loads, 1 / popularity.sum(loads), time_in_queue(lowest))


def paper_matches_per_load(waiting_tuples: float, page_rows: float, row_count: float) -> float:
    """Equation (2) of 000: w = -k h_S d / R, for the distribution and settings that k was measured with.

    It has the right form wherever nearly all pages have many tuples waiting, that is for a long queue: there w is
    proportional to h and to the pages' size, and k follows from the popularity, 2 / (1 + sum p^2) for pages all in
    step, so 2 for uniform keys. It holds neither for a short queue, as w can't be below 1, nor for another skew.

    Args:
        waiting_tuples: h_S, H_t.
        page_rows: d, D_t.
        row_count: R_t.
    """
    return -PAPER_CONSTANT * waiting_tuples * page_rows / row_count


def longest_wait_join(setting: Setting, stream: StreamPopularity, cached_keys: float = 0) -> BackStage:
    """HYBRIDJOIN that reads the page with the longest wait; memory also holds 12 bytes for each page of R.

    Arguments and errors as of a `BackStageModel`.
    """
    waiting_tuples = hybrid_join_tuples(setting, "longest_wait_join", _WAIT_BYTES * setting.page_count)
    matches = matches_per_load(stream.pages(setting.page_rows, cached_keys), waiting_tuples)
    seconds = setting.page_seconds + matches * setting.processor.per_joined_tuple
    return BackStage(waiting_tuples, waiting_tuples, matches, seconds)


def matches_per_load(popularity: PagePopularity, waiting_tuples: float) -> float:
    """w: stream tuples that a load settles on average, where each page is read when its wait has come to W. O(c).

    Time is counted in stream tuples. With a first tuple that has stayed S, and others that came evenly, the tuples of a
    page of probability p have waited S + p S^2 / 2 in all, so n = 1 + pS = sqrt(1 + 2pW) of them have come when that is
    W. They come by chance, and if few come at first there is time for more: on average a load settles

        m = n + (1 - 1/n) / 2 - (1 - 1/n^3) / 6

    to the second order (of k g_k' = 1 + g_(k+1) - g_k, the mean time left with k tuples there). A page is loaded
    p / m times per stream tuple, and each load ends a wait of W:

        w = 1 / sum(p / m)        h - (sum(p m) - 1) / 2 = W / w

    with the mean queue on the left as in HYBRIDJOIN's model. The clairvoyant bound's schedule weighs the same, at the
    price 1 / W of a wait.

    Args:
        popularity: of the pages, among the stream tuples that reach this stage.
        waiting_tuples: what memory holds, h.
    """
    p = popularity.probabilities

    def surplus(wait: float) -> float:
        settled = _settled(p * wait)
        return wait * popularity.sum(p / settled) + (popularity.sum(p * settled) - 1) / 2 - waiting_tuples

    high = float(waiting_tuples) + 1
    while surplus(high) < 0:
        high *= 4
    wait = increasing_root(surplus, 0.0, high)
    return 1 / popularity.sum(p / _settled(p * wait))


def _settled(wait: FloatArray) -> FloatArray:
    """m, the tuples that a load settles, from pW, float64, shape (c,)."""
    evenly = np.sqrt(1 + 2 * wait)
    settled: FloatArray = evenly + (1 - 1 / evenly) / 2 - (1 - evenly**-3) / 6
    return settled
