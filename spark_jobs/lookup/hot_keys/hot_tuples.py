"""The tuples of R that tasks join at once, as arrays that the workers of a host map: keys and fetched columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.keys.key_columns import CODE_BYTES, KeyColumns
from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.memory_budget import most_within
from spark_jobs.joins.semi_stream.hot_set import MOST_SLOTS, HotSet
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.lookup.relation.relation_spec import RelationSpec


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


@dataclass(frozen=True, eq=False)
class Overlay:
    """What has changed in R since its tuples were published.

    Attributes:
        changed: tuples as they are now, changed ones and new ones.
        gone: codes of keys that R no longer has, none of which is a changed key's.
    """

    changed: HotTuples
    gone: HotSet

    @property
    def nbytes(self) -> int:
        """Memory of all arrays, in bytes."""
        return self.changed.nbytes + self.gone.memory_used()


@dataclass(frozen=True, eq=False)
class OverlaidTuples:
    """Published tuples and what has changed since, to be looked up as one. No two keys of R share a code.

    Attributes:
        base: all of R, as it was.
        overlay: what has changed since.
    """

    base: HotTuples
    overlay: Overlay

    def find(self, keys: KeyColumns) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """As `HotTuples.find`; slots of changed tuples follow those of the base."""
        slots, missing = self.base.find(keys)
        changed, unchanged = self.overlay.changed.find(keys)
        gone = self.overlay.gone.probe(keys.codes, keys.valid) >= 0
        slots[gone | ~unchanged] = -1
        there = changed >= 0
        slots[there] = self.base.hot_set.slot_count + changed[there]
        return slots, (missing | gone) & unchanged

    def fetched(self, slots: NDArray[np.int64]) -> tuple[pa.Table, NDArray[np.int64]]:
        """As `HotTuples.fetched`. Where a slot is a changed tuple's, what was found is copied: O(n)."""
        count = self.base.hot_set.slot_count
        changed = np.flatnonzero(slots >= count)
        if not changed.size:
            return self.base.columns, slots
        unchanged = np.flatnonzero((slots >= 0) & (slots < count))
        parts = (
            self.base.columns.take(pa.array(slots[unchanged])),
            self.overlay.changed.columns.take(pa.array(slots[changed] - count)),
        )
        rows = np.full(len(slots), -1, np.int64)
        rows[np.concatenate([unchanged, changed])] = np.arange(len(unchanged) + len(changed))
        return pa.concat_tables(parts).combine_chunks(), rows


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
