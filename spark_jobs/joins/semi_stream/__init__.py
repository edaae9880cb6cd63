"""Semi-stream joins: one fast stream with a relation R too big for memory. The catalogue.

| name                       | paper   | memory: the budget holds                                       |
|----------------------------|---------|----------------------------------------------------------------|
| index_nested_loop          | 000 §3  | a page and the waiting tuples                                  |
| batched_index_nested_loop  | 000 §3  | the tuples of R of one batch of keys, and the waiting tuples   |
| hybrid_join                | 000 §4  | a page, the index of its keys, and the waiting tuples          |
| cached_index_nested_loop   | 003 §3.3| 15 % front stage, the rest as index_nested_loop                |
| cached_hybrid_join         | 003 §3.2| 15 % front stage, the rest as hybrid_join                      |

All of them are exact: every stream tuple is joined, or reported as unmatched, or shed at the caller's
word. Importing the catalogue loads no algorithm; `create` loads the one that it makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_jobs.joins.semi_stream.base import Relation, SemiStreamJoin

__all__ = ["ALGORITHMS", "Algorithm", "create"]


@dataclass(frozen=True)
class Algorithm:
    """One algorithm of the catalogue.

    Attributes:
        name: how pipelines name it.
        paper: number and section of the paper in which it stands.
        memory: what its memory budget is split into.
        operator: module and class of the operator; of the back stage for one with a front stage.
        cached: whether a front stage stands before it; its relation is then a CacheableRelation.
    """

    name: str
    paper: str
    memory: str
    operator: tuple[str, str]
    cached: bool = False


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "index_nested_loop",
            "000 §3",
            "page_bytes + 16 bytes a waiting tuple",
            ("index_nested_loop", "IndexNestedLoop"),
        ),
        Algorithm(
            "batched_index_nested_loop",
            "000 §3",
            "half for what a lookup brings; 160 bytes a key of a batch, 16 bytes a waiting tuple",
            ("batched_index_nested_loop", "BatchedIndexNestedLoop"),
        ),
        Algorithm(
            "hybrid_join",
            "000 §4",
            "1.25 page_bytes + 42 to 44 bytes a waiting tuple",
            ("hybrid_join", "HybridJoin"),
        ),
        Algorithm(
            "cached_index_nested_loop",
            "003 §3.3",
            "15 % front stage, the rest as index_nested_loop",
            ("index_nested_loop", "IndexNestedLoop"),
            cached=True,
        ),
        Algorithm(
            "cached_hybrid_join",
            "003 §3.2",
            "15 % front stage, the rest as hybrid_join",
            ("hybrid_join", "HybridJoin"),
            cached=True,
        ),
    )
}


def create(name: str, relation: Relation, memory_bytes: int) -> SemiStreamJoin:
    """Make the operator of an algorithm.

    Args:
        name: its name in the catalogue.
        relation: R; a CacheableRelation for an algorithm with a front stage.
        memory_bytes: the budget, which the operator never exceeds.

    Raises:
        ValueError: there is no algorithm of this name.
        MemoryBudgetError: the budget is too small for a single step.
    """
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        raise ValueError(f"there is no algorithm {name!r}; there are {', '.join(ALGORITHMS)}")
    module, class_name = algorithm.operator
    operator: Callable[[Any, int], SemiStreamJoin] = getattr(import_module(f"{__name__}.{module}"), class_name)
    if not algorithm.cached:
        return operator(relation, memory_bytes)
    cached_join = import_module(f"{__name__}.cached_join")
    joined: SemiStreamJoin = cached_join.CachedJoin(relation, memory_bytes, operator)
    return joined
