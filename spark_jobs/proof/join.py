"""The plain SQL join of the landed events with R: what each fact should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from psycopg2 import extensions, sql

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.stream_tuple import BATCH_NO
from spark_jobs.proof.lookup import CREATE_JSON_READER, JoinedLookup, column_types, comparable, table_identifier
from spark_jobs.proof.staged_events import LANDED, FindsStagedColumns


@dataclass(frozen=True)
class Expected:
    """What one column of the fact should be.

    Attributes:
        column: of the fact table.
        value: SQL of its expected value, over `landed` and the relations.
        type: PostgreSQL's name of the column's type.
        lookup: the lookup that fetches it; None for a column of the source.
    """

    column: str
    value: sql.Composable
    type: str
    lookup: JoinedLookup | None

    @property
    def stored(self) -> sql.Composable:
        """SQL of the stored value, over `fact`, in the form in which it is compared."""
        stored = sql.SQL("fact.{}").format(sql.Identifier(self.column))
        return sql.SQL("{}::text").format(stored) if self.type == "json" else stored

    @property
    def differs(self) -> sql.Composable:
        """SQL: the column is not what it should be; nulls are equal, and so are NaNs."""
        return sql.SQL("({} IS DISTINCT FROM {})").format(self.stored, self.value)

    @property
    def is_right(self) -> sql.Composable:
        """SQL: the column is what it should be."""
        return sql.SQL("({} IS NOT DISTINCT FROM {})").format(self.stored, self.value)


class JoinedEvents:
    """SQL of the plain join: its tables, its conditions, and the facts that follow from it.

    `landed` is the staged event, `fact` the stored fact, `relation_<n>` the tuple of R of lookup n. Which batch has
    stored a fact does not follow from its event, and is not compared.

    Args:
        cursor: to read the catalog with.
        definition: the pipeline.
        staging: the landed events.

    Attributes:
        lookups: the joins with R.
        expected: what the columns of a fact should be.
        fact_table: the table of the facts.
        key_columns: its columns that are the event's id.

    Raises:
        SchemaMismatchError: a table or a column that the pipeline names does not exist.
    """

    def __init__(self, cursor: extensions.cursor, definition: PipelineDefinition, staging: FindsStagedColumns) -> None:
        tuples, fact = definition.tuples, definition.fact
        self._event_id = tuples.event_id
        self._fact_columns = fact.columns
        self._staging = staging
        self.lookups = [
            JoinedLookup(cursor, number, lookup, tuples.event_time, staging)
            for number, lookup in enumerate(definition.lookups)
        ]
        cursor.execute(CREATE_JSON_READER)
        self._fact_types = column_types(cursor, fact.table, list(fact.columns))
        self.fact_table = table_identifier(fact.table)
        self.expected = [
            self._expected(column, origin) for column, origin in fact.columns.items() if origin != BATCH_NO
        ]
        self.key_columns = [
            next(column for column, origin in fact.columns.items() if origin == part) for part in tuples.event_id
        ]

    @property
    def key_types(self) -> dict[str, str]:
        """Column of the event id -> PostgreSQL's name of the type that it has in the fact table."""
        return {part: self._fact_types[column] for part, column in zip(self._event_id, self.key_columns, strict=True)}

    @property
    def loaded_types(self) -> dict[str, str]:
        """Column of the source -> PostgreSQL's name of the type that it has in the fact table, of those that it has."""
        return {origin: self._fact_types[column] for column, origin in reversed(self._fact_columns.items())}

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
        """SQL: all columns of `fact` are what the join makes of `landed`."""
        return sql.SQL(" AND ").join(expected.is_right for expected in self.expected)

    @property
    def can_match(self) -> sql.Composable:
        """SQL: no lookup is in vain for `landed`, whatever R is."""
        possible = sql.SQL(" AND ").join([sql.SQL("true"), *(lookup.can_match for lookup in self.lookups)])
        return sql.SQL("({})").format(possible)

    def same_fact(self, other: str) -> sql.Composable:
        """SQL: another table, which has the key's columns as well, has the key of `fact`."""
        return sql.SQL(" AND ").join(
            sql.SQL("{}.{} = fact.{}").format(sql.Identifier(other), sql.Identifier(column), sql.Identifier(column))
            for column in self.key_columns
        )

    def tables(self, *, outer: bool = False) -> sql.Composable:
        """SQL for FROM: `landed` joined with every relation.

        Args:
            outer: keep events whose key is not in R, whatever the lookup does with them.
        """
        joins = [lookup.join(outer=outer) for lookup in self.lookups]
        return sql.SQL("{} AS landed{}").format(LANDED, sql.SQL("").join(joins))

    def unmatched(self) -> Iterator[tuple[str, sql.Composable]]:
        """For each lookup without defaults: what it means that R has no tuple, and SQL that is true then (`outer`)."""
        for lookup in self.lookups:
            if not lookup.has_default:
                yield lookup.unmatched, sql.SQL("NOT {}").format(lookup.matched)

    def _expected(self, column: str, origin: str) -> Expected:
        wanted = self._fact_types[column]
        lookup = next((lookup for lookup in self.lookups if lookup.fetches(origin)), None)
        if lookup is not None:
            return Expected(column, lookup.value(origin, wanted), wanted, lookup)
        staged = self._staging.column(origin)
        value = comparable(sql.SQL("landed.{}").format(sql.Identifier(staged.name)), staged.type, wanted)
        return Expected(column, value, wanted, None)
