"""Installs and removes the triggers that note changes of relations."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import psycopg2
from psycopg2 import errors, extensions, sql

from spark_jobs.relation.changes.used_relations import Lookup, key_columns_of, used_relations
from spark_jobs.relation.changes.watched_tables import FUNCTION, WatchedTable, trigger_name, watched_tables

# To create a trigger waits for the transactions that write the table, and lets no new ones write meanwhile.
_LONGEST_WAIT = "SET LOCAL lock_timeout = '2s'"

_TRANSITION_TABLES = {
    "INSERT": "REFERENCING NEW TABLE AS present_rows",
    "UPDATE": "REFERENCING OLD TABLE AS former_rows NEW TABLE AS present_rows",
    "DELETE": "REFERENCING OLD TABLE AS former_rows",
    "TRUNCATE": "",
}
_WATCHED = """
    SELECT DISTINCT convert_from(substring(t.tgargs FOR position('\\x00'::bytea IN t.tgargs) - 1), 'UTF8'),
        n.nspname, c.relname, t.tgname
    FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE t.tgfoid = %s::regproc ORDER BY 1, 2, 3, 4
"""


class Outcome(NamedTuple):
    """What became of watching a relation.

    Attributes:
        refusal: why its changes can't be noted, and what to do; None where they are.
        installed: whether a trigger was missing: changes before this may not have been noted, or not with the
            columns that these lookups find a row by.
    """

    refusal: str | None
    installed: bool = False


def watch_relations(connection: extensions.connection, lookups: Iterable[Lookup]) -> dict[str, Outcome]:
    """Make sure that changes of the lookups' relations are noted. Where they are already, it locks nothing.

    Args:
        connection: to the warehouse, not in a transaction. Its role needs the right to create triggers on the
            relations (TRIGGER) and EXECUTE on freshet.note_relation_change, where triggers are missing.
        lookups: those to be watched; key columns of all registered pipelines are noted as well, where that may be
            done.

    Returns:
        the outcome for each relation.

    Raises:
        psycopg2.OperationalError: the warehouse is away.
    """
    lookups = list(lookups)
    with connection, connection.cursor() as cursor:
        used = used_relations(cursor, lookups)
    return {
        relation: _watch(connection, relation, own_columns, used[relation])
        for relation, own_columns in key_columns_of(lookups).items()
    }


def unwatch_relations(connection: extensions.connection, lookups: Iterable[Lookup]) -> dict[str, str | None]:
    """Remove the triggers of relations that neither these lookups nor registered pipelines use.

    Args:
        connection: to the warehouse, not in a transaction; its role must own the tables.
        lookups: of the pipelines that there are.

    Returns:
        for each relation that is no longer used why its triggers could not be removed; None where they were.
    """
    with connection, connection.cursor() as cursor:
        used = used_relations(cursor, lookups)
        cursor.execute(_WATCHED, [FUNCTION])
        unused = [row for row in cursor.fetchall() if row[0] not in used]
    outcomes: dict[str, str | None] = {}
    for relation, schema, table, trigger in unused:
        statement = sql.SQL("DROP TRIGGER {} ON {}").format(sql.Identifier(trigger), sql.Identifier(schema, table))
        outcomes[relation] = _attempt(connection, [statement]) or outcomes.get(relation)
    return outcomes


def _watch(
    connection: extensions.connection, relation: str, own_columns: Collection[str], all_columns: Collection[str]
) -> Outcome:
    """Install what is missing of a relation's triggers.

    Args:
        connection: to the warehouse.
        relation: schema.table.
        own_columns: key columns of the lookups to be watched: without them, their changes are not noted.
        all_columns: key columns of all pipelines.
    """
    with connection, connection.cursor() as cursor:
        tables = watched_tables(cursor, relation)
    if not tables:
        return Outcome(f"there is no relation {relation}")
    refusal = next((table.refusal for table in tables if table.refusal is not None), None)
    if refusal is not None:
        return Outcome(refusal)
    arguments = (relation, *all_columns)
    missing = [
        _create(table, operation, arguments) for table in tables for operation in table.lacks(relation, all_columns)
    ]
    refusal = _attempt(connection, missing) if missing else None
    if not any(table.lacks(relation, own_columns) for table in tables):
        return Outcome(None)  # what is missing, others need
    return Outcome(refusal, installed=True)


def _create(table: WatchedTable, operation: str, arguments: Collection[str]) -> sql.Composable:
    return sql.SQL("CREATE OR REPLACE TRIGGER {} AFTER {} ON {} {} FOR EACH STATEMENT EXECUTE FUNCTION {}({})").format(
        sql.Identifier(trigger_name(operation)),
        sql.SQL(operation),
        sql.Identifier(table.schema, table.table),
        sql.SQL(_TRANSITION_TABLES[operation]),
        sql.SQL(FUNCTION),
        sql.SQL(", ").join(map(sql.Literal, arguments)),
    )


def _attempt(connection: extensions.connection, statements: list[sql.Composable]) -> str | None:
    """Run statements in one transaction; why that failed, where the reason is not that the warehouse is away."""
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(_LONGEST_WAIT)
            for statement in statements:
                cursor.execute(statement)
    except errors.LockNotAvailable:
        return "a transaction that writes the table has been open for too long: try again when it has ended"
    except psycopg2.Error as error:
        if connection.closed or isinstance(error, psycopg2.OperationalError):
            raise
        return f"{str(error).splitlines()[0]}: have the table's owner run `freshet migrate`"
    return None
