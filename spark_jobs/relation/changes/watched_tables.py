"""The tables that need triggers for a relation's changes to be noted, and the triggers that they have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from psycopg2 import extensions

from spark_jobs.relation.catalog.sql_names import sql_name

OPERATIONS = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
FUNCTION = "freshet.note_relation_change"

_TABLE_KINDS = "rp"  # tables, partitioned ones included
_OTHER_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence"}
_FIRING = "OA"  # as pg_trigger.tgenabled has it

# A statement fires the triggers of the table that it names: the relation itself, or one of its partitions.
_TABLES = """
    WITH RECURSIVE part AS (
        SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname || '.' || c.relname = %(relation)s
        UNION
        SELECT i.inhrelid FROM pg_inherits AS i JOIN part ON i.inhparent = part.oid
    )
    SELECT n.nspname, c.relname, c.relkind::text,
        EXISTS (SELECT FROM pg_subscription_rel AS s WHERE s.srrelid = c.oid),
        (SELECT coalesce(jsonb_object_agg(t.tgname, jsonb_build_array(t.tgenabled, encode(t.tgargs, 'hex'))), '{}')
         FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND t.tgfoid = %(function)s::regproc)
    FROM part JOIN pg_class AS c USING (oid) JOIN pg_namespace AS n ON n.oid = c.relnamespace
    ORDER BY 1, 2
"""


@dataclass(frozen=True)
class WatchedTable:
    """A table that holds rows of a relation.

    Attributes:
        schema: its schema.
        table: its name.
        refusal: why triggers on it would not note all changes, with what to do; None where they do.
        triggers: arguments of our triggers that it has, by the triggers' names.
    """

    schema: str
    table: str
    refusal: str | None
    triggers: dict[str, tuple[str, ...]]

    def lacks(self, relation: str, key_columns: Iterable[str]) -> list[str]:
        """The operations without a trigger that notes at least these columns, under this relation's name."""
        return [name for name in OPERATIONS if not self._notes(trigger_name(name), relation, key_columns)]

    def _notes(self, trigger: str, relation: str, key_columns: Iterable[str]) -> bool:
        name, *noted = self.triggers.get(trigger, ("",))
        return name == relation and set(key_columns) <= set(noted)


def trigger_name(operation: str) -> str:
    """Name of the trigger for INSERT, UPDATE, DELETE or TRUNCATE."""
    return f"freshet_{operation.lower()}"


def watched_tables(cursor: extensions.cursor, relation: str) -> list[WatchedTable]:
    """The relation and all its partitions or children; nothing where there is no such relation.

    Args:
        cursor: on the warehouse.
        relation: schema.table.
    """
    cursor.execute(_TABLES, {"relation": relation, "function": FUNCTION})
    return [_table(*row) for row in cursor.fetchall()]


def _table(schema: str, table: str, kind: str, subscribed: bool, triggers: dict[str, Any]) -> WatchedTable:
    name = sql_name(schema, table)
    disabled = [trigger for trigger, (enabled, _) in triggers.items() if enabled not in _FIRING]
    refusal = None
    if kind not in _TABLE_KINDS:
        refusal = f"{name} is {_OTHER_KINDS.get(kind, 'no table')}, whose changes fire no triggers"
    elif subscribed:
        refusal = f"{name} is fed by logical replication, which fires no statement's triggers"
    elif disabled:
        refusal = f"{name} has {disabled[0]} disabled: ALTER TABLE {name} ENABLE TRIGGER {disabled[0]}"
    arguments = {trigger: _arguments(encoded) for trigger, (_, encoded) in triggers.items()}
    return WatchedTable(schema, table, refusal, arguments)


def _arguments(encoded: str) -> tuple[str, ...]:
    """What pg_trigger.tgargs holds: each argument with a zero byte after it."""
    return tuple(bytes.fromhex(encoded).decode().split("\0")[:-1])
