"""What a task hands to the loader of an accumulating fact: parts of each stream, and tuples to hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from spark_jobs.loading.accumulation.parts import of_joined_tuple
from spark_jobs.loading.chunk import MOST_BYTES, MOST_ROWS
from spark_jobs.loading.outcome import Held
from spark_jobs.warehouse.event_id import event_hashes
from spark_jobs.warehouse.part_table import AccumulatingTable


@dataclass(frozen=True)
class ArrivedParts:
    """Parts that a transaction is to store.

    Attributes:
        tuples: stream -> its tuples, as its source gives them; no nulls in event id and key.
        held: stream -> groups of its tuples that are held for another reason than that they wait for their row.
    """

    tuples: Mapping[str, pa.Table]
    held: Mapping[str, Sequence[Held]] = field(default_factory=dict)


def chunks(arrived: ArrivedParts, table: AccumulatingTable) -> Iterator[ArrivedParts]:
    """Cut into parts of about `MOST_ROWS` tuples, fewer where they are large; all parts of a key come in one. O(n).

    A row is made of all its parts at once then, instead of being written once for each of them.

    Args:
        arrived: what a task has.
        table: the fact table, which knows the keys.
    """
    if any(arrived.held.values()):
        yield ArrivedParts({}, arrived.held)
    tuples = arrived.tuples.values()
    filled = max(sum(each.num_rows for each in tuples) / MOST_ROWS, sum(each.nbytes for each in tuples) / MOST_BYTES)
    count = max(int(np.ceil(filled)), 1)
    if count == 1:
        if tuples:
            yield ArrivedParts(arrived.tuples)
        return
    homes = {}
    for part in table.parts:
        if part.stream in arrived.tuples:
            hashes = event_hashes(of_joined_tuple(arrived.tuples[part.stream], part), part.table.key)
            # The upper bits: the lower ones have told the bucket that all of these are in.
            homes[part.stream] = (hashes.view(np.uint64) >> np.uint64(32)) % np.uint64(count)
    for chunk in range(count):
        yield ArrivedParts(
            {stream: each.filter(pa.array(homes[stream] == chunk)) for stream, each in arrived.tuples.items()}
        )
