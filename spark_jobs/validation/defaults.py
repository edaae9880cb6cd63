"""Expectations that follow from the pipeline itself: its event id, its lookups, its tables.

Freshness is none of them: that the target is missed for a while is told by an alert, and the facts are no worse for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from psycopg2 import extensions

from spark_jobs.definition import Default, Lookup, PipelineDefinition
from spark_jobs.definition.operation import Between, Expectation, References
from spark_jobs.relation.catalog.indexes import read_indexes
from spark_jobs.validation.fact_columns import FactColumns
from spark_jobs.validation.window import Window

# Clocks of those who send events may be ahead a little.
CLOCK_SLACK = timedelta(minutes=1)
_INSTANTS = {"timestamptz", "timestamp"}


def expectations_of(
    connection: extensions.connection, definition: PipelineDefinition, columns: FactColumns, window: Window
) -> list[Expectation]:
    """All expectations of a pipeline's facts: the defaults, if it wants them, then its own.

    Args:
        connection: to the warehouse.
        definition: the pipeline.
        columns: of its fact table.
        window: the facts to validate.
    """
    declared = list(definition.validation.expectations)
    if not definition.validation.defaults:
        return declared
    defaults = _defaults(connection, definition, columns, window)
    return [*(each for each in defaults if each not in declared), *declared]


def _defaults(
    connection: extensions.connection, definition: PipelineDefinition, columns: FactColumns, window: Window
) -> Iterator[Expectation]:
    yield Expectation(row_conservation=True)
    yield Expectation(unique=columns.event_id)
    filled = {*columns.not_null, *columns.event_id, columns.event_time}
    yield Expectation(not_null=tuple(name for name in columns.types if name in filled))
    if columns.event_time is not None and columns.types[columns.event_time] in _INSTANTS:
        yield Expectation(between=Between(column=columns.event_time, max=window.closed_until + CLOCK_SLACK))
    for lookup in definition.lookups:
        yield from _references(connection, definition, lookup)


def _references(
    connection: extensions.connection, definition: PipelineDefinition, lookup: Lookup
) -> Iterator[Expectation]:
    """One for each fetched column that is unique in its relation, such as a surrogate key."""
    unique = _unique_columns(connection, lookup.relation)
    for name, source in definition.fact.columns.items():
        key = lookup.fetch.get(source)
        if key is not None and key in unique:
            standing_in = lookup.on_unmatched.default if isinstance(lookup.on_unmatched, Default) else {}
            allowed = (standing_in[source],) if standing_in.get(source) is not None else ()
            yield Expectation(references=References(column=name, relation=lookup.relation, key=key, besides=allowed))


def _unique_columns(connection: extensions.connection, relation: str) -> set[str]:
    """Columns of a relation in each of which no value stands twice."""
    schema, table = relation.split(".", 1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(format('%%I.%%I', %s::text, %s::text))::oid", [schema, table])
        ((table_id,),) = cursor.fetchall()
    if table_id is None:
        return set()  # the pipeline's own checks tell that it is missing
    return {
        index.columns[0] for index in read_indexes(connection, table_id) if index.unique and len(index.columns) == 1
    }
