"""Brings landed events into a temporary table of the warehouse, where they are compared with what is stored."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.columns.arrow_buffers import single_array
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.ddl import StreamType

LANDED_TABLE = "landed"
LANDED = sql.Identifier("pg_temp", LANDED_TABLE)
COPY_ROWS = 65_536
NO_RANGE = np.iinfo(np.int64).max
"""In the place of a range's number: no range was loaded that has the record."""

POSTGRES_TYPES = {
    "bigint": "int8", "int": "int4", "smallint": "int2", "tinyint": "int2", "float": "float4", "double": "float8",
    "decimal": "numeric", "boolean": "bool", "string": "text", "date": "date", "timestamp": "timestamptz",
    "binary": "bytea",
}  # fmt: skip
"""Stream type -> the PostgreSQL type that holds all its values, but for the few that no type of PostgreSQL holds."""


@dataclass(frozen=True)
class StagedColumn:
    """A source column in the temporary table: `name` there, and its PostgreSQL type."""

    name: str
    type: str


@dataclass(frozen=True)
class StagedEvents:
    """Events on their way into the temporary table.

    Attributes:
        values: the staged columns of the schema, shape (n,).
        event_ids: text of the event id, shape (n,); null where the record can't be decoded or has no usable id.
        raw_ids: id that is the record's digest, shape (n,); null where the record is known by its event id.
        raw_held: bool, shape (n,): whether a tuple is held under that digest.
        sound: bool, shape (n,): whether the record could be decoded.
        records: int64, shape (n,): the code of the record's bytes; null where it is certainly not held.
        objects: int64, shape (n,): the code of its columns as an object; null where it need not be compared.
    """

    values: pa.Table
    event_ids: pa.Array
    raw_ids: pa.Array
    raw_held: pa.Array
    sound: NDArray[np.bool_]
    records: pa.Array
    objects: pa.Array


class FindsStagedColumns(Protocol):
    """Knows where the columns of tuples are found in a temporary table."""

    def column(self, source_column: str) -> StagedColumn:
        """Where a column is found."""


class Staging:
    """A temporary table with one row for each landed record.

    Its columns: `file` (number of the file), `range_id` (of the ledger's range that the record was loaded with first,
    or null) and `position` (of the record in its file), `pending` (no committed batch has read the record), `event_id`
    and `raw_id` (texts as in freshet.held_tuple), `raw_held`, `loadable` (the record can be a fact), `record` and
    `object` (codes), and the source columns that the facts need, under the names that `column` gives.

    Args:
        cursor: in a transaction, whose end drops the table.
        table: its name.
        columns: the columns of the events that are staged, with their types.
        loaded: those of them that facts have.

    Attributes:
        table: SQL name of the table.
    """

    def __init__(
        self, cursor: extensions.cursor, table: str, columns: Mapping[str, StreamType], loaded: Collection[str]
    ) -> None:
        self._cursor = cursor
        self._loaded = loaded
        self._types = dict(columns)
        self._names = {name: f"value_{number}" for number, name in enumerate(self._types)}
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        values = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(self._names[name]), sql.SQL(POSTGRES_TYPES[kind.name]))
            for name, kind in self._types.items()
        )
        self.table = sql.Identifier("pg_temp", table)
        cursor.execute(
            sql.SQL(
                "CREATE TEMPORARY TABLE {} (file integer NOT NULL, pending boolean NOT NULL, event_id text, "
                "raw_id text, raw_held boolean NOT NULL, loadable boolean NOT NULL, record bigint, object bigint, "
                "range_id bigint, position bigint NOT NULL, {}) "
                "ON COMMIT DROP"
            ).format(sql.Identifier(table), values)
        )

    @property
    def columns(self) -> list[str]:
        """The source columns that are staged."""
        return list(self._types)

    def column(self, source_column: str) -> StagedColumn:
        """Where a source column is found."""
        return StagedColumn(self._names[source_column], POSTGRES_TYPES[self._types[source_column].name])

    def add(
        self,
        file: int,
        pending: NDArray[np.bool_],
        events: StagedEvents,
        ranges: NDArray[np.int64],
        positions: NDArray[np.int64],
    ) -> None:
        """Bring in n events of one file; they may wait in memory until `COPY_ROWS` are together.

        Args:
            file: its number.
            pending: shape (n,).
            events: the events.
            ranges: shape (n,): numbers of the ranges that they were loaded with, or NO_RANGE.
            positions: shape (n,): where they are in the file.
        """
        count = events.values.num_rows
        if not count:
            return
        loadable = events.sound & events.event_ids.is_valid().to_numpy(zero_copy_only=False)
        columns = []
        for name, kind in self._types.items():
            values, storable = _as_copied(single_array(events.values[name]), kind)
            if name in self._loaded and storable is not None:
                loadable &= storable
            columns.append(values)
        fixed = [
            pa.array(np.full(count, file, np.int32)),
            pa.array(pending),
            events.event_ids,
            events.raw_ids,
            events.raw_held,
            pa.array(loadable),
            events.records,
            events.objects,
            pa.array(ranges, mask=ranges == NO_RANGE),
            pa.array(positions, pa.int64()),
        ]
        names = ["file", "pending", "event_id", "raw_id", "raw_held", "loadable", "record", "object"]
        names += ["range_id", "position"]
        self._waiting.append(pa.table([*fixed, *columns], names=[*names, *self._names.values()]))
        self._waiting_rows += count
        if self._waiting_rows >= COPY_ROWS:
            self._copy()

    def discard(self, file: int) -> None:
        """Take back what was added of a file."""
        self._copy()
        self._cursor.execute(sql.SQL("DELETE FROM {} WHERE file = %s").format(self.table), [file])

    def finish(self) -> None:
        """Bring in what still waits, and let the planner know the table."""
        self._copy()
        self._cursor.execute(sql.SQL("ANALYZE {}").format(self.table))

    def _copy(self) -> None:
        if self._waiting:
            copy_in(self._cursor, self.table, pa.concat_tables(self._waiting))
            self._waiting.clear()
            self._waiting_rows = 0


