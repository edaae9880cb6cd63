"""The versions of PostgreSQL that a warehouse may run."""

from __future__ import annotations

from psycopg2 import extensions

from spark_jobs.errors import WarehouseUnavailableError

OLDEST, NEWEST = 15, 18


def check_version(connection: extensions.connection, address: str) -> None:
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
