"""The expectations of a pipeline's facts: its own, those that follow from it, and whether their patterns are valid.

Freshness is none that follows: an alert reports that the target is missed for a while, and the facts are no worse
for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

import psycopg2
from psycopg2 import extensions, sql

from spark_jobs.definition import Default, Lookup, PipelineDefinition
from spark_jobs.definition.operation import Between, Expectation, Matches, References
from spark_jobs.errors import NotValidatedError
from spark_jobs.lookup.relation.catalog.indexes import read_indexes
from spark_jobs.validation.fact_columns import FactColumns
from spark_jobs.validation.window import Window

# Clocks of event senders may be slightly ahead.
CLOCK_SLACK = timedelta(minutes=1)
_INSTANTS = {"timestamptz", "timestamp"}

# A constant is matched, so that the pattern is compiled, and the column, so that its type is looked at; no fact is.
_PROBE = "SELECT '' ~ %(regex)s, (SELECT {} FROM {} LIMIT 0) ~ %(regex)s"


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
    if columns.batch_no is not None and definition.streams is None:
        yield Expectation(completeness=True)
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


class PatternRefusedError(NotValidatedError):
    """PostgreSQL refuses the pattern of an expectation, or to match its column with one."""


def check_patterns(
    connection: extensions.connection, columns: FactColumns, expectations: Iterable[Expectation]
) -> None:
    """Have PostgreSQL look at every pattern. Among all queries of a validation, one that fails would spoil the others.

    Args:
        connection: in a transaction, which goes on as it was.
        columns: of the fact table.
        expectations: of the facts.

    Raises:
        PatternRefusedError: it refuses some; the message names each of them with its column.
    """
    refusals = [
        f"{matches.column} matches {matches.regex}: {refusal}"
        for expectation in expectations
        if (matches := expectation.matches) is not None
        and (refusal := _refusal(connection, columns, matches)) is not None
    ]
    if refusals:
        advice = "Fix it in validation.expectations: PostgreSQL's regular expressions are allowed, on columns of text."
        raise PatternRefusedError("; ".join(refusals) + f". {advice}")


def _refusal(connection: extensions.connection, columns: FactColumns, matches: Matches) -> str | None:
    """The first line that PostgreSQL says against it; None if it has nothing against it."""
    probe = sql.SQL(_PROBE).format(sql.Identifier(matches.column), columns.table)
    with connection.cursor() as cursor:
        cursor.execute("SAVEPOINT pattern")
        try:
            cursor.execute(probe, {"regex": matches.regex})
        except (psycopg2.errors.InvalidRegularExpression, psycopg2.errors.UndefinedFunction) as error:
            cursor.execute("ROLLBACK TO SAVEPOINT pattern")
            return str(error).strip().partition("\n")[0]
        cursor.execute("RELEASE SAVEPOINT pattern")
    return None
