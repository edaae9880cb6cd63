"""Tuples of R in memory: their join keys and fetched columns, of each version where R keeps versions (SCD2).

Joins want each key once in R. So what they carry around, cache and count is the key with the list of its versions; the
one that was valid when an event happened is picked when its columns are fetched. The column of such tuples is

    versions: list<struct<begin: int64, end: int64, fetched: struct<the fetched columns>>>

a key's versions ascending by `begin`; begin and end in microseconds since 1970 UTC. A timestamp without a zone is taken
as UTC, a date as the start of its day in UTC. Of versions that overlap the one that began last is picked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import single_array
from spark_jobs.columns.jit import kernel, read_only
from spark_jobs.columns.keys.key_columns import KeyColumns

if TYPE_CHECKING:
    from spark_jobs.lookup.relation.relation_spec import RelationSpec

_VERSIONS = "versions"
_BEGIN, _END, _FETCHED = range(3)
_NEVER = np.iinfo(np.int64).max
_DAY = 86_400_000_000  # microseconds
_LAST_DAY = _NEVER // _DAY


@dataclass(frozen=True, eq=False)
class RelationRows:
    """n tuples of R.

    Attributes:
        keys: their join keys, shape (n,), all valid.
        columns: the fetched columns under their output names, n rows; of a relation with a validity one column, which
            holds the versions of each tuple (`versions`).
    """

    keys: KeyColumns
    columns: pa.Table

    @classmethod
    def empty(cls, spec: RelationSpec) -> RelationRows:
        """No tuples of a relation."""
        keys = KeyColumns.encode([pa.array([], kind) for kind in spec.key_types], spec.key_kinds)
        return cls(keys, spec.rows_schema.empty_table())

    @classmethod
    def null(cls, spec: RelationSpec) -> RelationRows:
        """One tuple of nulls: what a tuple takes at least."""
        return rows_of([pa.nulls(1, kind.arrow) for kind in spec.read_types], spec)

    @classmethod
    def concatenate(cls, parts: Sequence[RelationRows]) -> RelationRows:
        """The tuples of all parts, one after the other, in one chunk per column; at least one part."""
        if len(parts) == 1:
            return parts[0]
        columns = pa.concat_tables([part.columns for part in parts]).combine_chunks()
        return cls(KeyColumns.concatenate([part.keys for part in parts]), columns)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Memory of keys and columns, in bytes."""
        return self.keys.nbytes + self.columns.nbytes

    def take(self, indices: NDArray[np.int64]) -> RelationRows:
        """The tuples at these positions, int64 (k,)."""
        return RelationRows(self.keys.take(indices), self.columns.take(pa.array(indices)))

    def with_unique_codes(self) -> RelationRows:
        """The tuples whose codes differ, as joins want them: of those that share a hash code, the first.

        Confirming matches by the real keys shows that a tuple was left out, which is then looked up alone.
        """
        if self.keys.encoded is None:
            return self
        _, first = np.unique(self.keys.codes, return_index=True)
        return self if len(first) == len(self) else self.take(np.sort(first))


def rows_of(columns: Sequence[pa.Array], spec: RelationSpec) -> RelationRows:
    """Tuples of R from the columns that every read of R returns, each of shape (n,).

    Of a relation with a validity, whose rows are versions, the rows of a key become one tuple of R. O(n log n) then.
    """
    width = len(spec.key)
    keys = KeyColumns.encode(columns[:width], spec.key_kinds)
    if spec.validity is None:
        return RelationRows(keys, pa.table(list(columns[width:]), schema=spec.fetched_schema))
    begins, ends, *fetched = columns[width:]
    first, versions = versions_by_key(keys, begins, ends, pa.table(fetched, schema=spec.fetched_schema))
    return RelationRows(keys.take(first), pa.table([versions], schema=spec.rows_schema))


def versions_schema(fetched: pa.Schema) -> pa.Schema:
    """The one column that holds the versions of tuples with these fetched columns."""
    version = pa.struct([("begin", pa.int64()), ("end", pa.int64()), ("fetched", pa.struct(list(fetched)))])
    return pa.schema([(_VERSIONS, pa.list_(version))])


