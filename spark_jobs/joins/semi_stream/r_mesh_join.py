"""R-MESHJOIN: a MESHJOIN whose disk buffer may be smaller than the segments of its cycle."""

from __future__ import annotations

from spark_jobs.joins.semi_stream.base import Relation
from spark_jobs.joins.semi_stream.mesh_join import MeshJoin

# The stream buffer, which holds a segment's chunk, then takes about a hundredth of the memory.
_SEGMENTS = 100


class RMeshJoin(MeshJoin):
    """R-MESHJOIN (003 §2): a segment of R is read piece by piece through the disk buffer.

    MESHJOIN ties the number of segments k to the size of the disk buffer b by k = N_R / b, with N_R
    the size of R. Here b is the relation's page and k is chosen: a chunk of w = h_S / k tuples is taken
    in, then the next N_R / (k b) pages are read, one a step.

    Args:
        relation: R, in any order.
        memory_bytes: split as MESHJOIN's.
        segments: k, how many chunks are taken in in a cycle; each page of R is one where there are fewer
            pages. A small k asks for few, large chunks: their tuples wait longer in a larger stream buffer.
        blocking: whether a segment waits until the stream buffer holds w tuples.

    Raises:
        ValueError: there is not one segment.
        MemoryBudgetError: the budget does not hold a page and one stream tuple.
    """

    algorithm = "r_mesh_join"

    def __init__(
        self, relation: Relation, memory_bytes: int, *, segments: int = _SEGMENTS, blocking: bool = True
    ) -> None:
        if segments < 1:
            raise ValueError(f"R is read in at least one segment, not {segments}: give segments from 1 on")
        self.segments = segments
        super().__init__(relation, memory_bytes, blocking=blocking)

    @property
    def segment_pages(self) -> int:
        """Pages of R for which a chunk is taken in; grows with R, so that their number stays."""
        return -(-self._scan.page_count // self.segments)
