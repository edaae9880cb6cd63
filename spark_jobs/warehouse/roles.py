"""Least-privilege roles: who may do what in the warehouse.

    freshet_loader      loads facts, keeps and prunes the control schema: the Spark jobs and Airflow's operators
    freshet_validator   reads facts and master data, writes validations
    freshet_reader      reads the control schema: the page, `freshet status`, metrics
    freshet_migrator    owns the schema: `freshet migrate`

They can't log in. An administrator makes users that are members of them, for example with
`CREATE ROLE etl LOGIN PASSWORD '...' IN ROLE freshet_loader`.
"""

from __future__ import annotations

from collections.abc import Iterable

from psycopg2 import errors, extensions, sql

from spark_jobs.pipeline.definition import PipelineDefinition

LOADER, VALIDATOR, READER, MIGRATOR = "freshet_loader", "freshet_validator", "freshet_reader", "freshet_migrator"
_GRANTEES = (LOADER, VALIDATOR, READER)

# Rights on tables of the control schema beyond reading them, which all may.
_CONTROL_RIGHTS: dict[str, dict[str, tuple[str, ...]]] = {
    LOADER: {
        "INSERT, UPDATE, DELETE": ("batch", "batch_part", "held_tuple", "driver", "reprocessing_run", "cache"),
        "INSERT, UPDATE": ("pipeline", "ledger_minute", "freshness_episode", "ledger_pruned", "pruned_tuple"),
        # Retention runs as the loader, and ends validations that were cut off.
        "UPDATE (result, error, closed_at)": ("validation",),
        "DELETE": ("ledger_minute", "freshness_episode", "validation", "validation_result", "relation_change"),
    },
    VALIDATOR: {
        "INSERT, UPDATE": ("validation", "validation_result"),
        "UPDATE (validation_id)": ("batch", "reprocessing_run"),
    },
}


def make_roles(cursor: extensions.cursor) -> None:
    """Make the roles where they are missing and we may; an administrator may have made them before.

    Roles belong to the whole server, and several databases of it may be migrated at once.
    """
    for role in (*_GRANTEES, MIGRATOR):
        cursor.execute("SAVEPOINT before_role")
        try:
            cursor.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
        except (errors.DuplicateObject, errors.UniqueViolation, errors.InsufficientPrivilege):
            cursor.execute("ROLLBACK TO before_role")


def become_migrator(cursor: extensions.cursor) -> None:
    """For this transaction be the migrator, so that it will own what is made; stay who we are where that can't be.

    It can't where there is no such role or we are no member of it, and it shall not where the schema is there
    already and belongs to somebody else.
    """
    cursor.execute(
        """
        SELECT (SELECT pg_has_role(rolname, 'SET') FROM pg_roles WHERE rolname = %(migrator)s),
            (SELECT nspowner <> (SELECT oid FROM pg_roles WHERE rolname = %(migrator)s)
             FROM pg_namespace WHERE nspname = 'freshet'),
            has_database_privilege(current_database(), 'CREATE WITH GRANT OPTION'), current_database()
        """,
        {"migrator": MIGRATOR},
    )
    row = cursor.fetchone()
    assert row is not None
    member, owned_by_another, may_grant, database = row
    if not member or owned_by_another:
        return
    if may_grant:
        grant = sql.SQL("GRANT CREATE ON DATABASE {} TO {}")
        cursor.execute(grant.format(sql.Identifier(database), sql.Identifier(MIGRATOR)))
    cursor.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(MIGRATOR)))


def grant_roles(connection: extensions.connection, definitions: Iterable[PipelineDefinition]) -> list[str]:
    """Grant the roles what they need of the control schema, and of the tables of these pipelines that exist.

    Granting again changes nothing.

    Args:
        connection: of a role that owns the tables, or a superuser's; this is one transaction on it.
        definitions: the pipelines.

    Returns:
        the roles that are not there, to which nothing was granted.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", [list(_GRANTEES)])
        there = {role for (role,) in cursor.fetchall()}
        for role in there:
            _grant_control_schema(cursor, role)
            for definition in definitions:
                _grant_tables(cursor, role, definition)
    return [role for role in _GRANTEES if role not in there]


def _grant_control_schema(cursor: extensions.cursor, role: str) -> None:
    grantee = sql.Identifier(role)
    cursor.execute(sql.SQL("GRANT USAGE ON SCHEMA freshet TO {}").format(grantee))
    cursor.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA freshet TO {}").format(grantee))
    for rights, tables in _CONTROL_RIGHTS.get(role, {}).items():
        cursor.execute(
            sql.SQL("GRANT {} ON {} TO {}").format(
                sql.SQL(rights), sql.SQL(", ").join(sql.Identifier("freshet", table) for table in tables), grantee
            )
        )
    if role in _CONTROL_RIGHTS:
        cursor.execute(sql.SQL("GRANT USAGE ON ALL SEQUENCES IN SCHEMA freshet TO {}").format(grantee))


def _grant_tables(cursor: extensions.cursor, role: str, definition: PipelineDefinition) -> None:
    if role == READER:
        return
    for lookup in definition.lookups:
        _grant_table(cursor, role, lookup.relation, "SELECT")
    _grant_table(cursor, role, definition.fact.table, "SELECT, INSERT" if role == LOADER else "SELECT")


def _grant_table(cursor: extensions.cursor, role: str, table: str, rights: str) -> None:
    schema, name = table.split(".", 1)
    cursor.execute("SELECT to_regclass(format('%%I.%%I', %s::text, %s::text)) IS NOT NULL", [schema, name])
    if cursor.fetchone() != (True,):
        return  # the pipeline's own checks tell that it is missing
    grantee = sql.Identifier(role)
    cursor.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), grantee))
    cursor.execute(sql.SQL("GRANT {} ON {} TO {}").format(sql.SQL(rights), sql.Identifier(schema, name), grantee))
