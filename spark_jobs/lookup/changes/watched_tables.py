"""The tables that need triggers for a relation's changes to be noted, and the triggers that they have and had."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from psycopg2 import extensions

from spark_jobs.control.roles import FUNCTION, NOTER
from spark_jobs.lookup.relation.catalog.sql_names import sql_name
from spark_jobs.lookup.relation.used_relations import UsedColumns

OPERATIONS = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
_TABLE_KINDS = "rp"  # tables, partitioned ones included
_OTHER_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence"}
# As pg_trigger.tgenabled has it: in every session; but not with session_replication_role = replica.
_ALWAYS, _ORDINARILY = "A", "O"
_FURTHER = ""  # stands between the key columns and the others in a trigger's arguments

# A statement fires the triggers of the table that it names: the relation itself, or one of its partitions. What
# identifies a table's rows and columns is compared with the next look: to change that need not fire a trigger.
_TABLES = """
    WITH RECURSIVE part AS (
        SELECT n.nspname || '.' || c.relname AS relation, c.oid
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE (n.nspname, c.relname) IN (SELECT split_part(name, '.', 1), substr(name, strpos(name, '.') + 1)
                                         FROM unnest(%(relations)s::text[]) AS name)
        UNION
        SELECT part.relation, i.inhrelid FROM pg_inherits AS i JOIN part ON i.inhparent = part.oid
    )
    SELECT part.relation, n.nspname, c.relname, c.relkind::text,
        EXISTS (SELECT FROM pg_subscription_rel AS s WHERE s.srrelid = c.oid),
        CASE WHEN f.proowner <> coalesce((SELECT oid FROM pg_roles WHERE rolname = %(noter)s), 0)
            AND NOT pg_has_role(c.relowner, f.proowner, 'MEMBER') THEN pg_get_userbyid(f.proowner) END,
        (SELECT coalesce(jsonb_object_agg(
            t.tgname, jsonb_build_array(t.tgenabled, encode(t.tgargs, 'hex'), t.xmin::text)), '{}')
         FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND t.tgfoid = f.oid),
        concat_ws(' ', c.oid, c.relfilenode, (
            SELECT string_agg(concat_ws(' ', a.attname, a.attnum, a.atttypid, a.xmin), ',' ORDER BY a.attnum)
            FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0))
    FROM part JOIN pg_class AS c USING (oid) JOIN pg_namespace AS n ON n.oid = c.relnamespace,
        pg_proc AS f WHERE f.oid = %(function)s::regproc
    ORDER BY 1, 2, 3
"""

# The transactions that made or changed triggers and columns, or attached partitions, were over when the snapshot was
# taken. An xmin lacks the upper half of its number: being visible, it is the largest below the number that comes next.
_DEFINED_BEFORE = """
    WITH next AS (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::numeric AS xid),
    watched AS (
        SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = %(schema)s AND c.relname = %(table)s
    ), defined (xmin) AS (
        SELECT t.xmin FROM pg_trigger AS t JOIN watched ON t.tgrelid = watched.oid
        WHERE t.tgfoid = %(function)s::regproc
        UNION ALL SELECT a.xmin FROM pg_attribute AS a JOIN watched ON a.attrelid = watched.oid WHERE a.attnum > 0
        UNION ALL SELECT i.xmin FROM pg_inherits AS i JOIN watched ON i.inhrelid = watched.oid
    ), written AS (
        SELECT trunc(next.xid / 4294967296) * 4294967296 + defined.xmin::text::numeric AS xid FROM next, defined
    )
    SELECT coalesce(bool_and(pg_visible_in_snapshot(
        (CASE WHEN written.xid < next.xid THEN written.xid ELSE written.xid - 4294967296 END)::text::xid8,
        %(noticed)s::pg_snapshot
    )), false) FROM written, next
"""


@dataclass(frozen=True)
class NotingTrigger:
    """A trigger of ours.

    Attributes:
        enabled: as pg_trigger.tgenabled has it.
        relation: what it notes changes of.
        noted: the columns that it notes; None for one of an older version, which notes them otherwise.
        written_by: the transaction that made or changed it.
    """

    enabled: str
    relation: str
    noted: UsedColumns | None
    written_by: str


@dataclass(frozen=True)
class WatchedTable:
    """A table that holds rows of a relation. Two looks that find it equal have seen the same table.

    Attributes:
        schema: its schema.
        table: its name.
        refusal: why triggers on it would not note all changes, with what to do; None where they do.
        triggers: our triggers that it has, by their names.
        identity: where its rows lie, and what columns they have.
    """

    schema: str
    table: str
    refusal: str | None
    triggers: Mapping[str, NotingTrigger] = field(hash=False)
    identity: str

    @property
    def name(self) -> str:
        """As one would write it in SQL."""
        return sql_name(self.schema, self.table)

    def lacks(self, relation: str, columns: UsedColumns) -> list[str]:
        """The operations without a trigger that notes at least these columns, under this relation's name."""
        return [name for name in OPERATIONS if not self._notes(trigger_name(name), relation, columns)]

    @property
    def not_always(self) -> list[str]:
        """The triggers that sessions with session_replication_role = replica do not fire."""
        return [name for name, trigger in sorted(self.triggers.items()) if trigger.enabled != _ALWAYS]

    def _notes(self, trigger: str, relation: str, columns: UsedColumns) -> bool:
        found = self.triggers.get(trigger)
        return (
            found is not None
            and found.relation == relation
            and found.noted is not None
            and found.noted.contains(columns)
        )


