"""Connections to the warehouse that outlive restarts of its server, and the versions of PostgreSQL that it may run."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg2
from psycopg2 import extensions

from spark_jobs.connection_liveness import LIVENESS
from spark_jobs.errors import WarehouseUnavailableError

OLDEST, NEWEST = 15, 18
_log = logging.getLogger(__name__)
PATIENCE = timedelta(seconds=60)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
# Waiting does not help against these.
_HOPELESS = re.compile(r"authentication failed|no pg_hba\.conf entry|(role|database) .* does not exist|no password")
# Numbers of transactions and of batches mean nothing in another cluster, nor on another timeline.
_WAREHOUSE = """
    SELECT system_identifier, timeline_id, (SELECT oid FROM pg_database WHERE datname = current_database())
    FROM pg_control_system(), pg_control_checkpoint()
"""


def _check_version(connection: extensions.connection, address: str) -> None:
    """Refuse a server of another version.

    Args:
        connection: to the server, which has told its version when we connected.
        address: of the server, as it may be shown.

    Raises:
        WarehouseUnavailableError: it is too old, or newer than what we know.
    """
    major, minor = divmod(connection.server_version, 10_000)
    if not OLDEST <= major <= NEWEST:
        raise WarehouseUnavailableError(
            f"The warehouse at {address} runs PostgreSQL {major}.{minor}, but Freshet needs version {OLDEST} to "
            f"{NEWEST}: choose another server by FRESHET_WAREHOUSE_URL, or bring this one to such a version."
        )


def connect(
    url: str,
    *,
    application_name: str = "freshet",
    patience: timedelta = PATIENCE,
    sleep: Callable[[float], None] = time.sleep,
) -> extensions.connection:
    """Connect to the warehouse; retry with growing pauses while it does not answer.

    Args:
        url: libpq URL or connection string.
        application_name: how pg_stat_activity shows the session.
        patience: how long to try.
        sleep: pauses between two attempts.

    Raises:
        WarehouseUnavailableError: it did not answer in time, refused us, or runs an unsupported version; the message
            shows no password.
    """
    deadline = time.monotonic() + patience.total_seconds()
    pause = _FIRST_PAUSE
    while True:
        try:
            connection = psycopg2.connect(url, application_name=application_name, **LIVENESS)
            _check_version(connection, address(url))
            connection.set_session(isolation_level=extensions.ISOLATION_LEVEL_READ_COMMITTED)
            connection.set_client_encoding("UTF8")
        except psycopg2.Error as error:
            left = deadline - time.monotonic()
            if left <= 0 or _HOPELESS.search(str(error)):
                raise _unavailable(url, patience, error) from None  # the cause may show the password
            _log.warning("The warehouse at %s does not answer; trying again.", address(url))
            sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            return connection


def takes_writes(connection: extensions.connection) -> bool:
    """Whether the server and the database let sessions write: a standby does not, nor one that was made read-only.

    Whether this session's user may write is another question.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT NOT pg_is_in_recovery() AND NOT (setting = 'on' "
            "AND source NOT IN ('user', 'database user', 'client', 'session')) "
            "FROM pg_settings WHERE name = 'default_transaction_read_only'"
        )
        [(writable,)] = cursor.fetchall()
    return bool(writable)


def address(url: str) -> str:
    """Where a URL points to, without its password."""
    try:
        parts = extensions.parse_dsn(url)
    except psycopg2.Error:
        return "an address that libpq can't read"
    user, host = parts.get("user", ""), parts.get("host", "localhost")
    port, database = parts.get("port", ""), parts.get("dbname", "")
    return f"{user}{'@' if user else ''}{host}{':' if port else ''}{port}/{database}"


def _unavailable(url: str, patience: timedelta, error: psycopg2.Error) -> WarehouseUnavailableError:
    text = str(error).strip()
    try:
        password = extensions.parse_dsn(url).get("password")
    except psycopg2.Error:
        # libpq's complaint about a URL that it can't read quotes the URL.
        text, password = "libpq can't read it as a URL or connection string", None
    if password:
        text = re.sub(rf"(?<!\w){re.escape(password)}(?!\w)", "***", text)  # not where it is a part of a word
    return WarehouseUnavailableError(
        f"The warehouse at {address(url)} can't be reached (tried for up to {patience.total_seconds():.0f} s): {text} "
        f"Check that the server runs, and FRESHET_WAREHOUSE_URL."
    )


def warehouse_identity(connection: extensions.connection) -> tuple[Any, ...]:
    """Which warehouse it is, by which files belong to one: the cluster's identifier, its timeline, and the database.

    In the connection's transaction.
    """
    with connection.cursor() as cursor:
        cursor.execute(_WAREHOUSE)
        [identity] = cursor.fetchall()
    return tuple(identity)
