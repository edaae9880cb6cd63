"""One read-only snapshot of the warehouse: the ledger and the facts that a validation sees fit together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

from psycopg2 import extensions

from spark_jobs.warehouse.connection import connect

STATEMENT_TIMEOUT = timedelta(minutes=10)


@contextmanager
def snapshot(url: str, application_name: str) -> Iterator[extensions.connection]:
    """A session inside one transaction, which can't write and sees none of what is committed meanwhile.

    The session is in autocommit mode, so that commits and rollbacks by those who use it do nothing: the
    transaction is begun and ended here. Loading goes on beside it; plain reads block nobody.

    Args:
        url: libpq URL of the warehouse.
        application_name: how pg_stat_activity shows the session.

    Raises:
        WarehouseUnavailableError: the warehouse does not answer.
    """
    with closing(connect(url, application_name=application_name)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, false), set_config('timezone', 'UTC', false)",
                           [str(int(STATEMENT_TIMEOUT.total_seconds() * 1000))])  # fmt: skip
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield connection
