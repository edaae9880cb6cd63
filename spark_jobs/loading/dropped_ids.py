"""Event ids of tuples that a transaction did not store because they are stored: what it says so of can be looked up.

That an id is stored already can't be told from sketches. So a loader tells which ids it dropped for that reason, and a
validation looks for them: for all where they are few, else for a sample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.ledger.id_sketches import MOST_DROPPED
from spark_jobs.loading.held_rows import HeldRows
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.warehouse.event_id import event_hashes, event_id_texts
from spark_jobs.warehouse.fact_table import FactColumn

Int64Array = NDArray[np.int64]
Bools = NDArray[np.bool_]


class DroppedIds:
    """The event ids that one transaction dropped.

    Attributes:
        sketch: of all of them.
    """

    def __init__(self) -> None:
        self.sketch = IdSketch()
        self._told: list[tuple[int, str]] = []

    @property
    def told(self) -> list[str]:
        """Ids in their canonical texts; of more than `MOST_DROPPED` those of the least hash codes: a random sample."""
        return [text for _, text in self._told]

    def add_tuples(self, tuples: pa.Table, key: Sequence[FactColumn]) -> None:
        """Take tuples that were to be facts, shape (n,), with the columns of the event id. O(n)."""
        if tuples.num_rows:
            hashes = event_hashes(tuples, key)
            least = self._added(hashes)
            self._tell(hashes[least], event_id_texts(tuples.take(pa.array(least)), key).to_pylist())

    def without(self, rows: HeldRows, dropped: Bools) -> HeldRows:
        """Take those of the tuples to hold that are dropped, bool, shape (n,); the others are the result. O(n)."""
        if not dropped.any():
            return rows
        gone = rows.without(~dropped)
        least = self._added(gone.event_hashes)
        event_ids = gone.event_ids
        self._tell(gone.event_hashes[least], [event_ids[number] for number in least])
        return rows.without(dropped)

    def _added(self, hashes: Int64Array) -> Int64Array:
        """Add to the sketch; numbers of those that are told, should no others be."""
        self.sketch.add(hashes)
        return np.argsort(hashes, kind="stable")[:MOST_DROPPED]

    def _tell(self, hashes: Int64Array, texts: Sequence[str]) -> None:
        told = {*self._told, *zip(hashes.tolist(), texts, strict=True)}
        self._told = sorted(told)[:MOST_DROPPED]
