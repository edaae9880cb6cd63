"""Installs and removes the triggers that note changes of relations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import psycopg2
from psycopg2 import errors, extensions, sql

from spark_jobs.control.roles import FUNCTION
from spark_jobs.lookup.changes.watched_tables import (
    WatchedTable,
    trigger_arguments,
    trigger_name,
    watched_tables,
)
from spark_jobs.lookup.relation.used_relations import Lookup, UsedColumns, columns_of, used_relations

# To create a trigger waits for the transactions that write the table, and lets no new ones write meanwhile.
_LONGEST_WAIT = "SET LOCAL lock_timeout = '2s'"

# When a trigger fires, and which rows it sees. What a table holds is noted before it is truncated.
_EVENTS = {
    "INSERT": ("AFTER", "REFERENCING NEW TABLE AS present_rows"),
    "UPDATE": ("AFTER", "REFERENCING OLD TABLE AS former_rows NEW TABLE AS present_rows"),
    "DELETE": ("AFTER", "REFERENCING OLD TABLE AS former_rows"),
    "TRUNCATE": ("BEFORE", ""),
}
_WATCHED = """
    SELECT DISTINCT convert_from(substring(t.tgargs FOR position('\\x00'::bytea IN t.tgargs) - 1), 'UTF8'),
        n.nspname, c.relname, t.tgname
    FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE t.tgfoid = %s::regproc ORDER BY 1, 2, 3, 4
"""


class WatchOutcome(NamedTuple):
    """Whether a relation is watched.

    Attributes:
        refusal: why its changes are not noted, and what to do; None where they are.
        tables: those that hold its rows, with their triggers. If they are others than before, R may have changed
            without a note.
    """

    refusal: str | None
    tables: tuple[WatchedTable, ...] = ()


def watch_relations(connection: extensions.connection, lookups: Iterable[Lookup]) -> dict[str, WatchOutcome]:
    """Make sure that changes of the lookups' relations are noted. Where they are already, it locks nothing.

    Args:
        connection: to the warehouse, not in a transaction. Where triggers are missing, its role needs the right to
            create them on the relations (TRIGGER), EXECUTE on freshet.note_relation_change, and, so that they fire in
            every session, to own the tables.
        lookups: those to be watched; columns of all registered pipelines are noted as well, where that may be done.

    Returns:
        the outcome for each relation.

    Raises:
        psycopg2.OperationalError: the warehouse is away.
    """
    lookups = list(lookups)
    with connection, connection.cursor() as cursor:
        used = used_relations(cursor, lookups)
        found = watched_tables(cursor, columns_of(lookups))
    failures = {relation: _install(connection, relation, tables, used[relation]) for relation, tables in found.items()}
    outcomes = look_at_relations(connection, lookups)
    return {
        relation: outcome._replace(refusal=outcome.refusal and (failures[relation] or outcome.refusal))
        for relation, outcome in outcomes.items()
    }


def look_at_relations(connection: extensions.connection, lookups: Iterable[Lookup]) -> dict[str, WatchOutcome]:
    """Whether changes of the lookups' relations are noted, as things are. One query of the catalog for all.

    Args:
        connection: to the warehouse, not in a transaction.
        lookups: those that are watched. What triggers lack for other pipelines does not matter to these.
    """
    columns = columns_of(lookups)
    with connection, connection.cursor() as cursor:
        found = watched_tables(cursor, columns)
    return {
        relation: WatchOutcome(_refusal(relation, tables, columns[relation]), tables)
        for relation, tables in found.items()
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


def _refusal(relation: str, tables: Iterable[WatchedTable], columns: UsedColumns) -> str | None:
    """Why changes of a relation are not noted; None where they are."""
    if not tables:
        return f"there is no relation {relation}"
    for table in tables:
        if table.refusal is not None:
            return table.refusal
        if table.lacks(relation, columns):
            return f"{table.name} lacks triggers: run `freshet migrate`"
        if table.not_always:
            actions = ", ".join(f"ENABLE ALWAYS TRIGGER {name}" for name in table.not_always)
            return (
                f"sessions with session_replication_role = replica do not fire the triggers of {table.name}: "
                f"have its owner run ALTER TABLE ONLY {table.name} {actions}"
            )
    return None


def _install(
    connection: extensions.connection, relation: str, tables: Iterable[WatchedTable], columns: UsedColumns
) -> str | None:
    """Create the triggers that a relation lacks, and let all of them fire in every session; why they can't be created.

    Who may create a trigger may not say when it fires: that takes the table's owner.
    """
    if any(table.refusal is not None for table in tables):
        return None
    lacking = [(table, operation) for table in tables for operation in table.lacks(relation, columns)]
    arguments = trigger_arguments(relation, columns)
    failure = _attempt(connection, [_create(table, operation, arguments) for table, operation in lacking])
    if failure is None:
        names = [(table, trigger_name(operation)) for table, operation in lacking]
        names += [(table, name) for table in tables for name in table.not_always]
        _attempt(connection, [_fire_always(table, name) for table, name in dict.fromkeys(names)])
    return failure


def _create(table: WatchedTable, operation: str, arguments: Iterable[str]) -> sql.Composable:
    moment, transition_tables = _EVENTS[operation]
    return sql.SQL("CREATE OR REPLACE TRIGGER {} {} {} ON {} {} FOR EACH STATEMENT EXECUTE FUNCTION {}({})").format(
        sql.Identifier(trigger_name(operation)),
        sql.SQL(moment),
        sql.SQL(operation),
        sql.Identifier(table.schema, table.table),
        sql.SQL(transition_tables),
        sql.SQL(FUNCTION),
        sql.SQL(", ").join(map(sql.Literal, arguments)),
    )


def _fire_always(table: WatchedTable, trigger: str) -> sql.Composable:
    return sql.SQL("ALTER TABLE ONLY {} ENABLE ALWAYS TRIGGER {}").format(
        sql.Identifier(table.schema, table.table), sql.Identifier(trigger)
    )


def _attempt(connection: extensions.connection, statements: list[sql.Composable]) -> str | None:
    """Run statements in one transaction; why that failed, where the reason is not that the warehouse is away."""
    if not statements:
        return None
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
