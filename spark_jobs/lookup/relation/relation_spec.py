"""What a lookup needs of a relation: its key, the columns it fetches, and the indexes that it is read by."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import single_array
from spark_jobs.columns.copy_decoding.column_types import ColumnType
from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.columns.keys.values import KeyKind, key_values
from spark_jobs.lookup.relation.relation_rows import versions_schema

_BITS = {"int2": 16, "int4": 32}


@dataclass(frozen=True)
class KeyColumn:
    """One column of the join key.

    Attributes:
        stream: column of the stream.
        name: column of R that it equals.
        kind: how the two compare.
        type: how R's column is read.
        lookup_collation: collation, (schema, name), that a lookup names so that it can use its index; None: the
            column's own.
        page_collation: the same for reading pages.
        nullable: whether R may hold nulls, which no key equals.
    """

    stream: str
    name: str
    kind: KeyKind
    type: ColumnType
    lookup_collation: tuple[str, str] | None = None
    page_collation: tuple[str, str] | None = None
    nullable: bool = False

    def could_hold(self, values: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
        """Where R's column could hold an equal value, bool, shape (n,); never one that equals null.

        Args:
            values: of the stream, shape (n,), of a type that the column's kind accepts.
        """
        _, valid = key_values(values, self.kind)
        fits = self.in_range(values)
        return valid if fits is None else valid & fits

    def in_range(self, values: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_] | None:
        """Where R's column is wide enough for integers, bool, shape (n,); None where it is for all of their type."""
        bits = _BITS.get(self.type.postgres)
        if bits is None or values.type.bit_width <= bits:
            return None
        numbers = single_array(values).fill_null(0).to_numpy()
        return (numbers >= -(1 << bits - 1)) & (numbers < 1 << bits - 1)


@dataclass(frozen=True)
class FetchedColumn:
    """One column of R that stream tuples get: under the name `output`, from R's column `name`."""

    output: str
    name: str
    type: ColumnType


@dataclass(frozen=True)
class ValidityColumn:
    """A column of R that says from when, or until when, a version is valid: a timestamptz, a timestamp or a date."""

    name: str
    type: ColumnType


@dataclass(frozen=True)
class Validity:
    """The time for which each version of a tuple of R is valid.

    Attributes:
        begin: when it begins; a version without is never valid.
        end: when it has ended, this moment not included; null: it has not.
    """

    begin: ValidityColumn
    end: ValidityColumn


@dataclass(frozen=True)
class RelationSpec:
    """A relation as one lookup uses it. Made by `catalog.describe_relation`. Pickles.

    Attributes:
        schema: its schema.
        table: its name in the schema.
        key: columns of the join key, in the order of the index that pages are read by.
        fetched: columns that are fetched.
        validity: of a relation that keeps every version of its tuples; None for one that has a row for each key.
            With it a tuple of R is a key with all its versions.
        versions_per_key: rows of the table that make a tuple of R, on average.
        row_count: tuples of R, as far as the catalog knows.
        tuple_bytes: memory of one tuple's key, code and fetched columns on average, in bytes.
        page_refusal: why pages of R can't be read, and what to do; None where they can.
        declared: the types of its columns, as `declared_types` has them; None where they are not known.
    """

    schema: str
    table: str
    key: tuple[KeyColumn, ...]
    fetched: tuple[FetchedColumn, ...]
    validity: Validity | None = None
    versions_per_key: float = 1.0
    row_count: int = 0
    tuple_bytes: int = 0
    page_refusal: str | None = None
    declared: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that a read returns, in its order; one may come twice."""
        validity = () if self.validity is None else (self.validity.begin.name, self.validity.end.name)
        return (*(column.name for column in self.key), *validity, *(column.name for column in self.fetched))

    @property
    def relation(self) -> str:
        """The name to show: schema.table."""
        return f"{self.schema}.{self.table}"

    @property
    def stream_columns(self) -> tuple[str, ...]:
        """Columns of the stream that make the key, in the key's order."""
        return tuple(column.stream for column in self.key)

    def stream_keys(self, tuples: pa.Table) -> KeyColumns:
        """The join keys of stream tuples, shape (n,); valid where R can have the key."""
        keys = KeyColumns.encode([tuples[column] for column in self.stream_columns], self.key_kinds)
        ranges = (column.in_range(tuples[column.stream]) for column in self.key)
        narrow = [fits for fits in ranges if fits is not None]
        return replace(keys, valid=np.logical_and.reduce([keys.valid, *narrow])) if narrow else keys

    @property
    def key_kinds(self) -> tuple[KeyKind, ...]:
        """Kind of each key column."""
        return tuple(column.kind for column in self.key)

    @property
    def key_types(self) -> tuple[pa.DataType, ...]:
        """Arrow type of each key column of R, as it is read."""
        return tuple(column.type.arrow for column in self.key)

    @property
    def fetched_schema(self) -> pa.Schema:
        """Output names and Arrow types of the fetched columns."""
        return pa.schema([(column.output, column.type.arrow) for column in self.fetched])

    @property
    def rows_schema(self) -> pa.Schema:
        """What is kept of R's tuples besides their keys: the fetched columns, or one column of all their versions."""
        return self.fetched_schema if self.validity is None else versions_schema(self.fetched_schema)

    @property
    def read_types(self) -> tuple[ColumnType, ...]:
        """Types of what every read of R returns: the key columns, those of the validity, then the fetched ones."""
        validity = () if self.validity is None else (self.validity.begin.type, self.validity.end.type)
        return (*(column.type for column in self.key), *validity, *(column.type for column in self.fetched))

    def table_rows(self, tuples: int) -> int:
        """Rows of the table that make up this many tuples of R, on average."""
        return round(tuples * self.versions_per_key)
