"""How many tuples PJoin keeps, and how often it should purge (001 §4).

The streams bring tuples in turn, at one rate. Each has a window of keys that are open at a time, and draws from it;
every so many of its tuples it closes the oldest key with a punctuation and opens another. Time is counted in tuples of
one stream. So stream s closes key k at time k N_s, and a tuple that arrives at t has a key of t / N_s + U W, U uniform
in [0, 1): it stays until the *other* stream has closed that key.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

# Midpoints of equal parts of [0, 1]: what is drawn by chance is averaged over them.
_SHARES = [(part + 0.5) / 16 for part in range(16)]


def kept_tuples(time: float, mine: float, other: float, window: float, lead: float = 0.0) -> float:
    """Tuples of a stream that PJoin keeps at a time, purging eagerly.

    A tuple of time t' leaves when the other stream has brought N_other (t' / N_mine + U W) tuples. With equal
    intervals it stays W N / 2 on average. Where the other stream closes keys more slowly it falls behind, and what
    waits for it grows as long as that goes on (001 Fig. 10); the other stream's own tuples then find their keys closed
    when they come, and none is kept.

    Args:
        time: tuples of the stream since the beginning, well beyond the first window.
        mine: tuples of the stream between its punctuations, N_mine.
        other: those of the other stream, N_other.
        window: keys open at a time, W.
        lead: how many tuples more the stream has brought than the other.
    """
    waits = (lead + other * window * share for share in _SHARES)
    return sum(max(0.0, time * (1 - mine / other) + wait * mine / other) for wait in waits) / len(_SHARES)


def state_size(time: float, intervals: tuple[float, float], window: float, threshold: float = 1) -> float:
    """Tuples of both streams that PJoin keeps on average, purging every so many punctuations.

    Tuples come by chance, so one stream leads the other: by a normal deviate of variance 2 t after t tuples of each.
    Punctuations of both streams together come every N_0 N_1 / (N_0 + N_1). A punctuation waits (threshold - 1) / 2
    others for the purge, and as long as it waits one tuple of each stream arrives in each unit of time, which is what
    the state is larger by; one of them where the other stream's tuples find their keys closed.

    Args:
        time: as above.
        intervals: N_0 and N_1.
        window: W.
        threshold: punctuations between two purges.
    """
    first, second = intervals
    leads = [sqrt(2 * time) * NormalDist().inv_cdf(share) for share in _SHARES]
    eager = sum(
        kept_tuples(time, first, second, window, lead) + kept_tuples(time, second, first, window, -lead)
        for lead in leads
    ) / len(leads)
    waiting = (threshold - 1) / 2 * first * second / (first + second)
    return eager + (2 if first == second else 1) * waiting


@dataclass(frozen=True)
class ProcessorCosts:
    """What the parts of the work cost, in any unit.

    Attributes:
        tuple: to take a tuple in.
        compare: to compare it with one tuple of its bucket.
        result: to put a result out.
        scan: to look at one tuple in a purge.
        purge: to begin a purge.
    """

    tuple: float
    compare: float
    result: float
    scan: float
    purge: float


def cost_a_tuple(
    costs: ProcessorCosts, eager: float, interval: float, matches: float, buckets: int, threshold: float
) -> float:
    """Processor time a tuple, of either stream, of a PJoin that looks at all its tuples in each purge.

    Args:
        costs: of the parts.
        eager: tuples of both streams that eager purging keeps.
        interval: tuples of one stream between its punctuations, of both alike.
        matches: results a tuple.
        buckets: of each hash table; a tuple is compared with what lies in one.
        threshold: punctuations between two purges.
    """
    waiting = interval * (threshold - 1)  # When the purge comes; half of that on average.
    compared = (eager + waiting / 2) / 2 / buckets
    purges = 1 / (interval * threshold)
    scanned = purges * (costs.purge + costs.scan * (eager + waiting))
    return costs.tuple + costs.compare * compared + costs.result * matches + scanned


def best_threshold(costs: ProcessorCosts, eager: float, interval: float, buckets: int) -> float:
    """The purge threshold with the least cost, where the derivative of `cost_a_tuple` by it is zero.

    A threshold of T costs (c_purge + c_scan (S - N)) / (N T) a tuple for purges, and c_compare N T / (4 B) for the
    tuples that stay longer. Without a scan there is nothing to be saved but what a purge costs to begin.
    """
    fixed = costs.purge + costs.scan * max(0.0, eager - interval)
    return max(1.0, sqrt(fixed / interval / (costs.compare * interval / (4 * buckets))))
