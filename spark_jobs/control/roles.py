"""Least-privilege roles: who may do what in the warehouse.

    freshet_loader      loads facts, keeps and prunes the control schema: the Spark jobs and Airflow's operators
    freshet_validator   reads facts and master data, writes validations
    freshet_reader      reads the control schema: the page, `freshet status`, metrics
    freshet_migrator    owns the schema: `freshet migrate`
    freshet_change_noter    notes changes of master data, and reads what is truncated: the triggers

They can't log in. An administrator makes users that are members of them, for example with
`CREATE ROLE etl LOGIN PASSWORD '...' IN ROLE freshet_loader`. On the embedded server `freshet up` makes two users, see
spark_jobs/local/warehouse_users.py. Only the migrator is a member of the last one, and hands
the triggers' function over to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import psycopg2
from psycopg2 import errors, extensions, sql

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.fates import PLACES

LOADER, VALIDATOR, READER, MIGRATOR = "freshet_loader", "freshet_validator", "freshet_reader", "freshet_migrator"
_GRANTEES = (LOADER, VALIDATOR, READER)
FUNCTION = "freshet.note_relation_change"
NOTER = "freshet_change_noter"
"""The role that the function belongs to, and runs as: it may do nothing but what the function does."""

# Rights on tables of the control schema beyond reading them, which all may.
_CONTROL_RIGHTS: dict[str, dict[str, tuple[str, ...]]] = {
    LOADER: {
        "INSERT, UPDATE, DELETE": (
            "batch",
            "batch_part",
            "batch_stream",
            "batch_fate",
            "id_sketch",
            "source_range",
            "partition_mark",
            "held_tuple",
            "driver",
            "reprocessing_run",
            "cache",
        ),
        "INSERT, UPDATE": (
            "pipeline",
            "ledger_minute",
            "freshness_episode",
            "ledger_pruned",
            "stream_pruned",
            "fate_pruned",
            "cluster",
        ),
        "INSERT": ("pruned_tuple", "pipeline_event"),
        # Retention runs as the loader, and ends validations that were cut off.
        "UPDATE (result, error, closed_at)": ("validation",),
        # A warehouse that was moved to another cluster is settled there by whoever comes first.
        "UPDATE (xid, former_xid)": ("relation_change",),
        "DELETE": (
            "ledger_minute",
            "freshness_episode",
            "pipeline_event",
            "validation",
            "validation_result",
            "relation_change",
        ),
    },
    VALIDATOR: {
        "INSERT, UPDATE": ("validation", "validation_result"),
        "UPDATE (validation_id)": ("batch", "reprocessing_run"),
    },
}

# Columns that a role has no use for, and that hold what it may not read otherwise: former master data, whole records.
# The views of held tuples, which have the records, are closed to whom those are.
_FORMER: dict[str, tuple[str, ...]] = {"relation_change": ("key", "former", "keys", "formers")}
_HIDDEN_COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    READER: _FORMER,
    VALIDATOR: {**_FORMER, "held_tuple": ("payload",), **dict.fromkeys(PLACES, ())},
}

# What a role lacks of the rights on a table, its schema's included; nothing where there is no such table. Catalogs
# may be read by all: to_regclass would fail in a schema that we may not use.
_LACKING = """
    WITH found AS (
        SELECT n.oid AS schema, quote_ident(n.nspname) AS schema_name, n.nspowner, c.oid AS "table",
            quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS table_name, c.relowner
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname || '.' || c.relname = %(table)s AND c.relkind = ANY ('{r,p,v,m,f}')
    )
    SELECT 'SCHEMA', 'USAGE', schema_name, pg_get_userbyid(nspowner)
    FROM found WHERE NOT has_schema_privilege(%(role)s, schema, 'USAGE')
    UNION ALL
    SELECT 'TABLE', privilege, table_name, pg_get_userbyid(relowner)
    FROM found, unnest(%(privileges)s) AS privilege WHERE NOT has_table_privilege(%(role)s, "table", privilege)
