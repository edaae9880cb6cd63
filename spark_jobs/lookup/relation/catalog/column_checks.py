"""Checks the columns that a lookup names: that R has them, that they can be read, that they fit the stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import pyarrow as pa

from spark_jobs.columns.copy_decoding.column_types import READABLE_TYPES, UUID_KEY, column_type
from spark_jobs.columns.keys.values import KEY_KINDS, KeyKind
from spark_jobs.lookup.relation.catalog.columns import CatalogColumn
from spark_jobs.lookup.relation.relation_spec import FetchedColumn, KeyColumn, Validity, ValidityColumn

_TIMES = ("timestamptz", "timestamp", "date")


class ColumnChecks:
    """Makes the columns of a spec, and gathers what is wrong with them.

    Args:
        columns: R's columns.
        stream_types: Arrow type of each column of the stream.

    Attributes:
        problems: one sentence for each problem found so far.
    """

    def __init__(self, columns: Mapping[str, CatalogColumn], stream_types: Mapping[str, pa.DataType]) -> None:
        self._columns = columns
        self._stream_types = stream_types
        self.problems: list[str] = []

    def key_columns(self, on: Mapping[str, str]) -> Iterable[KeyColumn]:
        """The sound ones of the columns that the stream is joined on."""
        for stream, name in on.items():
            column = self._column(name)
            if column is not None and self._can_be_joined(stream, name, column):
                kind = KEY_KINDS[column.type]
                read = UUID_KEY if kind is KeyKind.UUID else column_type(column.type, column.modifier)
                assert read is not None, f"{column.type} is a key's type that can't be read"
                yield KeyColumn(stream, name, kind, read, nullable=column.nullable)

    def fetched_columns(self, fetch: Mapping[str, str]) -> Iterable[FetchedColumn]:
        """The sound ones of the columns that are fetched."""
        for output, name in fetch.items():
            column = self._column(name)
            if column is None:
                continue
            read = column_type(column.type, column.modifier)
            if read is None:
                self.problems.append(
                    f"column {name} is {column.declared}, which can't be fetched; "
                    f"what can: {', '.join(READABLE_TYPES)}, with a precision of 38 at most"
                )
            else:
                yield FetchedColumn(output, name, read)

    def validity(self, names: tuple[str, str] | None) -> Validity | None:
        """The columns from when and until when a version is valid; None if there are none, or they are not sound."""
        sound = [column for name in names or () if (column := self._validity_column(name)) is not None]
        return Validity(*sound) if len(sound) == 2 else None

    def _validity_column(self, name: str) -> ValidityColumn | None:
        column = self._column(name)
        if column is None:
            return None
        read = column_type(column.type, column.modifier) if column.type in _TIMES else None
        if read is None:
            self.problems.append(
                f"column {name} is {column.declared}; the validity of versions can be timestamptz, timestamp or date"
            )
            return None
        return ValidityColumn(name, read)

    def _column(self, name: str) -> CatalogColumn | None:
        column = self._columns.get(name)
        if column is None:
            hint = suggestion(name, list(self._columns)) or f"It has {', '.join(self._columns)}."
            self.problems.append(f"the relation has no column {name}. {hint}")
        elif not column.readable:
            self.problems.append(f"column {name} may not be read by this user: GRANT SELECT on it")
        return column

    def _can_be_joined(self, stream: str, name: str, column: CatalogColumn) -> bool:
        kind, stream_type = KEY_KINDS.get(column.type), self._stream_types.get(stream)
        if kind is None:
            problem = (
                f"column {name} is {column.declared}; "
                "a key can be bigint, integer, smallint, date, text, varchar, char or uuid"
            )
        elif stream_type is None:
            problem = f"the stream has no column {stream}; it has {', '.join(self._stream_types)}"
        elif not kind.accepts(stream_type):
            problem = (
                f"column {name} is {column.declared}, but the stream's {stream} is {stream_type}; "
                f"declare it as {kind.stream_types} in the source's schema"
            )
        elif column.collation is not None and not column.collation.deterministic:
            problem = (
                f"column {name} has a nondeterministic collation, under which different texts are equal; "
                "join on a column with a deterministic one"
            )
        else:
            return True
        self.problems.append(problem)
        return False


def suggestion(name: str, names: list[str]) -> str | None:
    """A question whether one of these names was meant, if one is close."""
    close = [other for other in names if other.lower() == name.lower()] or get_close_matches(name, names, 1)
    return f"Did you mean {close[0]}?" if close else None
