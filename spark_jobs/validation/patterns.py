"""Regular expressions of `matches`: PostgreSQL alone knows whether it takes them, so it is asked first."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg2
from psycopg2 import extensions, sql

from spark_jobs.definition.operation import Expectation, Matches
from spark_jobs.errors import NotValidatedError
from spark_jobs.validation.fact_columns import FactColumns

# A constant is matched, so that the pattern is compiled, and the column, so that its type is looked at; no fact is.
_PROBE = "SELECT '' ~ %(regex)s, (SELECT {} FROM {} LIMIT 0) ~ %(regex)s"


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
        advice = "Mend it in validation.expectations: allowed are PostgreSQL's regular expressions, on columns of text."
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
