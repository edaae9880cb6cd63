"""The plain SQL join of the landed events with R: what each fact should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from psycopg2 import extensions, sql

from spark_jobs.errors import SchemaMismatchError
from spark_jobs.pipeline.definition import Lookup, PipelineDefinition
from spark_jobs.warehouse.proof_staging import LANDED, Staging

_TEXTS = frozenset({"text", "varchar", "bpchar", "name"})
_UUID_DIGITS = "([0-9a-f]{4}-?){7}[0-9a-f]{4}"
_UUID = sql.Literal(rf"^({_UUID_DIGITS}|\{{{_UUID_DIGITS}\}})$")

# Casting a text that is no JSON would end the proof.
_CREATE_JSON_READER = """
    CREATE FUNCTION pg_temp.jsonb_or_null(value text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN RETURN value::jsonb; EXCEPTION WHEN data_exception THEN RETURN NULL; END $$
"""


@dataclass(frozen=True)
class Expected:
    """What one column of the fact should be.

    Attributes:
        column: of the fact table.
        value: SQL of its expected value, over `landed` and the relations.
        type: PostgreSQL's name of the column's type.
    """

    column: str
    value: sql.Composable
    type: str

    @property
    def stored(self) -> sql.Composable:
        """SQL of the stored value, over `fact`, in the form in which it is compared."""
        stored = sql.SQL("fact.{}").format(sql.Identifier(self.column))
        return sql.SQL("{}::text").format(stored) if self.type == "json" else stored


class JoinedEvents:
    """SQL of the plain join: its tables, its conditions, and the facts that follow from it.

    `landed` is the staged event, `fact` the stored fact, `relation_<n>` the tuple of R of lookup n.

    Args:
        cursor: to read the catalog with.
        definition: the pipeline.
        staging: the landed events.

    Raises:
        SchemaMismatchError: a table or a column that the pipeline names does not exist.
    """

    def __init__(self, cursor: extensions.cursor, definition: PipelineDefinition, staging: Staging) -> None:
        self._definition = definition
        self._staging = staging
        self._relation_types = [
            column_types(cursor, lookup.relation, [*lookup.on.values(), *lookup.fetch.values()])
            for lookup in definition.lookups
        ]
        cursor.execute(_CREATE_JSON_READER)
        fact = definition.fact
        self.fact_types = column_types(cursor, fact.table, list(fact.columns))
        self.fact_table = table_identifier(fact.table)
        self.expected = [
            Expected(column, self._value(source, self.fact_types[column]), self.fact_types[column])
            for column, source in fact.columns.items()
        ]
        self.key_columns = [
            next(column for column, source in fact.columns.items() if source == part)
            for part in definition.source.event_id
        ]

    @property
    def key_types(self) -> dict[str, str]:
        """Column of the event id -> PostgreSQL's name of the type that it has in the fact table."""
        return {
            part: self.fact_types[column]
            for part, column in zip(self._definition.source.event_id, self.key_columns, strict=True)
        }

    @property
    def stored_key(self) -> sql.Composable:
        """SQL: the key's columns of `fact`, separated by commas."""
        return sql.SQL(", ").join(sql.SQL("fact.{}").format(sql.Identifier(column)) for column in self.key_columns)

    @property
    def same_key(self) -> sql.Composable:
        """SQL: the event of `landed` has the key of `fact`."""
        keys = [expected for expected in self.expected if expected.column in self.key_columns]
        return sql.SQL(" AND ").join(sql.SQL("{} = {}").format(key.stored, key.value) for key in keys)

    @property
    def same_values(self) -> sql.Composable:
        """SQL: all columns of `fact` are what the join makes of `landed`; nulls are equal, and so are NaNs."""
        return sql.SQL(" AND ").join(self.differs(expected, negated=True) for expected in self.expected)

    @staticmethod
    def differs(expected: Expected, *, negated: bool = False) -> sql.Composable:
        """SQL: the column is not what it should be."""
        comparison = sql.SQL("IS NOT DISTINCT FROM" if negated else "IS DISTINCT FROM")
        return sql.SQL("({} {} {})").format(expected.stored, comparison, expected.value)

    def tables(self, *, outer: bool = False) -> sql.Composable:
        """SQL for FROM: `landed` joined with every relation.

        Args:
            outer: keep events whose key is not in R, whatever the lookup does with them.
        """
        joins = [
            sql.SQL(" {} JOIN {} AS {} ON {}").format(
                sql.SQL("LEFT" if outer or not isinstance(lookup.on_unmatched, str) else "INNER"),
                table_identifier(lookup.relation),
                self._alias(number),
                self._same_join_key(number, lookup),
            )
            for number, lookup in enumerate(self._definition.lookups)
        ]
        return sql.SQL("{} AS landed{}").format(LANDED, sql.SQL("").join(joins))

    def unmatched(self) -> Iterator[tuple[str, sql.Composable]]:
        """For each lookup without defaults: what it means that R has no tuple, and SQL that is true then (`outer`)."""
        for number, lookup in enumerate(self._definition.lookups):
            if isinstance(lookup.on_unmatched, str):
                keys = ", ".join(lookup.on.values())
                yield f"{lookup.relation} has no tuple with its {keys}", sql.SQL("NOT {}").format(self._matched(number))

    @staticmethod
    def _alias(number: int) -> sql.Identifier:
        return sql.Identifier(f"relation_{number}")

    def _same_join_key(self, number: int, lookup: Lookup) -> sql.Composable:
        types = self._relation_types[number]
        return sql.SQL(" AND ").join(
            sql.SQL("{}.{} = {}").format(
                self._alias(number), sql.Identifier(column), self._source_value(source, types[column])
            )
            for source, column in lookup.on.items()
        )

    def _matched(self, number: int) -> sql.Composable:
        first = next(iter(self._definition.lookups[number].on.values()))  # a key that has matched is not null
        return sql.SQL("({}.{} IS NOT NULL)").format(self._alias(number), sql.Identifier(first))

    def _value(self, source: str, wanted: str) -> sql.Composable:
        """SQL of a tuple's column, comparable with a column of the fact table of type `wanted`."""
        for number, lookup in enumerate(self._definition.lookups):
            if source in lookup.fetch:
                return self._fetched_value(number, lookup, source, wanted)
        return self._source_value(source, wanted)

    def _source_value(self, source: str, wanted: str) -> sql.Composable:
        staged = self._staging.column(source)
        return _comparable(sql.SQL("landed.{}").format(sql.Identifier(staged.name)), staged.type, wanted)

    def _fetched_value(self, number: int, lookup: Lookup, output: str, wanted: str) -> sql.Composable:
        column = lookup.fetch[output]
        kind = self._relation_types[number][column]
        value: sql.Composable = sql.SQL("{}.{}").format(self._alias(number), sql.Identifier(column))
        if not isinstance(lookup.on_unmatched, str):
            default = _literal(lookup.on_unmatched.default[output], kind)
            value = sql.SQL("(CASE WHEN {} THEN {} ELSE {} END)").format(self._matched(number), value, default)
        return _comparable(value, kind, wanted)


def table_identifier(table: str) -> sql.Identifier:
    """`schema.table` for use in SQL."""
    return sql.Identifier(*table.split(".", 1))


def column_types(cursor: extensions.cursor, table: str, columns: list[str]) -> dict[str, str]:
    """PostgreSQL's internal names of the columns' types: int8, numeric, timestamptz, ...

    Raises:
        SchemaMismatchError: the table or a column does not exist.
    """
    cursor.execute(
        """
        SELECT attribute.attname, type.typname
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        JOIN pg_attribute AS attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
        JOIN pg_type AS type ON type.oid = atttypid
        WHERE nspname = %s AND relname = %s
        """,
        table.split(".", 1),
    )
    found = dict(cursor.fetchall())
    if not found:
        raise SchemaMismatchError(f"There is no table {table} in the warehouse; create it, or name another.")
    missing = [column for column in columns if column not in found]
    if missing:
        raise SchemaMismatchError(
            f"{table} has no column {', '.join(missing)}; add it, or name another. Columns: {', '.join(found)}."
        )
    return {column: found[column] for column in columns}


def _literal(value: Any, kind: str) -> sql.Composable:
    text = None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return sql.SQL("{}::{}").format(sql.Literal(text), sql.Identifier(kind))


def _comparable(value: sql.Composable, given: str, wanted: str) -> sql.Composable:
    """SQL that turns a value of type `given` into one that equals a value of type `wanted` if it is the same.

    Numbers, dates and times compare as they are, without rounding; so do texts, but for char(n), whose
    spaces at the end mean nothing. Where a text is no value of the wanted type, null comes out.
    """
    if wanted == "uuid" and given in _TEXTS:
        return sql.SQL("(CASE WHEN {0} ~* {1} THEN {0}::uuid END)").format(value, _UUID)
    if wanted in {"json", "jsonb"} and given in _TEXTS:
        return sql.SQL("pg_temp.jsonb_or_null({})").format(value) if wanted == "jsonb" else value
    if wanted in _TEXTS and given != wanted:
        return sql.SQL("{}::text::bpchar" if wanted == "bpchar" else "{}::text").format(value)
    if {given, wanted} == {"timestamp", "timestamptz"}:
        return sql.SQL("({} AT TIME ZONE 'UTC')").format(value)
    return value
