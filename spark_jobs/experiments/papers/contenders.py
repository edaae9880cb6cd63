"""The algorithms that meet in the figures: under the papers' names, and our own lines beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from spark_jobs.experiments.papers.figure import Origin
from spark_jobs.joins.semi_stream import ALGORITHMS, create
from spark_jobs.joins.semi_stream.admission_threshold import AdmissionThreshold
from spark_jobs.joins.semi_stream.base import SemiStreamJoin
from spark_jobs.joins.semi_stream.cached_join import CachedJoin
from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from spark_jobs.joins.semi_stream.theory.prediction import PAPER_FRONT_SHARE

Operator = Callable[[Any, int], SemiStreamJoin]

# 000 §4.3 compares MESHJOIN and HYBRIDJOIN at the same number of waiting tuples, and in the papers' Java a tuple takes
# much the same in both: the same hash table, and a queue node of 4 bytes or of 12 (003 Table 1). Our MESHJOIN packs a
# tuple into 26 bytes, our HYBRIDJOIN takes 44. To compare the algorithms rather than the packing, the papers' line is
# given less memory for its tuples by that factor; the packed one is a line of ours.
_PAPER_MESH_TUPLE = 44
_PACKED_MESH_TUPLE = 26


@dataclass(frozen=True)
class Contender:
    """An algorithm in a figure.

    Attributes:
        name: in the legend.
        back_stage: catalogue name of the algorithm, or of that behind the front stage.
        front_share: of memory for the front stage; 0 without one.
        origin: whose line it is.
        papers_layout: whether a waiting tuple of MESHJOIN is to take what one of HYBRIDJOIN takes.
        operator: makes the back stage where the catalogue's way is not meant.
        threshold: of the front stage; None for the one that moves by itself.
    """

    name: str
    back_stage: str
    front_share: float = 0.0
    origin: Origin = Origin.PAPER
    papers_layout: bool = False
    operator: Operator | None = None
    threshold: AdmissionThreshold | None = None

    @property
    def algorithm(self) -> str:
        """Catalogue name of the whole."""
        return f"cached_{self.back_stage}" if self.front_share else self.back_stage

    @property
    def reads_by_key(self) -> bool:
        """Whether it reads R by the index only, so that no disk buffer is to be tuned."""
        return not ALGORITHMS[self.back_stage].reads_pages

    def join(self, relation: Any, memory_bytes: int) -> SemiStreamJoin:
        """A new operator within a budget."""
        if self.front_share:
            return CachedJoin(relation, memory_bytes, self._back_stage, self.front_share, self.threshold)
        return self._back_stage(relation, memory_bytes)

    def back_stage_bytes(self, memory_bytes: float, page_bytes: float) -> float:
        """What the back stage is given of a budget."""
        own = memory_bytes * (1 - self.front_share)
        if not self.papers_layout:
            return own
        return page_bytes + (own - page_bytes) * _PACKED_MESH_TUPLE / _PAPER_MESH_TUPLE

    def named(self, name: str) -> Contender:
        """The same under another name."""
        return replace(self, name=name)

    def with_front_share(self, share: float) -> Contender:
        """The same with another share of memory for the front stage, without one for share 0."""
        return replace(self, front_share=share)

    def with_threshold(self, threshold: AdmissionThreshold) -> Contender:
        """The same with another threshold of its front stage."""
        return replace(self, threshold=threshold)

    def _back_stage(self, relation: Any, memory_bytes: int) -> SemiStreamJoin:
        alone = replace(self, front_share=0.0)
        own = int(alone.back_stage_bytes(memory_bytes, relation.page_bytes))
        return (self.operator or partial(create, self.back_stage))(relation, own)


INLJ = Contender("INLJ", "index_nested_loop")
MESHJOIN = Contender("MESHJOIN", "mesh_join", papers_layout=True)
BLOCKING_MESHJOIN = replace(MESHJOIN, operator=MeshJoin)
HYBRIDJOIN = Contender("HYBRIDJOIN", "hybrid_join")
CINLJ = Contender("CINLJ", "index_nested_loop", PAPER_FRONT_SHARE)
CMESHJOIN = Contender("CMESHJOIN", "mesh_join", PAPER_FRONT_SHARE, papers_layout=True)
CHYBRIDJOIN = Contender("CHYBRIDJOIN", "hybrid_join", PAPER_FRONT_SHARE)

BATCHED_INLJ = Contender("batched INLJ (ours)", "batched_index_nested_loop", origin=Origin.OURS)
LONGEST_WAIT = Contender("HYBRIDJOIN, longest wait (ours)", "longest_wait_join", origin=Origin.OURS)
CACHED_LONGEST_WAIT = Contender("CHYBRIDJOIN, longest wait (ours)", "longest_wait_join", PAPER_FRONT_SHARE, Origin.OURS)
SSIJ = Contender("SSIJ", "semi_streamed_index_join", origin=Origin.REFERENCE)
PARTITION_WAIT = Contender("partition wait", "partition_wait_join", origin=Origin.REFERENCE)

PACKED_MESHJOIN = Contender("MESHJOIN, packed (ours)", "mesh_join", origin=Origin.OURS)
EARLY_RELEASE = Contender("MESHJOIN, early release (ours)", "early_release_mesh_join", origin=Origin.OURS)
CACHED_EARLY_RELEASE = Contender(
    "CMESHJOIN, early release (ours)", "early_release_mesh_join", PAPER_FRONT_SHARE, Origin.OURS
)
