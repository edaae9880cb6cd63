"""Stream-stream joins: two or more streams with each other. The catalogue.

Importing the catalogue loads no algorithm; `create` loads the one that it makes.

sort_based_join.py                      what progressive merge joins share
arrival_table.py  sweeps.py             where their runs begin; how tuples in order of key are joined
multiple_merge.py  merge_strategies.py  runs of all streams merged at once; which are merged next
validity_order.py  result_buffer.py     how far streams have come in order of validity; results in that order
temporal_budget.py                      how a temporal join's memory is split
disk_area.py  extent_queue.py           tuples that its memory does not hold; a queue of extents
tuple_queue.py                          tuples that wait for the other streams
patterns.py  punctuation_set.py         which keys a stream brings no more of; what has come of these
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from spark_jobs.joins.stream_stream.base import StreamStreamJoin
    from spark_jobs.joins.stream_stream.predicates import Predicate
    from spark_jobs.joins.stream_stream.spill import SpillStore

__all__ = ["ALGORITHMS", "Algorithm", "create"]

PredicateKind = Literal["equality", "overlap", "band", "own"]
EQUALITY: tuple[PredicateKind, ...] = ("equality",)
ANY: tuple[PredicateKind, ...] = ("equality", "overlap", "band", "own")


@dataclass(frozen=True)
class Algorithm:
    """One algorithm of the catalogue.

    Attributes:
        name: how pipelines name it.
        paper: number and section of the paper in which it stands; or whose rival it is.
        operator: module and class.
        predicates: by what it joins; "own" is a predicate of the user's.
        most_streams: how many streams it joins at most.
        spills: whether it has a disk; if not, tuples that don't fit into memory are refused.
        validity: whether its tuples have starts and ends.
        ordered: whether results come in order of (start, end), if the emission is not `AsFound`.
        any_order: whether tuples may come in any order, with the emission `AsFound`.
        punctuations: whether it makes use of them.
    """

    name: str
    paper: str
    operator: tuple[str, str]
    predicates: tuple[PredicateKind, ...] = EQUALITY
    most_streams: int = 16
    spills: bool = True
    validity: bool = False
    ordered: bool = False
    any_order: bool = False
    punctuations: bool = False


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "symmetric_hash_join",
            "WA93; 001 §1, 002 §1, 004 §2",
            ("symmetric_hash_join", "SymmetricHashJoin"),
            spills=False,
        ),
        Algorithm("m_join", "002 §2; VNB03", ("m_join", "MJoin")),
        Algorithm("am_join", "002 §2", ("am_join", "AMJoin")),
        Algorithm("x_join", "UF00; 001 §1, §3", ("x_join", "XJoin"), most_streams=2),
        Algorithm("p_join", "001 §2, §3", ("p_join", "PJoin"), most_streams=2, punctuations=True),
        Algorithm(
            "double_pipelined_hash_join",
            "IFF+99; 000 §2, 003 §2",
            ("double_pipelined_hash_join", "DoublePipelinedHashJoin"),
            most_streams=2,
        ),
        Algorithm("early_hash_join", "Law05; 000 §2, 003 §2", ("early_hash_join", "EarlyHashJoin"), most_streams=2),
        Algorithm("hash_merge_join", "MLA04; 004 §2", ("hash_merge_join", "HashMergeJoin"), most_streams=2),
        Algorithm(
            "progressive_merge_join",
            "004 §3.2, §4.2",
            ("progressive_merge_join", "ProgressiveMergeJoin"),
            predicates=ANY,
        ),
        Algorithm(
            "temporal_progressive_merge_join",
            "004 §5.3, §6",
            ("temporal_progressive_merge_join", "TemporalProgressiveMergeJoin"),
            predicates=ANY,
            validity=True,
            ordered=True,
        ),
        Algorithm(
            "temporal_join",
            "004 §5.1, §5.2, §6",
            ("temporal_join", "TemporalJoin"),
            predicates=ANY,
            validity=True,
            ordered=True,
            any_order=True,
        ),
    )
}


def create(
    name: str, streams: int, predicate: Predicate, memory_bytes: int, spill: SpillStore, **policies: Any
) -> StreamStreamJoin:
    """Make the operator of an algorithm.

    Args:
        name: its name in the catalogue.
        streams: how many streams it joins.
        predicate: when two tuples match.
        memory_bytes: the budget, which the operator never exceeds.
        spill: where tuples go that the memory does not hold.
        policies: what the algorithm leaves open, by the names of its class's arguments.

    Raises:
        ValueError: there is no algorithm of this name, or it can't do that.
        MemoryBudgetError: the budget is too small for a single step.
    """
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        raise ValueError(f"there is no algorithm {name!r}; there are {', '.join(ALGORITHMS)}")
    if streams > algorithm.most_streams:
        raise ValueError(f"{name} joins up to {algorithm.most_streams} streams, not {streams}")
    module, class_name = algorithm.operator
    operator_class = getattr(import_module(f"{__name__}.{module}"), class_name)
    disk = (spill,) if algorithm.spills else ()
    made: StreamStreamJoin = operator_class(streams, predicate, memory_bytes, *disk, **policies)
    return made
