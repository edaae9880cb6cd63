"""What a front stage finds: the hit ratio of a tuple-level cache that has learned what is frequent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import pdtrc

from spark_jobs.joins.semi_stream.theory.popularity import StreamPopularity
from spark_jobs.joins.semi_stream.theory.root import increasing_root

# Memory of a slot besides R's tuple: key, bucket, recorder, sketch, the key once more; and the accepted tuples, an
# eighth of the cache.
_SLOT_BYTES = 42
_SLOT_TUPLES = 1.125
# Stream tuples that the recorder remembers, per slot: its counts halve every 60, and 60 / ln 2 = 87 of them weigh as
# much as the last 87 would if all counted in full. Measured hit ratios fit 85.
_REMEMBERED_PER_SLOT = 85
# From here on a count is as good as its mean.
_MOST_COUNTS = 1000


class FrontStageHits(NamedTuple):
    """What a front stage of some size does.

    Attributes:
        slots: tuples of R that it holds.
        hit_ratio: part of the stream that it settles.
        cached_keys: how many of the most frequent keys get as much of the stream.
    """

    slots: float
    hit_ratio: float
    cached_keys: float


def front_stage_slots(memory_bytes: float, tuple_bytes: int) -> float:
    """Tuples of R that a front stage's memory holds, h_R; 0 if it holds none."""
    slots = memory_bytes / front_stage_bytes(1, tuple_bytes)
    return slots if slots >= 1 else 0.0


def front_stage_bytes(slots: float, tuple_bytes: int) -> float:
    """Memory of a front stage that holds this many tuples of R."""
    return slots * (_SLOT_BYTES + _SLOT_TUPLES * tuple_bytes)


def learned_hits(stream: StreamPopularity, slots: float) -> FrontStageHits:
    """What a cache finds that knows the frequencies of tuples from a sample, the last tuples of the stream.

    The number of occurrences of a key in the sample is Poisson distributed; those with the highest counts are in
    the cache. So if t is the count that fills it, a key of mean count m is in it with probability P(Poisson(m) > t).
    A skewed stream's hottest keys are always in; but if frequent and rare keys differ by little, as at Zipf
    exponent 0.5, the sample tells them apart less well.

    Args:
        stream: whose keys are cached.
        slots: tuples that the cache holds.
    """
    if slots <= 0:
        return FrontStageHits(0.0, 0.0, 0.0)
    keys = stream.keys()
    most = keys.page_counts.sum()
    if slots >= most:
        return FrontStageHits(slots, 1.0, most)
    above_before = np.ones_like(keys.probabilities)
    above = above_before
    counts = _REMEMBERED_PER_SLOT * slots * keys.probabilities
    for times in range(_MOST_COUNTS):
        above = pdtrc(times, counts)
        if keys.sum(above) <= slots:
            break
        above_before = above
    # Of the keys that are seen t times, as many are in the cache as there is room for.
    with_fewer, with_more = keys.sum(above_before), keys.sum(above)
    part = (slots - with_more) / (with_fewer - with_more) if with_fewer > slots > with_more else 0.0
    hit_ratio = min(keys.mean(above + part * (above_before - above)), stream.share_of_hottest(slots))
    cached_keys = increasing_root(lambda hottest: stream.share_of_hottest(hottest) - hit_ratio, 0.0, slots)
    return FrontStageHits(slots, hit_ratio, cached_keys)