"""
_LACKED = {"USAGE": "use the schema", "SELECT": "read", "INSERT": "load facts into", "UPDATE": "fill in facts of"}


class NotGranted(NamedTuple):
    """A right that a role should have and has not, or a role that is not there.

    Attributes:
        problem: what is missing, in words.
        who: the role, or person, that can fix it.
        statement: what they have to run, in SQL.
    """

    problem: str
    who: str
    statement: str


def make_roles(cursor: extensions.cursor) -> None:
    """Make the roles where they are missing and we may; an administrator may have made them before.

    Roles belong to the whole server, and several databases of it may be migrated at once.
    """
    tolerated = (errors.DuplicateObject, errors.UniqueViolation, errors.InsufficientPrivilege)
    for role in (*_GRANTEES, MIGRATOR, NOTER):
        _attempt(cursor, f"CREATE ROLE {role} NOLOGIN", tolerated)
    _join_noter(cursor, MIGRATOR)


def become_migrator(cursor: extensions.cursor) -> None:
    """Become the migrator for this transaction, so that it owns what is made; stay the current role where that fails.

    It fails where there is no such role or we are not a member of it, and it is not tried where the schema exists
    already and belongs to another role.
    """
    cursor.execute(
        """
        SELECT (SELECT nspowner <> (SELECT oid FROM pg_roles WHERE rolname = %s) FROM pg_namespace
                WHERE nspname = 'freshet'),
            has_database_privilege(current_database(), 'CREATE WITH GRANT OPTION'), current_database()
        """,
        [MIGRATOR],
    )
    row = cursor.fetchone()
    assert row is not None
    owned_by_another, may_grant, database = row
    if owned_by_another or not _may_become(cursor, MIGRATOR):
        return
    if may_grant:
        grant = sql.SQL("GRANT CREATE ON DATABASE {} TO {}")
        cursor.execute(grant.format(sql.Identifier(database), sql.Identifier(MIGRATOR)))
    cursor.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(MIGRATOR)))


def _may_become(cursor: extensions.cursor, role: str) -> bool:
    """Whether there is the role and we may SET it; tried out, for the right to ask about is not the same everywhere.

    Up to PostgreSQL 15 any member may; later only one whose membership allows it.
    """
    cursor.execute("SAVEPOINT before_role")
    try:
        cursor.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
    except (errors.InsufficientPrivilege, errors.InvalidParameterValue):
        return False
    finally:
        cursor.execute("ROLLBACK TO before_role")
        cursor.execute("RELEASE before_role")
    return True


def entrust_noting(cursor: extensions.cursor) -> None:
    """Hand the function that triggers on master data run over to a role that may do only what it needs to.

    Where we may not, it stays ours, and triggers are put only on tables whose owners have our rights anyway.

    Args:
        cursor: of a role that owns the control schema, or a superuser's; in a transaction.
    """
    cursor.execute(
        "SELECT pg_get_userbyid(proowner) <> %s FROM pg_proc WHERE oid = to_regprocedure(%s)", [NOTER, f"{FUNCTION}()"]
    )
    if cursor.fetchone() != (True,):
        return
    cursor.execute("SELECT current_user")
    [(user,)] = cursor.fetchall()
    _join_noter(cursor, user)
    _attempt(
        cursor,
        f"""
        GRANT USAGE, CREATE ON SCHEMA freshet TO {NOTER};
        GRANT INSERT ON freshet.relation_change TO {NOTER};
        ALTER FUNCTION {FUNCTION}() OWNER TO {NOTER};
        REVOKE CREATE ON SCHEMA freshet FROM {NOTER}
        """,
        (errors.InsufficientPrivilege, errors.UndefinedObject),
    )


def _join_noter(cursor: extensions.cursor, role: str) -> None:
    """Make a role a member of the one that notes changes, where we may."""
    cursor.execute(
        "SELECT FROM pg_roles WHERE rolname = %s AND NOT pg_has_role(%s, oid, 'MEMBER') "
        "AND EXISTS (SELECT FROM pg_roles WHERE rolname = %s)",
        [NOTER, role, role],
    )
    if cursor.fetchone() is not None:
        # Several databases may do so at once.
        tolerated = (errors.InsufficientPrivilege, errors.InternalError_, errors.UniqueViolation)
        _attempt(cursor, sql.SQL("GRANT {} TO {}").format(sql.Identifier(NOTER), sql.Identifier(role)), tolerated)


def grant_roles(connection: extensions.connection, definitions: Iterable[PipelineDefinition]) -> list[NotGranted]:
    """Grant the roles what they need of the control schema, and of the tables of these pipelines that exist.

    Granting again changes nothing. A table that belongs to another role may keep a role from its work; all other
    rights are granted all the same.

    Args:
        connection: of a role that owns the control schema, or a superuser's; this is one transaction on it.
        definitions: the pipelines.

    Returns:
        what the roles still lack: those that are not there, to which nothing was granted, and rights on tables and
        schemas that we may not grant.
    """
    definitions = list(definitions)
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtext('freshet.migrate'))"
        )  # two can't change one table's rights
        roles = (*_GRANTEES, NOTER)
        cursor.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", [list(roles)])
        there = {role for (role,) in cursor.fetchall()}
        lacking = [_no_role(role) for role in roles if role not in there]
        for role in roles:
            if role in there:
                if role != NOTER:
                    _grant_control_schema(cursor, role)
                lacking += _grant_tables(cursor, role, definitions)
    return lacking


def _no_role(role: str) -> NotGranted:
    return NotGranted(f"There is no role {role}", "an administrator", f"CREATE ROLE {role} NOLOGIN")


def _grant_control_schema(cursor: extensions.cursor, role: str) -> None:
    grantee = sql.Identifier(role)
    cursor.execute(sql.SQL("GRANT USAGE ON SCHEMA freshet TO {}").format(grantee))
    cursor.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA freshet TO {}").format(grantee))
    for table, columns in _HIDDEN_COLUMNS.get(role, {}).items():
        _hide_columns(cursor, grantee, table, columns)
    for rights, tables in _CONTROL_RIGHTS.get(role, {}).items():
        cursor.execute(
            sql.SQL("GRANT {} ON {} TO {}").format(
                sql.SQL(rights), sql.SQL(", ").join(sql.Identifier("freshet", table) for table in tables), grantee
            )
        )
    if role in _CONTROL_RIGHTS:
        cursor.execute(sql.SQL("GRANT USAGE ON ALL SEQUENCES IN SCHEMA freshet TO {}").format(grantee))


def _hide_columns(cursor: extensions.cursor, grantee: sql.Identifier, table: str, columns: tuple[str, ...]) -> None:
    cursor.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped "
        "AND attname <> ALL (%s)",
        [f"freshet.{table}", list(columns)],
    )
    shown = sql.SQL(", ").join(sql.Identifier(name) for (name,) in cursor.fetchall())
    names = {"table": sql.Identifier("freshet", table), "grantee": grantee, "shown": shown}
    cursor.execute(sql.SQL("REVOKE SELECT ON {table} FROM {grantee}").format(**names))
    if columns:
        cursor.execute(sql.SQL("GRANT SELECT ({shown}) ON {table} TO {grantee}").format(**names))


def _grant_tables(cursor: extensions.cursor, role: str, definitions: Iterable[PipelineDefinition]) -> list[NotGranted]:
    """Grant a role its rights on the pipelines' tables; what it lacks then."""
    needed = [
        (table, privileges) for definition in definitions for table, privileges in _needed_tables(role, definition)
    ]
    for table, privileges in needed:
        for right in _lacking(cursor, role, table, privileges):
            # Where we hold the right ourselves, but may not pass it on, PostgreSQL only warns: look again afterwards.
            _attempt(cursor, right.statement, errors.InsufficientPrivilege)
    # Several tables may lie in one schema, and several pipelines may use one table.
    left = (right for table, privileges in needed for right in _lacking(cursor, role, table, privileges))
    return list(dict.fromkeys(left))


