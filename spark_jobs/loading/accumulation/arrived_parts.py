"""What a task hands to the loader of an accumulating fact: parts of each stream, and tuples to hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.columns.event_id import event_hashes, event_id_texts
from spark_jobs.loading.chunk import MOST_BYTES, MOST_ROWS
from spark_jobs.loading.outcome import Held
from spark_jobs.warehouse.part_table import AccumulatingTable


@dataclass(frozen=True)
class ArrivedParts:
    """Parts that a transaction is to store.

    Attributes:
        tuples: stream -> its tuples, with the joined tuple's columns; no nulls in event id and key.
        held: stream -> groups of its tuples that are held for another reason than that they wait for their row; with
            the columns that the stream's source gives.
    """

    tuples: Mapping[str, pa.Table]
    held: Mapping[str, Sequence[Held]] = field(default_factory=dict)


class PartsBeside:
    """Parts that a task has besides those that make rows: loaded with the rows of their keys, or else after them.

    A row is made of all its parts at once then, instead of being written once for each of them.

    Args:
        tuples: stream -> its tuples, with the joined tuple's columns.
        table: the fact table, which knows the keys.
    """

    def __init__(self, tuples: Mapping[str, pa.Table], table: AccumulatingTable) -> None:
        self.left = dict(tuples)
        self._keys = {
            part.stream: event_id_texts(tuples[part.stream], part.table.key)
            for part in table.parts
            if part.stream in tuples
        }

    def take(self, keys: pa.Array) -> dict[str, pa.Table]:
        """Take the parts of some keys out. O(parts that are left)."""
        taken = {}
        for stream, texts in self._keys.items():
            found = pc.is_in(texts, keys)
            taken[stream] = self.left[stream].filter(found)
            left = pc.invert(found)
            self.left[stream], self._keys[stream] = self.left[stream].filter(left), texts.filter(left)
        return taken


def chunks(arrived: Mapping[str, pa.Table], table: AccumulatingTable) -> Iterator[ArrivedParts]:
    """Cut into parts of about `MOST_ROWS` tuples, fewer where they are large; all parts of a key come in one. O(n).

    Args:
        arrived: stream -> its tuples, with the joined tuple's columns.
        table: the fact table, which knows the keys.
    """
    tuples = arrived.values()
    filled = max(sum(each.num_rows for each in tuples) / MOST_ROWS, sum(each.nbytes for each in tuples) / MOST_BYTES)
    count = max(int(np.ceil(filled)), 1)
    if count == 1:
        if filled:
            yield ArrivedParts(arrived)
        return
    homes = {}
    for part in table.parts:
        if part.stream in arrived:
            hashes = event_hashes(arrived[part.stream], part.table.key)
            # The upper bits: the lower ones have told the bucket that all of these are in.
            homes[part.stream] = (hashes.view(np.uint64) >> np.uint64(32)) % np.uint64(count)
    for chunk in range(count):
        yield ArrivedParts({stream: each.filter(pa.array(homes[stream] == chunk)) for stream, each in arrived.items()})
