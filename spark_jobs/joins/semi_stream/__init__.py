"""Semi-stream joins: one fast stream with a relation R too big for memory. The catalogue.

| name                            | paper   | memory: the budget holds                                       |
|---------------------------------|---------|----------------------------------------------------------------|
| index_nested_loop               | 000 §3  | a page and the waiting tuples                                  |
| batched_index_nested_loop       | 000 §3  | the tuples of R of one batch of keys, and the waiting tuples   |
| hybrid_join                     | 000 §4  | a page, the index of its keys, and the waiting tuples          |
| longest_wait_join               | ours    | the same, and the waits of all pages                           |
| mesh_join                       | 000 §3  | a page, a stream buffer, and the tuples of a cycle             |
| r_mesh_join                     | 003 §2  | the same; the cycle has a chosen number of segments            |
| early_release_mesh_join         | ours    | a page and the tuples that are not joined yet                  |
| semi_streamed_index_join        | 003 §2  | page, index of its keys, page counters, 15 % of the rest cached |
| partition_wait_join             | 003 §2  | a page, the index of its keys, the slots' counts, waiting tuples |
|---------------------------------|---------|----------------------------------------------------------------|
| cached_index_nested_loop        | 003 §3.3| 15 % front stage, the rest as index_nested_loop                |
| cached_mesh_join                | 003 §3.1| 15 % front stage, the rest as mesh_join                        |
| cached_hybrid_join              | 003 §3.2| 15 % front stage, the rest as hybrid_join                      |
| cached_early_release_mesh_join  | ours    | 15 % front stage, the rest as early_release_mesh_join          |
| cached_longest_wait_join        | ours    | 15 % front stage, the rest as longest_wait_join                |

All of them are exact: every stream tuple is joined, or reported as unmatched, or shed at the caller's
word. The mesh joins, SSIJ and the partition-wait join of the catalogue don't wait until enough of the stream has come,
as those of the papers do: whoever drives an operator by its name may push little, and wants it settled. Their classes
wait unless told not to.

What surrounds them: `load_shedding` keeps up with a stream that is too fast, `theory` predicts what each gives. (The
Spark job has all tuples of a batch at hand, so its `algorithm: auto` needs no guesses about the stream:
`theory.batch_choice`. `experiments.semi_stream.auto_join` chooses while the stream runs.)

Importing the catalogue loads no algorithm; `create` loads the one that it makes.

base.py                 what all have in common: life, view of R, results
cyclic_scan.py          R from the first page to the last, again and again
lookup_position.py      which waiting tuple decides the page that is read next
page_cache.py           pages of R that stay in memory
cached_join.py          a front stage before any join: front_stage.py, the keys that it probes: hot_set.py
admission_threshold.py  how frequent a tuple of R must be to be in it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
        paper: number and section of the paper in which it stands, or which it improves on.
        memory: what its memory budget is split into.
        operator: module and class of the operator; of the back stage for one with a front stage.
        cached: whether a front stage stands before it.
        keywords: what else the operator's class is given.
        reads_pages: whether it reads R by the numbers of its pages; if not, only by the index on the join key.
        scans_pages: whether it reads all of R, one page after the other, whichever pages tuples wait for; its
            relation may then be one whose pages are runs of R's.
        batches_lookups: whether it looks keys up in batches, whose size may be limited.
    """

    name: str
    paper: str
    memory: str
    operator: tuple[str, str]
    cached: bool = False
    keywords: Mapping[str, Any] = field(default_factory=dict)
    reads_pages: bool = True
    scans_pages: bool = False
    batches_lookups: bool = False


