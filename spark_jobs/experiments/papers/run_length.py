"""How long a saturated run must last before it is steady, and while it is measured."""

from __future__ import annotations

from typing import Any, NamedTuple

from spark_jobs.experiments.papers.contender import Contender
from spark_jobs.joins.semi_stream.base import SemiStreamJoin
from spark_jobs.joins.semi_stream.cached_join import CachedJoin

# Turnovers of the queue. HYBRIDJOIN's begins full of recent tuples and must fill with costly ones first; where a page
# takes much of the stream, each of its loads is an event. MESHJOIN is steady as soon as its first cycle is over.
_HYBRID_WARM_UP, _HYBRID_MEASURED = 4, 6
# The partition-based join is not before the slots of rare pages have filled.
_PARTITION_WARM_UP = 20
_MESH_WARM_UP, _MESH_MEASURED = 1, 1
# A lookup costs the same whatever came before.
_LOOKUPS = 6_000
# Stream tuples for each tuple that the front stage holds, until it holds the frequent ones.
_FRONT_WARM_UP = 60
# Where a lookup offers one tuple at a time it learns slower.
_FRONT_WARM_UP_BY_LOOKUPS = 180


class RunLength(NamedTuple):
    """Stream tuples to settle before measuring, and while measuring."""

    warm_up: int
    measured: int


def run_length(join: SemiStreamJoin, contender: Contender, period: int = 1) -> RunLength:
    """Enough for a steady state.

    Behind a front stage the back stage sees the misses only: a turnover of its queue takes more of the stream.

    Args:
        join: new.
        contender: its algorithm.
        period: stream tuples after which the stream repeats itself: whole periods are measured.
    """
    cached = isinstance(join, CachedJoin)
    per_slot = _FRONT_WARM_UP_BY_LOOKUPS if contender.reads_by_key else _FRONT_WARM_UP
    front_warm_up = per_slot * join.front_stage.capacity if isinstance(join, CachedJoin) else 0
    if contender.reads_by_key:
        return RunLength(front_warm_up, _LOOKUPS)
    turnover = waiting_capacity(join) * (2 if cached else 1)
    chooses_pages = contender.back_stage in ("hybrid_join", "longest_wait_join", "semi_streamed_index_join")
    warm_up, measured = (_HYBRID_WARM_UP, _HYBRID_MEASURED) if chooses_pages else (_MESH_WARM_UP, _MESH_MEASURED)
    if contender.back_stage == "partition_wait_join":
        warm_up, measured = _PARTITION_WARM_UP, _HYBRID_MEASURED
    return RunLength(warm_up * turnover + front_warm_up, -(-measured * turnover // period) * period)


def waiting_capacity(join: SemiStreamJoin) -> int:
    """Stream tuples that a join has memory for, those of its front stage apart, h_S."""
    back_stage: Any = join.back_stage if isinstance(join, CachedJoin) else join
    return int(back_stage.capacity)