def needed_columns(definition: PipelineDefinition) -> dict[str, StreamType]:
    """The columns of stream tuples that facts and lookups are made of."""
    source = definition.source
    needed = {*loaded_columns(definition), *(column for lookup in definition.lookups for column in lookup.on)}
    if any(lookup.as_of for lookup in definition.lookups):
        needed.add(source.event_time)
    return {name: kind for name, kind in source.columns.items() if name in needed}


def loaded_columns(definition: PipelineDefinition) -> set[str]:
    """The columns of stream tuples, and outputs of lookups, that facts have."""
    return {*definition.source.event_id, *definition.fact.columns.values()}


def copy_in(cursor: extensions.cursor, table: sql.Identifier, rows: pa.Table) -> None:
    """Copy rows into a temporary table whose columns are those of the rows, in their order."""
    text = io.BytesIO()
    pa.csv.write_csv(rows, text, pa.csv.WriteOptions(include_header=False))
    text.seek(0)
    cursor.copy_expert(sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(table), text)


def _as_copied(values: pa.Array, kind: StreamType) -> tuple[pa.Array, NDArray[np.bool_] | None]:
    """Values as COPY takes them, null where PostgreSQL can't hold them, and where it can; None: it can all."""
    match kind.name:
        case "string":
            storable = _storable_text(values)
            return _nulled(values, storable), storable
        case "binary":
            return pa.array([None if value is None else "\\x" + value.hex() for value in values.to_pylist()]), None
        case _:
            return values, None


def _storable_text(values: pa.StringArray) -> NDArray[np.bool_] | None:
    """Where texts are UTF-8 without NUL; None if all are."""
    try:
        values.validate(full=True)
        storable = pc.invert(pc.match_substring(values, "\0")).fill_null(True)
    except pa.ArrowInvalid:
        storable = pa.array([_is_text(value) for value in values.view(pa.binary()).to_pylist()])
    return _unless_all(storable.to_numpy(zero_copy_only=False))


def _is_text(value: bytes | None) -> bool:
    try:
        return value is None or "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def _unless_all(storable: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    return None if storable.all() else storable


def _nulled(values: pa.Array, storable: NDArray[np.bool_] | None) -> pa.Array:
    return values if storable is None else pc.if_else(pa.array(storable), values, None)
