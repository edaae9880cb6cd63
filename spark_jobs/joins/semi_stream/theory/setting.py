"""What the cost of a semi-stream join follows from, besides the stream: R, the memory, the disk and the processor."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_jobs.joins.semi_stream.theory.disk_costs import DiskCosts
from spark_jobs.joins.semi_stream.theory.processor_costs import ProcessorCosts


@dataclass(frozen=True)
class Setting:
    """One join's circumstances, in the symbols of 000 Table 1.

    Attributes:
        row_count: tuples of R, R_t.
        tuple_bytes: size of one, v_R.
        page_rows: tuples of a page, which is what the disk buffer holds, D_t; whole or not.
        memory_bytes: the join's budget, M.
        disk: what reading costs, c_I/O.
        processor: what a tuple costs, c_H, c_O, c_E, c_S and c_A, and what a step does.
    """

    row_count: int
    tuple_bytes: int
    page_rows: float
    memory_bytes: float
    disk: DiskCosts
    processor: ProcessorCosts

    @property
    def page_bytes(self) -> float:
        """Size of a page and of the disk buffer, v_P."""
        return self.page_rows * self.tuple_bytes

    @property
    def page_count(self) -> float:
        """Pages of R."""
        return max(1.0, self.row_count / self.page_rows)

    @property
    def page_seconds(self) -> float:
        """A step that reads a page and probes each tuple of it: c_I/O(v_P) + (v_P / v_R) c_H of 000 equation (3)."""
        rows = min(self.page_rows, self.row_count)
        reading = self.disk.page_read_seconds(int(rows * self.tuple_bytes))
        return reading + rows * self.processor.probe + self.processor.per_access

    @property
    def with_multimap(self) -> Setting:
        """The same with what a tuple costs in MESHJOIN's hash table."""
        return replace(self, processor=self.processor.multimap or self.processor)
