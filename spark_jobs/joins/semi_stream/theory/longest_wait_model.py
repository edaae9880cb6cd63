"""Cost model of the longest-wait join: a page is read when its stream tuples have waited so long in all."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.semi_stream.theory.back_stage import BackStage
from spark_jobs.joins.semi_stream.theory.hybrid_join_model import hybrid_join_tuples
from spark_jobs.joins.semi_stream.theory.popularity import PagePopularity
from spark_jobs.joins.semi_stream.theory.root import increasing_root
from spark_jobs.joins.semi_stream.theory.setting import Setting
from spark_jobs.joins.semi_stream.theory.stream_popularity import StreamPopularity
from spark_jobs.joins.semi_stream.theory.zipf_ranks import FloatArray

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
