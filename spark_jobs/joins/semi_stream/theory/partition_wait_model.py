"""Cost model of the partition-based join: a page is read when a number of tuples wait for it, popular or not."""

from __future__ import annotations

from spark_jobs.joins.semi_stream.theory.hybrid_join_model import hybrid_join_tuples
from spark_jobs.joins.semi_stream.theory.popularity import PagePopularity, StreamPopularity
from spark_jobs.joins.semi_stream.theory.root import increasing_root
from spark_jobs.joins.semi_stream.theory.setting import BackStage, Setting

_SLOT_BYTES = 8


def partition_wait_join(setting: Setting, stream: StreamPopularity, cached_keys: float = 0) -> BackStage:
    """The partition-based join in the long run (000 §2, 003 §2; the model is ours, its authors model the backlog).

    A slot is emptied when it holds n tuples, so on average it holds (n - 1) / 2, whatever its page: rare pages fill
    their slots later, but as far. With k pages that the stream asks for, and memory for h tuples,

        h = k (n - 1) / 2        n = 1 + 2 h / k        a tuple of a page of probability p waits (n - 1) / 2p

    stream tuples on average, so the wait of the rarest has no bound. Tuples come w at a time, while a page is read: a
    slot whose page takes much of the stream holds p w / 2 more than n when its turn comes, and

        1 / w = sum p / (n + p w / 2)

    is little more than n whatever the skew. Until the slot of the rarest page has been filled, n / p tuples, rare pages
    hold fewer places, and w is above this.

    Args:
        setting: with the memory of this stage.
        stream: before any front stage.
        cached_keys: so many most frequent keys are settled by a front stage.

    Raises:
        MemoryBudgetError: the memory does not hold a page and one stream tuple.
    """
    waiting_tuples = hybrid_join_tuples(setting, "partition_wait_join", _SLOT_BYTES * setting.page_count)
    matches = _matches_per_load(stream.pages(setting.page_rows, cached_keys), waiting_tuples)
    seconds = setting.page_seconds + matches * setting.processor.per_joined_tuple
    return BackStage(waiting_tuples, waiting_tuples, matches, seconds)


def _matches_per_load(popularity: PagePopularity, waiting_tuples: float) -> float:
    p = popularity.probabilities
    filled = 1 + 2 * waiting_tuples / popularity.page_counts.sum()
    return increasing_root(
        lambda matches: popularity.sum(p * matches / (filled + p * matches / 2)) - 1, 1.0, waiting_tuples
    )
