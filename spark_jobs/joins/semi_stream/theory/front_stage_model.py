"""What a front stage finds: the hit ratio of a tuple-level cache that has learned what is frequent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spark_jobs.joins.semi_stream.theory.poisson import more_than
from spark_jobs.joins.semi_stream.theory.root import increasing_root
from spark_jobs.joins.semi_stream.theory.stream_popularity import StreamPopularity

# Memory of a slot besides R's tuple: key, index, recorder, sketch; and the accepted tuples, an eighth of the cache.
_SLOT_BYTES = 66
_SLOT_TUPLES = 1.125
# Stream tuples that the recorder remembers, per slot. Its counts halve every 60; the tuples in memory have not been
# counted yet, and what is outside the cache is counted when its page is read. Measured hit ratios fit these; MESHJOIN
# learns less, as it settles the tuples of a key a few at a time, and offers it so often with small counts.
REMEMBERED_PER_SLOT = 40
REMEMBERED_WITH_MESH_JOIN = 26


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
    """Memory of a front stage that holds so many tuples of R."""
    return slots * (_SLOT_BYTES + _SLOT_TUPLES * tuple_bytes)


def learned_hits(
    stream: StreamPopularity, slots: float, remembered_per_slot: int = REMEMBERED_PER_SLOT
) -> FrontStageHits:
    """What a cache finds that knows the frequencies of tuples from a sample: the last so many of the stream.

    The number of occurrences of a key in the sample is Poisson distributed; those with the highest counts are in
    the cache. So if t is the count that fills it, a key of mean count m is in it with probability P(Poisson(m) > t).
    A skewed stream's hottest keys are always in; but if frequent and rare keys differ by little, as at Zipf
    exponent 0.5, the sample can't tell them apart, and the cache finds half or less of what the best one would.

    Args:
        stream: whose keys are cached.
        slots: tuples that the cache holds.
        remembered_per_slot: size of the sample, as a multiple of the slots.
    """
    if slots <= 0:
        return FrontStageHits(0.0, 0.0, 0.0)
    keys = stream.keys()
    most = keys.page_counts.sum()
    if slots >= most:
        return FrontStageHits(slots, 1.0, most)
    above_before = np.ones_like(keys.probabilities)
    above = above_before
    for above in more_than(remembered_per_slot * slots * keys.probabilities):
        if keys.sum(above) <= slots:
            break
        above_before = above
    # Of the keys that are seen t times, as many are in the cache as there is room for.
    with_fewer, with_more = keys.sum(above_before), keys.sum(above)
    part = (slots - with_more) / (with_fewer - with_more) if with_fewer > slots > with_more else 0.0
    hit_ratio = min(keys.mean(above + part * (above_before - above)), stream.share_of_hottest(slots))
    cached_keys = increasing_root(lambda hottest: stream.share_of_hottest(hottest) - hit_ratio, 0.0, slots)
    return FrontStageHits(slots, hit_ratio, cached_keys)
