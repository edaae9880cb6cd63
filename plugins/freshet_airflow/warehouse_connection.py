"""Where the warehouse is: an Airflow connection if there is one, else FRESHET_WAREHOUSE_URL."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from psycopg2 import extensions
from sqlalchemy import URL

from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.settings import WAREHOUSE_URL_VARIABLE
from spark_jobs.warehouse.connection import PATIENCE, connect

DEFAULT_CONNECTION_ID = "freshet_warehouse"
# For sessions that need fewer rights than the loader's; where they are not defined, the loader's is used.
READER_CONNECTION_ID = "freshet_reader"
VALIDATOR_CONNECTION_ID = "freshet_validator"


def warehouse_url(connection_id: str) -> str:
    """The warehouse's libpq URL, for code that runs in a task: of this connection, else of the loader's.

    Raises:
        WarehouseUnavailableError: neither a connection nor the environment variable is defined.
    """
    for candidate in _candidates(connection_id):
        with suppress(AirflowNotFoundException):
            return _url(BaseHook.get_connection(candidate))
    return _url_of_environment(connection_id)


def reader_url() -> str:
    """The warehouse's libpq URL for code of tasks or of the API server that only reads. Raises like `warehouse_url`."""
    return warehouse_url(READER_CONNECTION_ID)


async def warehouse_url_in_trigger(connection_id: str) -> str:
    """The warehouse's libpq URL, for code that runs in a trigger. Falls back and raises like `warehouse_url`."""
    for candidate in _candidates(connection_id):
        with suppress(AirflowNotFoundException):
            return _url(await BaseHook.aget_connection(candidate))
    return _url_of_environment(connection_id)


def session(url: str, name: str, patience: timedelta = PATIENCE) -> extensions.connection:
    """Connect to the warehouse in autocommit mode, so that each function of `drivers` is one transaction.

    Args:
        url: libpq URL.
        name: what pg_stat_activity shows as the session's application_name.
        patience: how long to wait for a warehouse that does not answer.

    Raises:
        WarehouseUnavailableError: it did not answer in time.
    """
    connection = connect(url, application_name=name, patience=patience)
    connection.autocommit = True
    return connection


def _candidates(connection_id: str) -> list[str]:
    return list(dict.fromkeys([connection_id, DEFAULT_CONNECTION_ID]))


def _url_of_environment(connection_id: str) -> str:
    url = os.environ.get(WAREHOUSE_URL_VARIABLE)
    if not url:
        raise WarehouseUnavailableError(
            f"Airflow does not know the warehouse. Define the connection {connection_id} (type postgres) "
            f"or set {WAREHOUSE_URL_VARIABLE}."
        )
    return url


def _url(connection: Connection) -> str:
    query: dict[str, Any] = {name: str(value) for name, value in connection.extra_dejson.items()}
    host = connection.host
    if host and host.startswith("/"):  # the folder of a Unix socket
        host, query["host"] = None, host
    url = URL.create(
        "postgresql",
        username=connection.login or None,
        password=connection.password or None,
        host=host or None,
        port=connection.port,
        database=connection.schema or None,
        query=query,
    )
    return url.render_as_string(hide_password=False)