def trigger_name(operation: str) -> str:
    """Name of the trigger for INSERT, UPDATE, DELETE or TRUNCATE."""
    return f"freshet_{operation.lower()}"


def trigger_arguments(relation: str, columns: UsedColumns) -> tuple[str, ...]:
    """What a trigger tells its function."""
    return (relation, *columns.key, _FURTHER, *columns.further)


def watched_tables(cursor: extensions.cursor, relations: Collection[str]) -> dict[str, tuple[WatchedTable, ...]]:
    """Each relation with all its partitions or children; nothing where there is no such relation. One query.

    Args:
        cursor: on the warehouse.
        relations: schema.table.
    """
    cursor.execute(_TABLES, {"relations": list(relations), "function": FUNCTION, "noter": NOTER})
    found: dict[str, tuple[WatchedTable, ...]] = dict.fromkeys(relations, ())
    for relation, *table in cursor.fetchall():
        found[relation] += (_table(*table),)
    return found


def _table(
    schema: str, table: str, kind: str, subscribed: bool, rights_of: str | None, triggers: dict[str, Any], identity: str
) -> WatchedTable:
    name = sql_name(schema, table)
    found = {trigger: _trigger(*described) for trigger, described in triggers.items()}
    disabled = [name for name, trigger in sorted(found.items()) if trigger.enabled not in (_ALWAYS, _ORDINARILY)]
    refusal = None
    if kind not in _TABLE_KINDS:
        refusal = f"{name} is {_OTHER_KINDS.get(kind, 'no table')}, whose changes fire no triggers"
    elif subscribed:
        refusal = f"{name} is fed by logical replication, which fires no statement's triggers"
    elif rights_of is not None:
        refusal = (
            f"{FUNCTION} would act on {name}, which belongs to another role, with the rights of {rights_of}: have an "
            f"administrator run CREATE ROLE {NOTER} NOLOGIN (if it is missing) and GRANT {NOTER} TO {rights_of}, "
            "then run `freshet migrate`"
        )
    elif disabled:
        refusal = f"{name} has {disabled[0]} disabled: ALTER TABLE {name} ENABLE ALWAYS TRIGGER {disabled[0]}"
    return WatchedTable(schema, table, refusal, found, identity)


def _trigger(enabled: str, encoded: str, written_by: str) -> NotingTrigger:
    # pg_trigger.tgargs holds each argument with a zero byte after it.
    relation, *columns = bytes.fromhex(encoded).decode().split("\0")[:-1]
    if _FURTHER not in columns:
        return NotingTrigger(enabled, relation, None, written_by)
    end = columns.index(_FURTHER)
    return NotingTrigger(enabled, relation, UsedColumns(tuple(columns[:end]), tuple(columns[end + 1 :])), written_by)


def noted_since(connection: extensions.connection, relation: str, noticed: str) -> bool:
    """Whether triggers on all tables of a relation have noted every change by transactions that a snapshot does not
    see: they were there, as they and the tables are now, when it was taken.

    Args:
        connection: to the warehouse.
        relation: schema.table.
        noticed: pg_snapshot as text.
    """
    needed = {trigger_name(operation) for operation in OPERATIONS}
    with connection.cursor() as cursor:
        tables = watched_tables(cursor, [relation])[relation]
        for table in tables:
            if table.refusal is not None or table.not_always or not needed <= table.triggers.keys():
                return False
            names = {"schema": table.schema, "table": table.table, "function": FUNCTION, "noticed": noticed}
            cursor.execute(_DEFINED_BEFORE, names)
            [(before,)] = cursor.fetchall()
            if not before:
                return False
    return bool(tables)


def notes_every_change(tables: tuple[WatchedTable, ...]) -> bool:
    """Whether the triggers on these tables, which note changes, do so in every session."""
    return bool(tables) and not any(table.refusal or table.not_always for table in tables)
