"""Airflow's connections as the environment has them: user, password and settings of what a source is read from."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from spark_jobs.errors import PipelineDefinitionError


@dataclass(frozen=True)
class Connection:
    """A connection; nothing of it is in any text of this object.

    Attributes:
        user: None: there is none.
        password: of the user.
        extra: further settings.
    """

    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    extra: dict[str, Any] = field(repr=False)


def connection_variable(connection: str) -> str:
    """The environment variable that holds an Airflow connection for those that can't ask Airflow, by its id."""
    return f"AIRFLOW_CONN_{connection.upper()}"


def read_connection(connection: str, key: str, kind: str) -> Connection:
    """The connection of an id.

    Args:
        connection: its id.
        key: of the definition that asks for it.
        kind: Airflow's type of such connections. What a connection of another type holds is meant for another server.

    Raises:
        PipelineDefinitionError: the environment has no such connection, it is of another type, or it can't be
            understood.
    """
    variable = connection_variable(connection)
    text = os.environ.get(variable)
    if not text:
        raise PipelineDefinitionError(
            f"{key}: there is no connection {connection!r} here. Make it in Airflow (type {kind}), or set the "
            f"environment variable {variable}, as JSON or URI, for the process that runs the stream."
        )
    try:
        parts = json.loads(text) if text.lstrip().startswith("{") else _from_uri(text)
        extra = parts.get("extra") or {}
        extra = json.loads(extra) if isinstance(extra, str) else extra
        found = Connection(parts.get("login"), parts.get("password"), {str(name): each for name, each in extra.items()})
        of_kind = parts.get("conn_type") == kind
    except (ValueError, AttributeError):
        # Neither the text nor the error may be told: they may hold the password.
        example = f'{{"conn_type": "{kind}", "login": ..., "password": ..., "extra": {{}}}}'
        text = f"{variable} is not a connection. Allowed: Airflow's JSON, for example {example}; or its URI."
        raise PipelineDefinitionError(text) from None
    if not of_kind:
        raise PipelineDefinitionError(
            f"{key}: the connection {connection!r} is not of type {kind}, so that its password is not meant for this "
            f"server. Name a connection of type {kind}, or give this one that type."
        )
    return found


def _from_uri(text: str) -> dict[str, Any]:
    uri = urlsplit(text)
    query = dict(parse_qsl(uri.query))
    extra = json.loads(query["__extra__"]) if "__extra__" in query else query
    return {
        "conn_type": uri.scheme,
        "login": unquote(uri.username or ""),
        "password": unquote(uri.password or ""),
        "extra": extra,
    }