def versions_by_key(
    keys: KeyColumns, begins: pa.Array, ends: pa.Array, fetched: pa.Table
) -> tuple[NDArray[np.int64], pa.ListArray]:
    """Gather the versions of each key.

    Args:
        keys: shape (n,), one for each version, in any order.
        begins: shape (n,), when each version begins: timestamps or dates; null: never.
        ends: the same for when it has ended; null: never.
        fetched: n rows.

    Returns:
        int64, shape (k,): where each of the k different keys occurs first, ascending; and their versions, shape (k,).
        O(n log n).
    """
    values = pa.array(keys.codes) if keys.encoded is None else keys.encoded
    numbers = values.dictionary_encode().indices.to_numpy()  # keys are numbered as they occur
    starts = _instants(begins)
    order = np.lexsort((starts, numbers))
    counts = np.bincount(numbers)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    _, first = np.unique(numbers, return_index=True)
    names = ["begin", "end", "fetched"]
    version = [pa.array(starts), pa.array(_instants(ends)), _struct(fetched)]
    versions = pa.StructArray.from_arrays(version, names).take(pa.array(order))
    return first.astype(np.int64), pa.ListArray.from_arrays(pa.array(offsets), versions)


def fetched_at(columns: pa.Table, rows: NDArray[np.int64], times: pa.Array) -> tuple[pa.Table, NDArray[np.bool_]]:
    """The fetched columns of the versions that were valid at some times.

    Args:
        columns: tuples of R with their versions.
        rows: int64, shape (n,), which of them each stream tuple has found; negative: none.
        times: timestamps in microseconds, shape (n,), the time of each; null: unknown, so that no version is valid.

    Returns:
        n rows, null where no version was valid; and bool, shape (n,): where one was. O(n log versions of a key), but
        for versions that have ended before others began, through which a time in no version's validity is sought.
    """
    versions = single_array(columns[_VERSIONS])
    instants = times.cast(pa.int64())
    known = np.where(instants.is_valid().to_numpy(zero_copy_only=False), rows, -1)
    picked = np.empty(len(rows), np.int64)
    _pick(
        read_only(versions.offsets.to_numpy()),
        read_only(versions.values.field(_BEGIN).to_numpy()),
        read_only(versions.values.field(_END).to_numpy()),
        read_only(known),
        read_only(instants.fill_null(0).to_numpy()),
        picked,
    )
    valid = picked >= 0
    found = versions.values.field(_FETCHED).take(pa.array(picked, mask=~valid))
    return pa.Table.from_struct_array(found), valid


def _instants(times: pa.Array) -> NDArray[np.int64]:
    """Microseconds since 1970, shape (n,). The last one of all stands for null, and for infinity."""
    if pa.types.is_date32(times.type):
        days = times.view(pa.int32()).fill_null(np.iinfo(np.int32).max).to_numpy().astype(np.int64)
        instants = np.clip(days, -_LAST_DAY, _LAST_DAY) * _DAY
        instants[days > _LAST_DAY] = _NEVER
        return instants
    return times.cast(pa.int64()).fill_null(_NEVER).to_numpy()


def _struct(table: pa.Table) -> pa.StructArray:
    arrays = [single_array(table[name]) for name in table.column_names]
    return pa.StructArray.from_arrays(arrays, fields=list(table.schema))


@kernel
def _pick(
    offsets: NDArray[np.int32],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    rows: NDArray[np.int64],
    times: NDArray[np.int64],
    picked: NDArray[np.int64],
) -> None:
    for index in range(len(rows)):
        picked[index] = -1
        if rows[index] < 0:
            continue
        first, time = offsets[rows[index]], times[index]
        low, high = first, offsets[rows[index] + 1]
        while low < high:
            middle = (low + high) // 2
            if begins[middle] <= time:
                low = middle + 1
            else:
                high = middle
        version = low - 1  # the last one that has begun
        while version >= first and ends[version] <= time:
            version -= 1
        if version >= first:
            picked[index] = version
