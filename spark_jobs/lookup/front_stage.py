"""A task's front stage: joins stream tuples with R's hot tuples, and knows which keys R does not have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import single_array
from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.lookup.changes.unnoticed import ChangedKeys, WholeRelation
from spark_jobs.lookup.hot_keys.hot_tuples import HotTuples
from spark_jobs.lookup.hot_keys.publishing import FrontStagePlan
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.lookup.relation.reading_connection import reading_connection
from spark_jobs.lookup.relation.relation_rows import RelationRows, fetched_at


class FrontStage:
    """The front stage of one lookup, as a task uses it: read-only, but for the counts of hits.

    Args:
        plan: the lookup.
        front: what its front stage does in this batch.
        warehouse_url: where R is.

    Attributes:
        plan: as given.
        hits: hits of each slot of the hot set, int64 (slots,); None where they are not counted.
    """

    def __init__(self, plan: LookupPlan, front: FrontStagePlan, warehouse_url: str) -> None:
        self.plan = plan
        self._url = warehouse_url
        self._hot = front.tuples()
        self._whole = front.whole
        self._changed: ChangedKeys | None = None  # of R since it was read whole; None: not asked for yet
        self.hits: NDArray[np.int64] | None = None
        if isinstance(self._hot, HotTuples) and front.count_hits:
            self.hits = np.zeros(self._hot.hot_set.slot_count, np.int64)

    def probe(self, keys: KeyColumns, times: pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Table, NDArray[np.bool_]]:
        """Look stream tuples' keys up, shape (n,); times, shape (n,), are their events'.

        Returns:
            row of the hot tuple of each key, -1 where it is not hot; these tuples; and where R is known to have none.
        """
        if self._hot is None:
            return np.full(len(keys), -1, np.int64), RelationRows.empty(self.plan.spec).columns, ~keys.valid
        slots, missing = self._hot.find(keys)
        if self.hits is not None:
            self.hits += np.bincount(slots[slots >= 0], minlength=len(self.hits))
        absent = self._absent(keys, missing)
        columns, rows = self._hot.fetched(slots)
        if self._whole is not None and self.plan.spec.validity is not None:
            self._leave_versionless(columns, rows, keys, times, self._whole)
        return rows, columns, absent

    def _leave_versionless(
        self,
        columns: pa.Table,
        rows: NDArray[np.int64],
        keys: KeyColumns,
        times: pa.ChunkedArray,
        whole: WholeRelation,
    ) -> None:
        """Make misses of hits that have no version valid at their time, and may have one that is not hot yet."""
        _, valid = fetched_at(columns, rows, single_array(times))
        versionless = np.flatnonzero((rows >= 0) & ~valid)
        if versionless.size:
            changed = self._changed_since(whole).contains(keys.codes[versionless])
            rows[versionless[changed]] = -1

    def _absent(self, keys: KeyColumns, missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the keys R does not have now: those that it never can, and missing ones where all of R is hot.

        A batch's tuples arrived before it was planned, so a key that came into R before one of them did is found
        here, too: in the hot set, or among the keys that have changed since.
        """
        absent = ~keys.valid
        unknown = np.flatnonzero(missing & keys.valid)
        if self._whole is not None and unknown.size:
            absent[unknown] = ~self._changed_since(self._whole).contains(keys.codes[unknown])
        return absent

    def _changed_since(self, whole: WholeRelation) -> ChangedKeys:
        if self._changed is None:
            self._changed = self._changed_keys(whole)
        return self._changed

    def _changed_keys(self, whole: WholeRelation) -> ChangedKeys:
        changed = ChangedKeys()
        changes = reading_connection(self._url).run(lambda reading: whole.changes(reading, self.plan.spec))
        if changes is None:
            changed.add_all()
        else:
            changed.add(changes.keys.codes)
        return changed