def _needed_tables(role: str, definition: PipelineDefinition) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The pipeline's tables that a role works with, each with the privileges for that."""
    if role == READER:
        return
    for lookup in definition.lookups:
        yield lookup.relation, ("SELECT",)
    if role == NOTER:
        return
    if role == LOADER:
        yield definition.fact.table, ("SELECT", "INSERT", *(("UPDATE",) if definition.accumulates else ()))
    else:
        yield definition.fact.table, ("SELECT",)
    if role == VALIDATOR:
        for expectation in definition.validation.expectations:
            if expectation.references is not None:
                yield expectation.references.relation, ("SELECT",)


def _lacking(cursor: extensions.cursor, role: str, table: str, privileges: tuple[str, ...]) -> list[NotGranted]:
    """What a role lacks of these privileges on a table; nothing where there is no table: the pipeline tells that."""
    cursor.execute(_LACKING, {"role": role, "table": table, "privileges": list(privileges)})
    return [
        NotGranted(
            f"{role} may not {_LACKED[privilege]} {name}",
            f"its owner {owner}",
            f"GRANT {privilege} ON {kind} {name} TO {role}",
        )
        for kind, privilege, name, owner in cursor.fetchall()
    ]


def _attempt(
    cursor: extensions.cursor,
    statement: str | sql.Composable,
    tolerated: type[psycopg2.Error] | tuple[type[psycopg2.Error], ...],
) -> None:
    """Run a statement; where it fails so, the transaction goes on without it."""
    cursor.execute("SAVEPOINT before_attempt")
    try:
        cursor.execute(statement)
    except tolerated:
        cursor.execute("ROLLBACK TO before_attempt")
    cursor.execute("RELEASE before_attempt")