_WITHOUT_WAITING = {"blocking": False}

ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "index_nested_loop",
            "000 §3",
            "page_bytes + 16 bytes a waiting tuple",
            ("index_nested_loop", "IndexNestedLoop"),
            reads_pages=False,
        ),
        Algorithm(
            "batched_index_nested_loop",
            "000 §3",
            "half for what a lookup brings; 160 bytes a key of a batch, 16 bytes a waiting tuple",
            ("batched_index_nested_loop", "BatchedIndexNestedLoop"),
            reads_pages=False,
            batches_lookups=True,
        ),
        Algorithm(
            "hybrid_join",
            "000 §4",
            "1.25 page_bytes + 42 to 44 bytes a waiting tuple",
            ("hybrid_join", "HybridJoin"),
        ),
        Algorithm(
            "longest_wait_join",
            "ours, after 000 §4",
            "1.25 page_bytes + 12 bytes a page of R + 42 to 44 bytes a waiting tuple",
            ("longest_wait_join", "LongestWaitJoin"),
        ),
        Algorithm(
            "mesh_join",
            "000 §3",
            "page_bytes + 26 bytes a tuple + 16 a tuple of a chunk + 8 a page of R",
            ("mesh_join", "MeshJoin"),
            keywords=_WITHOUT_WAITING,
            scans_pages=True,
        ),
        Algorithm(
            "r_mesh_join",
            "003 §2",
            "page_bytes + 26 bytes a tuple + 16 a tuple of a chunk + 8 a segment",
            ("r_mesh_join", "RMeshJoin"),
            keywords=_WITHOUT_WAITING,
            scans_pages=True,
        ),
        Algorithm(
            "early_release_mesh_join",
            "ours, after 000 §3",
            "page_bytes + 25 bytes a waiting tuple",
            ("early_release_mesh_join", "EarlyReleaseMeshJoin"),
            scans_pages=True,
        ),
        Algorithm(
            "semi_streamed_index_join",
            "003 §2",
            "1.25 page_bytes + 8 bytes a page of R; 15 % of the rest cached pages, 42 to 44 bytes a waiting tuple",
            ("semi_streamed_index_join", "SemiStreamedIndexJoin"),
            keywords=_WITHOUT_WAITING,
        ),
        Algorithm(
            "partition_wait_join",
            "003 §2, after 000 §2",
            "1.25 page_bytes + 8 bytes a page of R + 42 to 44 bytes a waiting tuple",
            ("partition_wait_join", "PartitionWaitJoin"),
            keywords=_WITHOUT_WAITING,
        ),
        Algorithm(
            "cached_index_nested_loop",
            "003 §3.3",
            "15 % front stage, the rest as index_nested_loop",
            ("index_nested_loop", "IndexNestedLoop"),
            cached=True,
            reads_pages=False,
        ),
        Algorithm(
            "cached_mesh_join",
            "003 §3.1",
            "15 % front stage, the rest as mesh_join",
            ("mesh_join", "MeshJoin"),
            cached=True,
            keywords=_WITHOUT_WAITING,
            scans_pages=True,
        ),
        Algorithm(
            "cached_early_release_mesh_join",
            "ours, after 003 §3.1",
            "15 % front stage, the rest as early_release_mesh_join",
            ("early_release_mesh_join", "EarlyReleaseMeshJoin"),
            cached=True,
            scans_pages=True,
        ),
        Algorithm(
            "cached_hybrid_join",
            "003 §3.2",
            "15 % front stage, the rest as hybrid_join",
            ("hybrid_join", "HybridJoin"),
            cached=True,
        ),
        Algorithm(
            "cached_longest_wait_join",
            "ours, after 003 §3.2",
            "15 % front stage, the rest as longest_wait_join",
            ("longest_wait_join", "LongestWaitJoin"),
            cached=True,
        ),
    )
}


def create(
    name: str, relation: Relation, memory_bytes: int, *, front_share: float | None = None, most_keys: int | None = None
) -> SemiStreamJoin:
    """Make the operator of an algorithm.

    Args:
        name: its name in the catalogue.
        relation: R.
        memory_bytes: the budget, which the operator never exceeds.
        front_share: the front stage's part of it, for an algorithm that has one; None for the papers' 15 %.
        most_keys: keys of one lookup at most, for an algorithm that looks them up in batches; None for its own choice.

    Raises:
        ValueError: there is no algorithm of this name, or it has no front stage to give a share to.
        MemoryBudgetError: the budget is too small for a single step.
    """
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        raise ValueError(f"there is no algorithm {name!r}; there are {', '.join(ALGORITHMS)}")
    module, class_name = algorithm.operator
    operator_class = getattr(import_module(f"{__name__}.{module}"), class_name)
    limits = {"most_keys": most_keys} if algorithm.batches_lookups and most_keys is not None else {}

    def operator(relation: Any, memory_bytes: int) -> SemiStreamJoin:
        made: SemiStreamJoin = operator_class(relation, memory_bytes, **algorithm.keywords, **limits)
        return made

    if not algorithm.cached and front_share is not None:
        raise ValueError(f"{name} has no front stage: a share of the memory can be given to cached_... only")
    if not algorithm.cached:
        return operator(relation, memory_bytes)
    cached_join = import_module(f"{__name__}.cached_join")
    split = {} if front_share is None else {"front_share": front_share}
    joined: SemiStreamJoin = cached_join.CachedJoin(relation, memory_bytes, operator, **split)
    return joined
