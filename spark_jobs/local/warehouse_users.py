"""Users of the embedded server with fewer rights than its superuser: whoever only reads, and whoever validates.

They are users of their own, not roles that a superuser takes on: whoever comes as one can't get back to more rights.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress

from psycopg2 import errors, sql
from sqlalchemy import make_url

from spark_jobs.control.roles import READER, VALIDATOR, grant_roles
from spark_jobs.definition import PipelineDefinition
from spark_jobs.warehouse.connection import connect

READING, VALIDATING = "freshet_read", "freshet_validate"

_ROLES = {READING: READER, VALIDATING: VALIDATOR}
_ADMITTED = """
    SELECT count(*) FROM pg_roles
    WHERE rolname = ANY (%s) AND has_schema_privilege(oid, to_regnamespace('freshet'), 'USAGE')
"""


def admit_users(url: str, definitions: Iterable[PipelineDefinition] = ()) -> None:
    """Make the users where they are missing, and grant their roles what they need.

    Args:
        url: libpq URL of the embedded warehouse, which has its schema, as the superuser.
        definitions: the pipelines whose tables are to be validated; without any, nothing is granted again.
    """
    definitions = list(definitions)
    with closing(connect(url)) as connection:
        with connection, connection.cursor() as cursor:
            cursor.execute(_ADMITTED, [list(_ROLES)])
            if cursor.fetchone() == (len(_ROLES),) and not definitions:
                return
        connection.autocommit = True
        with connection.cursor() as cursor:
            for user, role in _ROLES.items():
                made = sql.SQL("CREATE ROLE {} LOGIN IN ROLE {}").format(sql.Identifier(user), sql.Identifier(role))
                # Users belong to the whole server, and several commands may make them at once.
                with suppress(errors.DuplicateObject, errors.UniqueViolation):
                    cursor.execute(made)
        connection.autocommit = False
        grant_roles(connection, definitions)


def as_user(url: str, user: str) -> str:
    """The URL of the embedded warehouse for another user, who needs no password."""
    return make_url(url).set(username=user).render_as_string(hide_password=False)
