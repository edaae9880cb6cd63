"""Chooses the algorithm for streams of which the rates are known, by the cost models, and says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from spark_jobs.joins.stream_stream import PredicateKind
from spark_jobs.joins.stream_stream.base import MOST_STREAMS
from spark_jobs.joins.stream_stream.theory.merge_join_model import MergeSetting, pages_a_tuple
from spark_jobs.joins.stream_stream.theory.multi_way_model import am_join_probes, m_join_probes
from spark_jobs.joins.stream_stream.theory.temporal_join_model import pages_read_per_tuple
from spark_jobs.joins.stream_stream.theory.x_join_model import SpilledRun, x_join_early

# Bytes a tuple in memory: hash chains with their heads, and sweep areas with their index.
_HASHED_BYTES, _SWEPT_BYTES = 44, 72
_PAGE_TUPLES, _PAGE_BYTES = 1_600, 65_536
# Tuples that arrive together: what lies on disk is read once for all of them.
_BATCH = 1_000
_FAN_IN = 16
_PARTS = 128


@dataclass(frozen=True)
class Workload:
    """What is known of the streams.

    Attributes:
        streams: how many.
        predicate: by what they are joined.
        kept: tuples of all streams that something may still match at a time: those of the windows, those that no
            punctuation is done with, or all.
        validity: whether tuples are valid from a start to an end.
        punctuated: whether the streams bring punctuations.
        complete: the part of the tuples whose key all other streams have.
    """

    streams: int
    predicate: PredicateKind
    kept: int
    validity: bool = False
    punctuated: bool = False
    complete: float = 1.0


class AlgorithmChoice(NamedTuple):
    """An algorithm of the catalogue, and in one sentence why it is the one."""

    algorithm: str
    reason: str


def choose(workload: Workload, memory_bytes: int) -> AlgorithmChoice:
    """The algorithm that the models find best.

    Args:
        workload: the streams.
        memory_bytes: the budget.

    Raises:
        ValueError: no algorithm joins so many streams.
    """
    if not 2 <= workload.streams <= MOST_STREAMS:
        raise ValueError(f"from 2 to {MOST_STREAMS} streams can be joined, not {workload.streams}")
    if workload.validity:
        return _with_validity(workload, memory_bytes // _SWEPT_BYTES)
    if workload.predicate != "equality":
        return AlgorithmChoice(
            "progressive_merge_join", f"Only sorting serves tuples without validity that match by {workload.predicate}."
        )
    if workload.streams > 2:
        return _of_many(workload)
    memory_tuples = memory_bytes // _HASHED_BYTES
    if workload.punctuated:
        return AlgorithmChoice("p_join", "Punctuations let tuples go, and only PJoin makes use of them.")
    if workload.kept <= memory_tuples:
        return AlgorithmChoice(
            "x_join", f"All {workload.kept:,} tuples fit into memory, so that every result comes at once."
        )
    early = x_join_early(SpilledRun(workload.kept, max(1, memory_tuples), _PARTS, _PAGE_TUPLES))
    return AlgorithmChoice(
        "x_join",
        f"Memory holds {memory_tuples:,} of {workload.kept:,} tuples, and tells {early:.0%} of the results at once.",
    )


def _with_validity(workload: Workload, memory_tuples: int) -> AlgorithmChoice:
    if workload.kept <= memory_tuples:
        return AlgorithmChoice(
            "temporal_join", f"The windows' {workload.kept:,} tuples fit into memory, which holds {memory_tuples:,}."
        )
    setting = MergeSetting(
        workload.streams, max(1, memory_tuples), workload.kept / workload.streams, _PAGE_TUPLES, _FAN_IN
    )
    merging = pages_a_tuple(setting, setting.groups_at_once)
    others_on_disk = (workload.kept - memory_tuples) * (workload.streams - 1) / workload.streams
    asking = pages_read_per_tuple(others_on_disk, _PAGE_TUPLES, _BATCH, _PAGE_BYTES)
    told = (
        f"The windows' {workload.kept:,} tuples exceed memory, and merging takes {merging:.2g} pages a tuple where "
        f"asking the areas on disk takes {asking:.2g}."
    )
    return AlgorithmChoice("temporal_progressive_merge_join" if merging < asking else "temporal_join", told)


def _of_many(workload: Workload) -> AlgorithmChoice:
    others = workload.streams - 1
    asked = m_join_probes([workload.complete ** (1 / others)] * others)
    looked = am_join_probes(workload.streams, workload.complete)
    told = f"A tuple takes {looked:.2f} looks with bit vectors and {asked:.2f} at the tables one after the other."
    return AlgorithmChoice("am_join" if looked < asked else "m_join", told)
