"""Cost model of the longest-wait join: a page is read when its stream tuples have waited so long in all."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.semi_stream.theory.back_stage import BackStage
from spark_jobs.joins.semi_stream.theory.hybrid_join_model import hybrid_join_tuples
from spark_jobs.joins.semi_stream.theory.popularity import PagePopularity
from spark_jobs.joins.semi_stream.theory.root import increasing_root
from spark_jobs.joins.semi_stream.theory.setting import Setting
from spark_jobs.joins.semi_stream.theory.stream_popularity import StreamPopularity

_PAGE_BYTES = 12


def longest_wait_join(setting: Setting, stream: StreamPopularity, cached_keys: float = 0) -> BackStage:
    """HYBRIDJOIN that reads the page with the longest wait; memory also holds 12 bytes for each page of R.

    Args:
        setting: with the memory of this stage.
        stream: before any front stage.
        cached_keys: so many most frequent keys are settled by a front stage.

    Raises:
        MemoryBudgetError: the memory does not hold a page and one stream tuple.
    """
    waiting_tuples = hybrid_join_tuples(setting, "longest_wait_join", _PAGE_BYTES * setting.page_count)
    matches = matches_per_load(stream.pages(setting.page_rows, cached_keys), waiting_tuples)
    seconds = setting.page_seconds + matches * setting.processor.per_joined_tuple
    return BackStage(waiting_tuples, waiting_tuples, matches, seconds)


def matches_per_load(popularity: PagePopularity, waiting_tuples: float) -> float:
    """w: stream tuples that a load settles on average, where each page is read when its wait has come to W. O(c).

    Time is counted in stream tuples. With a first tuple that has stayed S the tuples of a page of probability p have
    waited S + p S^2 / 2 in all. So a load settles n = 1 + pS = sqrt(1 + 2pW), a page is loaded p / n times per stream
    tuple, and as each load ends a wait of W,

        w = 1 / sum(p / n)        h - (sum(p n) - 1) / 2 = W / w

    with the mean queue on the left as in HYBRIDJOIN's model. This is also what the clairvoyant bound's schedule does on
    average, at the price 1 / W of a wait.

    Args:
        popularity: of the pages, among the stream tuples that reach this stage.
        waiting_tuples: what memory holds, h.
    """
    p = popularity.probabilities

    def surplus(wait: float) -> float:
        settled = np.sqrt(1 + 2 * p * wait)
        return wait * popularity.sum(p / settled) + (popularity.sum(p * settled) - 1) / 2 - waiting_tuples

    high = float(waiting_tuples) + 1
    while surplus(high) < 0:
        high *= 4
    wait = increasing_root(surplus, 0.0, high)
    return 1 / popularity.sum(p / np.sqrt(1 + 2 * p * wait))
