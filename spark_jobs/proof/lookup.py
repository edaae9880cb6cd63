"""One lookup in the plain SQL join of the landed events with R, and how values of two types are compared in it."""

from __future__ import annotations

from typing import Any

from psycopg2 import extensions, sql

from spark_jobs.definition import Default, Lookup
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.proof.staged_events import FindsStagedColumns

# SQL of the event's time as a column's type has it. PostgreSQL compares dates of all years, but can't make timestamps
# of them all: so it is the event's time that is converted, which loses nothing when it is compared with whole days.
_TIME_AS = {
    "timestamptz": "{}",
    "timestamp": "({} AT TIME ZONE 'UTC')",
    "date": "({} AT TIME ZONE 'UTC')::date",
}


# Integers of the stream may be larger than those of R.
_RANGES = {"int2": "{0} BETWEEN -32768 AND 32767", "int4": "{0} BETWEEN -2147483648 AND 2147483647"}

_TEXTS = frozenset({"text", "varchar", "bpchar", "name"})
_UUID_DIGITS = "([0-9a-f]{4}-?){7}[0-9a-f]{4}"
_UUID = sql.Literal(rf"^({_UUID_DIGITS}|\{{{_UUID_DIGITS}\}})$")

# Casting a text that is no JSON would end the proof.
CREATE_JSON_READER = """
    CREATE FUNCTION pg_temp.jsonb_or_null(value text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN RETURN value::jsonb; EXCEPTION WHEN data_exception THEN RETURN NULL; END $$
"""
"""Makes the function that `comparable` calls."""


class JoinedLookup:
    """SQL of one lookup, over `landed`, the staged event, and `relation_<number>`, the tuple of R.

    Args:
        cursor: to read the catalog with.
        number: of the lookup in the pipeline.
        lookup: the lookup.
        event_time: column of the source that says when an event happened.
        staging: the landed events.

    Attributes:
        number: as given.
        relation: R: schema.table.
        columns: R's columns that the lookup names, each once.

    Raises:
        SchemaMismatchError: R or a column of it does not exist.
    """

    def __init__(
        self, cursor: extensions.cursor, number: int, lookup: Lookup, event_time: str, staging: FindsStagedColumns
    ) -> None:
        self.number = number
        self.relation = lookup.relation
        self._lookup = lookup
        self._staging = staging
        self._types = column_types(
            cursor, lookup.relation, [*lookup.on.values(), *lookup.fetch.values(), *(lookup.validity or ())]
        )
        self._event_time = event_time
        self.columns = list(self._types)

    @property
    def alias(self) -> str:
        """What the tuple of R is called."""
        return f"relation_{self.number}"

    @property
    def key_columns(self) -> list[str]:
        """R's columns that a tuple is found by."""
        return list(self._lookup.on.values())

    @property
    def has_default(self) -> bool:
        """Whether events without a tuple of R become facts nevertheless."""
        return isinstance(self._lookup.on_unmatched, Default)

    @property
    def keeps_versions(self) -> bool:
        """Whether R keeps versions of its tuples, of which the event finds one by its time."""
        return self._lookup.validity is not None

    @property
    def unmatched(self) -> str:
        """What it means that R has no tuple for an event, in words."""
        keys = ", ".join(self._lookup.on.values())
        valid = "" if self._lookup.validity is None else " that was valid at its time"
        return f"{self.relation} has no tuple with its {keys}{valid}"

    @property
    def matched(self) -> sql.Composable:
        """SQL: the event has found a tuple of R."""
        return sql.SQL("({} IS NOT NULL)").format(self.column(self.key_columns[0]))  # no null equals a key

    def column(self, name: str) -> sql.Composable:
        """SQL of a column of R's tuple."""
        return sql.Identifier(self.alias, name)

    def fetches(self, output: str) -> bool:
        """Whether the lookup gives tuples this column."""
        return output in self._lookup.fetch

    def join(self, *, outer: bool = False) -> sql.Composable:
        """SQL for FROM, after `landed`: joined with the tuple of R, if there is one.

        Args:
            outer: keep events without a tuple of R, whatever the lookup does with them.
        """
        kind = sql.SQL("LEFT" if outer or self.has_default else "INNER")
        table, alias = table_identifier(self.relation), sql.Identifier(self.alias)
        if self._lookup.validity is None:
            return sql.SQL(" {} JOIN {} AS {} ON {}").format(kind, table, alias, self.same_key)
        # Of versions that overlap the one that began last counts.
        return sql.SQL(
            " {kind} JOIN LATERAL (SELECT * FROM {table} AS {alias} WHERE {found} ORDER BY {begin} DESC LIMIT 1)"
            " AS {alias} ON true"
        ).format(
            kind=kind, table=table, alias=alias, found=self.finds, begin=self.column(self._lookup.validity[0])
        )  # fmt: skip

    @property
    def finds(self) -> sql.Composable:
        """SQL: the event's key is that of R's tuple, which was valid at the event's time if R keeps versions."""
        if self._lookup.validity is None:
            return self.same_key
        begin, end = self._lookup.validity
        return sql.SQL("{} AND {} <= {} AND ({} IS NULL OR {} > {})").format(
            self.same_key, self.column(begin), self._time_as(begin), *2 * [self.column(end)], self._time_as(end)
        )

    @property
    def same_key(self) -> sql.Composable:
        """SQL: the event's key is that of R's tuple."""
        return sql.SQL(" AND ").join(
            sql.SQL("{} = {}").format(self.column(name), self._key(source, name))
            for source, name in self._lookup.on.items()
        )

    @property
    def can_match(self) -> sql.Composable:
        """SQL: R might have a tuple for the event, or it needs none."""
        if self.has_default:
            return sql.SQL("true")
        keys = ((self._key(source, name), self._types[name]) for source, name in self._lookup.on.items())
        possible = [sql.SQL(_RANGES.get(kind, "{0} IS NOT NULL")).format(key) for key, kind in keys]
        if self.keeps_versions:
            possible.append(sql.SQL("{} IS NOT NULL").format(self._staged_time))
        return sql.SQL("coalesce({}, false)").format(sql.SQL(" AND ").join(possible))

    def value(self, output: str, wanted: str) -> sql.Composable:
        """SQL of a fetched column, comparable with a column of the fact table of type `wanted`."""
        name = self._lookup.fetch[output]
        value, kind = self.column(name), self._types[name]
        if isinstance(self._lookup.on_unmatched, Default):
            default = literal(self._lookup.on_unmatched.default[output], kind)
            value = sql.SQL("(CASE WHEN {} THEN {} ELSE {} END)").format(self.matched, value, default)
        return comparable(value, kind, wanted)

    def _time_as(self, name: str) -> sql.Composable:
        """SQL of the event's time, comparable with this column of R."""
        return sql.SQL(_TIME_AS[self._types[name]]).format(self._staged_time)

    @property
    def _staged_time(self) -> sql.Composable:
        return sql.SQL("landed.{}").format(sql.Identifier(self._staging.column(self._event_time).name))

    def _key(self, source: str, name: str) -> sql.Composable:
        staged = self._staging.column(source)
        value = sql.SQL("landed.{}").format(sql.Identifier(staged.name))
        return comparable(value, staged.type, self._types[name])


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
        ORDER BY attnum
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


def literal(value: Any, kind: str) -> sql.Composable:
    """A value of a definition as SQL of this type."""
    text = None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return sql.SQL("{}::{}").format(sql.Literal(text), sql.Identifier(kind))


def comparable(value: sql.Composable, given: str, wanted: str) -> sql.Composable:
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
