"""Parts of several streams that are placed together, by the keys of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.columns.event_id import event_id_texts
from spark_jobs.definition.correlation import COMPLETED_AT, qualified
from spark_jobs.definition.stream_tuple import BATCH_NO
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.part_table import PartTable

Int64Array = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class StreamParts:
    """Parts of one stream, all of whose values fit the fact table.

    Attributes:
        part: what they fill.
        tuples: shape (n,), with the joined tuple's columns of the stream, and `_batch_no`: those first that have
            waited for their row.
        waited: how many of them have.
    """

    part: PartTable
    tuples: pa.Table
    waited: int = 0

    def event_ids(self, numbers: Int64Array) -> list[str]:
        """Canonical text of the event id of some of them."""
        texts: list[str] = event_id_texts(self.tuples.take(pa.array(numbers)), self.part.event_id).to_pylist()
        return texts


class KeyedParts:
    """Parts of all streams, by key. O(n) to make.

    Args:
        streams: the parts of each.

    Attributes:
        streams: the same.
        keys: the keys, each once, as canonical texts; large_string array, shape (k,).
        codes: of each stream, which of the keys its parts have, int64, shape (n,).
    """

    def __init__(self, streams: Sequence[StreamParts]) -> None:
        self.streams = streams
        texts = [event_id_texts(each.tuples, each.part.table.key) for each in streams]
        coded = pa.chunked_array(texts, pa.large_string()).combine_chunks().dictionary_encode()
        self.keys: pa.Array = coded.dictionary
        ends = np.cumsum([len(text) for text in texts])
        self.codes: list[Int64Array] = np.split(coded.indices.to_numpy().astype(np.int64), ends[:-1])

    def numbers_of(self, keys: pa.Array) -> Int64Array:
        """Numbers of the keys that are among these."""
        return np.flatnonzero(pc.is_in(self.keys, keys).to_numpy(zero_copy_only=False))

    def first_of(self, stream: int, among: Bools) -> Int64Array:
        """Number of the first part of each key, among some of a stream's parts; -1 where there is none.

        Args:
            stream: its number.
            among: bool, shape (n,).

        Returns:
            int64, shape (k,).
        """
        first = np.full(len(self.keys), -1, np.int64)
        candidates = np.flatnonzero(among)[::-1]
        first[self.codes[stream][candidates]] = candidates  # of several the last one stays: the first part
        return first


def key_values(keyed: KeyedParts, fact: FactTable, first: Sequence[Int64Array]) -> pa.Table:
    """Values of the key's columns, each key's of the first stream that has a part of it.

    Args:
        keyed: the parts.
        fact: the fact table as rows are made for it.
        first: of each stream, the number of its part for each of m keys, or -1, int64, shape (m,); one at least has.

    Returns:
        shape (m,), with the sources of the fact table's key.
    """
    stacked, offset = np.full(len(first[0]), -1, np.int64), 0
    for each, numbers in zip(keyed.streams, first, strict=True):
        stacked = np.where((stacked < 0) & (numbers >= 0), numbers + offset, stacked)
        offset += each.tuples.num_rows
    columns = {}
    for position, column in enumerate(fact.key):
        values = [
            chunk.cast(column.source_type)
            for each in keyed.streams
            for chunk in each.tuples[each.part.table.key[position].source].chunks
        ]
        columns[column.source] = pa.chunked_array(values, column.source_type).take(pa.array(stacked))
    return pa.table(columns)


def merged_rows(keyed: KeyedParts, fact: FactTable, first: Sequence[Int64Array], batch_no: int) -> pa.Table:
    """Rows of the fact table, each put together of one part of each stream; arguments as of `key_values`.

    Columns of parts that are not there are null.
    """
    rows = key_values(keyed, fact, first)
    happened = []
    for each, numbers in zip(keyed.streams, first, strict=True):
        chosen = pa.array(numbers, mask=numbers < 0)
        own = dict.fromkeys(column.source for column in each.part.filled if column.name not in each.part.latest)
        for source in own:
            if source not in rows.column_names and source != BATCH_NO:
                rows = rows.append_column(source, each.tuples[source].take(chosen))
        happened.append(each.tuples[each.part.event_time].take(chosen))
    if any(column.source == COMPLETED_AT for column in fact.columns):
        latest = pc.max_element_wise(*(times.cast(pa.int64()) for times in happened))
        rows = rows.append_column(COMPLETED_AT, latest.cast(happened[0].type))
    return rows.append_column(BATCH_NO, pa.array(np.full(rows.num_rows, batch_no, np.int64)))


def of_joined_tuple(tuples: pa.Table, part: PartTable) -> pa.Table:
    """A stream's tuples with the names that the joined tuple's columns have; O(1)."""
    own = set(part.event.source_columns)
    return tuples.rename_columns(
        [qualified(part.stream, name) if name in own else name for name in tuples.column_names]
    )


def of_stream(tuples: pa.Table, part: PartTable) -> pa.Table:
    """The way back from `of_joined_tuple`."""
    own = {qualified(part.stream, name): name for name in part.event.source_columns}
    return tuples.rename_columns([own.get(name, name) for name in tuples.column_names])
