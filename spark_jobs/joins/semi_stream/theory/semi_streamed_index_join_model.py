"""Cost model of SSIJ, for which its authors give none: a cache of whole pages, and a load where most tuples wait."""

from __future__ import annotations

import numpy as np

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.semi_stream.theory.popularity import PagePopularity, StreamPopularity
from spark_jobs.joins.semi_stream.theory.root import increasing_root
from spark_jobs.joins.semi_stream.theory.setting import BackStage, Setting

_TUPLE_BYTES = 43
_PAGE_PART = 1.19
_COUNTER_BYTES = 8
_CACHE_SHARE = 0.15
_LOADS_PER_OLDEST = 16


def semi_streamed_index_join(setting: Setting, stream: StreamPopularity, cached_keys: float = 0) -> BackStage:
    """SSIJ (003 §2): the most popular pages are in memory; of the others, the one that most tuples wait for is read.

    A page in memory settles its tuples at no access to R. An access here is a page load, with the matches on cached
    pages that fall to it.

    Arguments and errors as of a `BackStageModel`.
    """
    left = setting.memory_bytes - _PAGE_PART * setting.page_bytes - _COUNTER_BYTES * setting.page_count
    cached_pages = np.floor(max(0.0, left) * _CACHE_SHARE / setting.page_bytes)
    waiting_tuples = (left - cached_pages * setting.page_bytes) / _TUPLE_BYTES
    if waiting_tuples < 1:
        raise MemoryBudgetError(
            f"semi_streamed_index_join can't work with {setting.memory_bytes:,.0f} bytes and pages of "
            f"{setting.page_bytes:,.0f}: give it more memory, or make the pages smaller"
        )
    pages = stream.pages(setting.page_rows, cached_keys)
    processor = setting.processor
    if cached_pages >= pages.page_counts.sum():
        return BackStage(waiting_tuples, 0.0, 1.0, processor.probe + processor.per_joined_tuple)
    on_cached, others = pages.without_hottest(float(cached_pages))
    loaded = _matches_per_load(others, waiting_tuples)
    matches = loaded / (1 - on_cached)
    seconds = setting.page_seconds + (matches - loaded) * processor.probe + matches * processor.per_joined_tuple
    return BackStage(waiting_tuples, waiting_tuples, matches, seconds)


def _matches_per_load(popularity: PagePopularity, waiting_tuples: float) -> float:
    """w: a page is read when a number n of tuples wait for it, or when one of them has stayed S, like in HYBRIDJOIN.

    Pages with pS < n - 1 are read for their oldest tuple and settle 1 + pS, the others settle n. S is such that the
    loads for the oldest tuple are one in 16, and n such that memory is full. Chance is left out, so that w comes out
    up to a tenth low for n of about 5, and lower still for n below 2, where it decides what is read:

        h = sum over p of (n - 1) / 2, or of p (S + p S^2 / 2) / (1 + pS)
    """
    p = popularity.probabilities

    def for_oldest_less_allowed(stay: float, most: float) -> float:
        rare = p * stay < most - 1
        for_oldest = popularity.sum(np.where(rare, p / (1 + p * stay), 0.0))
        for_most = popularity.sum(np.where(rare, 0.0, p / most))
        return for_oldest - for_most / (_LOADS_PER_OLDEST - 1)

    def stay_with(most: float) -> float:
        """The longest stay; it shortens with what the loads for the oldest leave over."""
        longest = most / p.min()
        return increasing_root(lambda stay: -for_oldest_less_allowed(stay, most), 0.0, longest, 1e-6)

    def waiting(most: float) -> float:
        stay = stay_with(most)
        in_time = p * (stay + p * stay * stay / 2) / (1 + p * stay)
        return popularity.sum(np.where(p * stay < most - 1, in_time, (most - 1) / 2))

    high = 2.0
    while waiting(high) < waiting_tuples and high < 4 * waiting_tuples:
        high *= 2
    most = increasing_root(lambda count: waiting(count) - waiting_tuples, 1.0, high, 1e-4)
    stay = stay_with(most)
    return 1 / popularity.sum(p / np.minimum(1 + p * stay, most))
