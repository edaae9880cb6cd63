"""HYBRIDJOIN with another page first: the one whose stream tuples have waited longest in all."""

from __future__ import annotations

from spark_jobs.joins.semi_stream.base import Relation
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.lookup_position import LongestWait


class LongestWaitJoin(HybridJoin):
    """HYBRIDJOIN (000 §4) that reads the page with the longest wait instead of the oldest tuple's; ours.

    The oldest's rule lets popular pages fill memory with their tuples, which all wait for as long as the
    tuples of rare pages do. `LongestWait` says why this one is better. The price is 12 bytes a page of R,
    and that tuples of rare pages stay longer than anybody does in HYBRIDJOIN, whose Theorem 1 (no page is
    loaded more often than by MESHJOIN) does not hold here.

    Args:
        relation: R.
        memory_bytes: split as by HybridJoin, after 12 bytes a page.

    Raises:
        MemoryBudgetError: the budget does not hold a page, the waits of all pages, and one stream tuple.
    """

    def __init__(self, relation: Relation, memory_bytes: int) -> None:
        super().__init__(relation, memory_bytes, LongestWait(relation.page_count))
