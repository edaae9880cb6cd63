"""Places parts: in new rows, in rows that are there, or among those that wait for their row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from psycopg2 import extensions

from spark_jobs.columns.copy_encoding.rows import encode
from spark_jobs.definition.fates import REFUSED, SECOND_PART
from spark_jobs.loading.accumulation.parts import Bools, Int64Array, KeyedParts, key_values, merged_rows
from spark_jobs.loading.accumulation.row_filling import fill
from spark_jobs.loading.fact_storage import StorageMode, store
from spark_jobs.loading.outcome import Rejection
from spark_jobs.loading.refusals import TuplesSuppressedError
from spark_jobs.warehouse.fact_staging import stored_facts
from spark_jobs.warehouse.part_table import AccumulatingTable


@dataclass
class Placement:
    """What became of n parts of one stream; those that are in none of these places are duplicates.

    Attributes:
        joined: parts that are now in a row, bool, shape (n,).
        made: how many of them made one.
        waits: parts that have no row yet, bool, shape (n,).
        rejected: number of each rejected part -> its fate, and why.
    """

    joined: Bools
    waits: Bools
    made: int = 0
    rejected: dict[int, Rejection] = field(default_factory=dict)


def new_keys(cursor: extensions.cursor, table: AccumulatingTable, keyed: KeyedParts, mode: StorageMode) -> Int64Array:
    """Numbers of the keys whose rows are to be made: there is a required part, and no row.

    An optimistic load takes for granted that there is none: storing the rows fails otherwise.
    """
    first = _first_parts(keyed)
    wanted = np.flatnonzero(_with_required(table, first))
    if mode is StorageMode.OPTIMISTIC or not wanted.size:
        return wanted
    values = key_values(keyed, table.rows, [numbers[wanted] for numbers in first])
    return wanted[~stored_facts(cursor, table.rows, values)]


def place(
    cursor: extensions.cursor,
    table: AccumulatingTable,
    keyed: KeyedParts,
    new: Int64Array,
    mode: StorageMode,
    batch_no: int,
) -> list[Placement]:
    """Place the parts of some keys.

    Of several parts of one stream with one key the first is placed, and the others are rejected; the same event
    again is a duplicate.

    Args:
        cursor: in a transaction.
        table: the fact table.
        keyed: all parts that have arrived, and those that have waited for the new keys.
        new: numbers of the keys whose rows are to be made.
        mode: how to store.
        batch_no: of the batch that places them.

    Returns:
        one for each stream.

    Raises:
        LoadBlockedError: PostgreSQL refuses most for one reason.
        psycopg2.Error: it refuses some, or has some already, and the mode does not expect that; or any other error.
    """
    placing = _Placing(cursor, table, keyed, mode, batch_no)
    placing.make_rows(new)
    for stream in range(len(keyed.streams)):
        placing.fill_in(stream)
    return placing.placements


class _Placing:
    def __init__(
        self, cursor: extensions.cursor, table: AccumulatingTable, keyed: KeyedParts, mode: StorageMode, batch_no: int
    ) -> None:
        self._cursor = cursor
        self._table = table
        self._keyed = keyed
        self._mode = mode
        self._batch_no = batch_no
        counts = [each.tuples.num_rows for each in keyed.streams]
        self._open = [np.ones(count, np.bool_) for count in counts]  # parts whose place is not known yet
        self.placements = [Placement(np.zeros(count, np.bool_), np.zeros(count, np.bool_)) for count in counts]

    def make_rows(self, new: Int64Array) -> None:
        """Make the rows of some keys, each of the first parts of all streams."""
        while new.size:
            first = [numbers[new] for numbers in _first_parts(self._keyed, self._open)]
            if self._mode is StorageMode.TUPLE_BY_TUPLE:
                first = self._makers_alone(first)  # what PostgreSQL refuses of a row is not to blame on all its parts
            makers = np.argmax([self._is_required(k) & (numbers >= 0) for k, numbers in enumerate(first)], axis=0)
            rows = merged_rows(self._keyed, self._table.rows, first, self._batch_no)
            encoded = encode(rows, self._table.rows.targets).rows
            made, refused = store(self._cursor, self._table.rows, rows, encoded, self._mode)
            for stream, numbers in enumerate(first):
                self._join(stream, numbers[made & (numbers >= 0)])
                self.placements[stream].made += int(np.count_nonzero(made & (makers == stream)))
            for row, refusal in refused.items():
                stream = int(makers[row])
                self._reject(stream, int(first[stream][row]), Rejection(REFUSED, refusal.reason))
            # Another part may make the row of a key whose first one was refused.
            left = np.zeros(len(self._keyed.keys), np.bool_)
            left[new[list(refused)]] = True
            new = np.flatnonzero(left & _with_required(self._table, _first_parts(self._keyed, self._open)))

    def fill_in(self, stream: int) -> None:
        """Fill the parts of a stream into rows that are there; those without a row wait."""
        each, placement = self._keyed.streams[stream], self.placements[stream]
        codes = self._keyed.codes[stream]
        self._settle_others(stream)
        while self._open[stream].any():
            first = self._keyed.first_of(stream, self._open[stream])
            numbers = np.sort(first[first >= 0])
            found = fill(self._cursor, each.part, each.tuples.take(pa.array(numbers)), self._mode)
            self._join(stream, numbers[found.filled])
            if each.part.required and found.no_row.any():
                raise TuplesSuppressedError("its row went away while it was to be filled in")
            rows = np.array(list(found.there), np.int64)
            ids = each.event_ids(numbers[rows]) if rows.size else []
            for row, event_id in zip(rows.tolist(), ids, strict=True):
                self._compare(stream, int(numbers[row]), event_id, found.there[row])
            waits = np.zeros(len(self._keyed.keys), np.bool_)
            waits[codes[numbers[found.no_row]]] = True
            for row, refusal in found.refused.items():
                self._reject(stream, int(numbers[row]), Rejection(REFUSED, refusal.reason))
            self._wait(stream, np.flatnonzero(self._open[stream] & waits[codes]))
            self._settle_others(stream, {int(codes[numbers[row]]): text for row, text in found.there.items()})
        assert not (placement.joined & placement.waits).any()

    def _settle_others(self, stream: int, there: dict[int, str] | None = None) -> None:
        """Compare open parts with the one of their key that has been placed in this transaction, or is `there`."""
        each, codes = self._keyed.streams[stream], self._keyed.codes[stream]
        placed = self._keyed.first_of(stream, self.placements[stream].joined)
        known = placed >= 0
        if there:
            known[list(there)] = True
        numbers = np.flatnonzero(self._open[stream] & known[codes])
        if not numbers.size:
            return
        first = placed[codes[numbers]]
        texts = dict(zip(first.tolist(), each.event_ids(np.maximum(first, 0)), strict=True))
        for number, event_id in zip(numbers.tolist(), each.event_ids(numbers), strict=True):
            code = int(codes[number])
            text = texts[int(placed[code])] if placed[code] >= 0 else (there or {})[code]
            self._compare(stream, number, event_id, text)

    def _compare(self, stream: int, number: int, event_id: str, there: str) -> None:
        """Settle a part whose row has one of its stream already: it is the same, or one too many."""
        self._open[stream][number] = False
        if event_id != there:
            name = self._keyed.streams[stream].part.stream
            reason = f"a second part of {name} for one key: the fact has {there} already"
            self.placements[stream].rejected[number] = Rejection(SECOND_PART, reason)

    def _join(self, stream: int, numbers: Int64Array) -> None:
        self.placements[stream].joined[numbers] = True
        self._open[stream][numbers] = False

    def _wait(self, stream: int, numbers: Int64Array) -> None:
        self.placements[stream].waits[numbers] = True
        self._open[stream][numbers] = False

    def _reject(self, stream: int, number: int, why: Rejection) -> None:
        self.placements[stream].rejected[number] = why
        self._open[stream][number] = False

    def _is_required(self, stream: int) -> bool:
        return self._table.parts[stream].required

    def _makers_alone(self, first: Sequence[Int64Array]) -> list[Int64Array]:
        """Of each key only the first required part."""
        alone, free = [], np.ones(len(first[0]), np.bool_)
        for stream, numbers in enumerate(first):
            mine = free & (numbers >= 0) & self._is_required(stream)
            alone.append(np.where(mine, numbers, -1))
            free &= ~mine
        return alone


def _first_parts(keyed: KeyedParts, among: Sequence[Bools] | None = None) -> list[Int64Array]:
    """Of each stream the first part of each key, -1 where there is none; of all parts, or of some."""
    return [
        keyed.first_of(stream, np.ones(each.tuples.num_rows, np.bool_) if among is None else among[stream])
        for stream, each in enumerate(keyed.streams)
    ]


def _with_required(table: AccumulatingTable, first: Sequence[Int64Array]) -> Bools:
    """Which keys have a required part, bool, shape (k,)."""
    there: Bools = np.any([numbers >= 0 for part, numbers in zip(table.parts, first, strict=True) if part.required], 0)
    return there
