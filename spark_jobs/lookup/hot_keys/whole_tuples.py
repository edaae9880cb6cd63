"""All of R, hot, in two layers: what was published of it once, and over it the few tuples that have changed since.

    base (R as it was) ----> published once ------------.
                                                        +--> OverlaidTuples, in the tasks
    changed, gone      ----> published at each change --'
        ^    |
        |    `-- merged into a new base once the layers published since then take as many bytes as the base
     changes

So what a change costs follows from how much has changed, not from the size of R: n changes between two looks make the
overlay sqrt(2 n |R|) tuples at most, and every look publishes half of that and its share of the next base.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.joins.semi_stream.hot_set import HotSet
from spark_jobs.lookup.hot_keys.hot_tuples import HotTuples, Overlay
from spark_jobs.lookup.relation.relation_rows import RelationRows


@dataclass(frozen=True, eq=False)
class WholeTuples:
    """All of R as the driver keeps it. No two keys share a code.

    Attributes:
        hot_set: codes of the base's keys.
        base: the base's tuples, in slot order.
        changed: tuples as they are now that are others than in the base, or not in it.
        gone: int64, shape (g,): codes of the base's keys that R no longer has.
        published: bytes of the overlays since the base, this one included.
    """

    hot_set: HotSet
    base: RelationRows
    changed: RelationRows
    gone: NDArray[np.int64]
    published: int = 0

    @classmethod
    def of(cls, rows: RelationRows) -> WholeTuples:
        """All tuples of R, in any order, whose codes differ. O(n)."""
        hot_set, sources = HotSet.arranged(0, rows.keys.codes)
        nothing = rows.take(np.empty(0, np.int64))
        return cls(hot_set, in_slots(rows, hot_set, sources), nothing, np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.base) - len(self._superseded) + len(self.changed)

    @property
    def is_merged(self) -> bool:
        """Whether the base is all there is."""
        return not len(self.changed) and not len(self.gone)

    @property
    def nbytes(self) -> int:
        """Memory of the hot tuples, in bytes."""
        return HotTuples.bytes_of(self.base) + (0 if self.is_merged else self._overlay_bytes)

    @property
    def rows(self) -> RelationRows:
        """All tuples, in any order. O(n)."""
        if self.is_merged:
            return self.base
        kept = np.delete(np.arange(len(self.base)), self._superseded)
        return RelationRows.concatenate([self.base.take(kept), self.changed])

    def overlay(self) -> Overlay:
        """What is to be published over the base. O(changed tuples)."""
        hot_set, sources = HotSet.arranged(0, self.changed.keys.codes)
        gone, _ = HotSet.arranged(0, self.gone)
        return Overlay(HotTuples.of(hot_set, in_slots(self.changed, hot_set, sources)), gone)

    def merged(self) -> WholeTuples:
        """The same with the changes in the base. O(n); where the keys are the same, they stay where they are."""
        if self.is_merged:
            return self
        slots, places = self._superseded, np.arange(len(self.changed))
        same = not len(self.gone) and len(slots) == len(places)
        if not (same and self.changed.keys.equals(places, self.base.keys, slots).all()):
            return WholeTuples.of(self.rows)
        sources = np.arange(len(self.base))
        sources[slots] = len(self.base) + places
        columns = pa.concat_tables([self.base.columns, self.changed.columns]).combine_chunks().take(pa.array(sources))
        base = RelationRows(self.base.keys, columns)
        return WholeTuples(self.hot_set, base, self.changed.take(sources[:0]), self.gone)

    def with_changes(self, asked: KeyColumns, found: RelationRows) -> WholeTuples | None:
        """R after a change; itself where nothing that is kept of R has changed.

        Args:
            asked: the keys that may have changed, distinct.
            found: what R has of them now.

        Returns:
            None where two keys of R share a code now. O((changed tuples + asked keys) log) unless changes are merged.
        """
        if self._has(asked, found):
            return self
        kept = self.changed.take(np.flatnonzero(~self.changed.keys.is_in(asked)))
        changed = RelationRows.concatenate([kept, found])
        vanished = asked.take(np.flatnonzero(~asked.is_in(found.keys)))
        slots = self.hot_set.probe(vanished.codes)
        hot = np.flatnonzero(slots >= 0)
        # In the base, or over another key of the same code there, which had vanished before.
        hot = hot[vanished.equals(hot, self.base.keys, slots[hot]) | vanished.take(hot).is_in(self.changed.keys)]
        gone = np.union1d(self.gone, vanished.codes[hot])
        if not changed.keys.codes_differ or self._hides_another(found.keys, gone):
            return None
        gone = np.setdiff1d(gone, changed.keys.codes, assume_unique=True) if gone.size else gone
        after = replace(self, changed=changed, gone=gone)
        after = replace(after, published=self.published + after._overlay_bytes)
        return after.merged() if after.published > HotTuples.bytes_of(self.base) else after

    @property
    def _overlay_bytes(self) -> int:
        return HotTuples.bytes_of(self.changed) + HotSet.bytes_for(len(self.gone))

    @property
    def _superseded(self) -> NDArray[np.int64]:
        """int64, distinct: slots of the base's tuples that are others now, or gone."""
        slots = self.hot_set.probe(np.concatenate([self.changed.keys.codes, self.gone]))
        return slots[slots >= 0]

    def _has(self, asked: KeyColumns, found: RelationRows) -> bool:
        """Whether the base has these tuples as they are. What was changed before is not compared."""
        if len(found) != len(asked) or self.changed.keys.is_in(asked).any():
            return False
        slots = self.hot_set.probe(found.keys.codes)
        if (slots < 0).any() or np.isin(found.keys.codes, self.gone).any():
            return False
        here = self.base.take(slots)
        all_of_them = np.arange(len(found))
        return bool(found.keys.equals(all_of_them, here.keys, all_of_them).all()) and found.columns.equals(here.columns)

    def _hides_another(self, keys: KeyColumns, gone: NDArray[np.int64]) -> bool:
        """Whether one of these keys has the code of another one in the base that R still has."""
        if keys.encoded is None:
            return False
        slots = self.hot_set.probe(keys.codes)
        at = np.flatnonzero((slots >= 0) & ~np.isin(keys.codes, gone) & ~np.isin(keys.codes, self.changed.keys.codes))
        return not keys.equals(at, self.base.keys, slots[at]).all()


def in_slots(candidates: RelationRows, hot_set: HotSet, sources: NDArray[np.int64]) -> RelationRows:
    """The hot tuples in the order of the slots: int64 (slots,), which of the candidates each one is."""
    rows = candidates.take(sources)
    return replace(rows, keys=replace(rows.keys, codes=hot_set.keys))
