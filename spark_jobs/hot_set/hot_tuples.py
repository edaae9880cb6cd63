"""The tuples of R that tasks join at once, as arrays that the workers of a host map: keys and fetched columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.memory_budget import most_within
from spark_jobs.joins.semi_stream.hot_set import MOST_SLOTS, HotSet
from spark_jobs.relation.keys.key_columns import CODE_BYTES, KeyColumns
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.relation.relation_spec import RelationSpec


@dataclass(frozen=True, eq=False)
class HotTuples:
    """One version of a lookup's hot set.

    Attributes:
        hot_set: codes of the hot keys, n slots.
        encoded: binary, shape (n,), the keys themselves in slot order; None where the codes say it all.
        columns: what is fetched of the tuples, n rows in slot order.
    """

    hot_set: HotSet
    encoded: pa.BinaryArray | None
    columns: pa.Table

    @classmethod
    def of(cls, hot_set: HotSet, rows: RelationRows) -> HotTuples:
        """Hot keys with their tuples, which are in slot order."""
        return cls(hot_set, rows.keys.encoded, rows.columns)

    @staticmethod
    def bytes_for(count: int, spec: RelationSpec) -> int:
        """Memory of this many tuples of a relation, in bytes: 18 each for a bigint key and a bigint column."""
        return HotSet.bytes_for(count) + count * max(spec.tuple_bytes - CODE_BYTES, 0)

    @staticmethod
    def bytes_of(rows: RelationRows) -> int:
        """Memory of these tuples, in bytes."""
        return HotSet.bytes_for(len(rows)) + rows.nbytes - CODE_BYTES * len(rows)

    def find(self, keys: KeyColumns) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Look stream tuples' keys up, shape (n,).

        Returns:
            int64, shape (n,): the slot of each, -1 where it is not hot; and bool, shape (n,): where a key is not hot
            and no other key of the same code is, either. O(n).
        """
        slots = self.hot_set.probe(keys.codes, keys.valid)
        missing = slots < 0
        if self.encoded is not None:
            # Two keys may share a hash code; the keys themselves decide.
            hits = np.flatnonzero(~missing)
            own = KeyColumns(keys.kinds, self.hot_set.keys, self.encoded, keys.valid)
            slots[hits[~keys.equals(hits, own, slots[hits])]] = -1
        return slots, missing

    def fetched(self, slots: NDArray[np.int64]) -> tuple[pa.Table, NDArray[np.int64]]:
        """Tuples that hold what was found, and the row of them for each slot, int64, shape (n,): negative for none."""
        return self.columns, slots

    @property
    def nbytes(self) -> int:
        """Memory of all arrays, in bytes."""
        return self.hot_set.memory_used() + self.columns.nbytes + (0 if self.encoded is None else self.encoded.nbytes)


def hot_tuples_within(memory_bytes: int, spec: RelationSpec) -> int:
    """How many tuples of a relation a front stage's memory holds. O(log of the memory).

    Raises:
        MemoryBudgetError: none.
    """
    count = most_within(memory_bytes, lambda count: HotTuples.bytes_for(count, spec), MOST_SLOTS)
    if count < 1:
        raise MemoryBudgetError(
            f"the front stage was given {memory_bytes:,} bytes, but one hot tuple of {spec.relation} needs "
            f"{HotTuples.bytes_for(1, spec):,}: give the lookup more memory, or do without a front stage"
        )
    return count


def frequencies_of(found: KeyColumns, keys: KeyColumns, frequencies: NDArray[np.float32]) -> NDArray[np.float32]:
    """The frequencies of those keys that were found, whose codes differ as those of all hot tuples do."""
    order = np.argsort(keys.codes)
    places = np.searchsorted(keys.codes, found.codes, sorter=order)
    return frequencies[order[places]]
