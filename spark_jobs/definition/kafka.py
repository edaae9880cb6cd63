"""A topic of Kafka as a source: how it is written in a pipeline's definition, and the columns that its records have."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.fields import Duration, Part, Word, connection_id
from spark_jobs.definition.problems import shown
from spark_jobs.timestamps import parse_timestamp

TOPIC, PARTITION, OFFSET, TIMESTAMP = "_topic", "_partition", "_offset", "_timestamp"
KAFKA_COLUMNS = {
    TOPIC: StreamType("string"),
    PARTITION: StreamType("int"),
    OFFSET: StreamType("bigint"),
    TIMESTAMP: StreamType("timestamp"),
}
"""Columns that a record of Kafka has besides those of its value."""

PLACE_COLUMNS = (TOPIC, PARTITION, OFFSET)
"""Where a record lies: of them alone the event id is made where the definition names no other."""


def _topic(text: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", text) or text in {".", ".."}:
        raise ValueError(f"{shown(text)} is not a topic's name. Allowed: letters, digits, '.', '_' and '-'.")
    return text


def _servers(text: str) -> str:
    for server in text.split(","):
        if not re.fullmatch(r"\s*[^\s,/:@]+:\d{1,5}\s*|\s*\[[0-9a-fA-F:]+\]:\d{1,5}\s*", server):
            allowed = "Allowed: host:port, several with commas between them, for example kafka-1:9092,kafka-2:9092."
            raise ValueError(f"{shown(server.strip())} is not a server. {allowed}")
    return text


def _start(text: str) -> str:
    if text not in {"earliest", "latest"}:
        try:
            parse_timestamp(text)
        except ValueError:
            allowed = "Allowed: earliest, latest, or a time, for example 2024-12-31T00:00:00Z."
            raise ValueError(f"{shown(text)} is not allowed. {allowed}") from None
    return text


def _written(value: Any) -> Any:
    """A time as text: YAML reads one that is not in quotes."""
    return value.isoformat() if isinstance(value, datetime) else value


class Kafka(Part):
    """A topic.

    Attributes:
        servers: brokers to begin with, host:port, several with commas between them; others are learnt from them.
        topic: its name.
        start: from where a stream that has read nothing yet reads the partitions that there are: what is the oldest
            still, what comes from now on, or what has come since a time. Partitions that are added later are read
            from their beginning.
        connection: id of the Airflow connection that holds user, password and client settings (SASL, TLS); None: the
            brokers ask for none.
        tombstones: what becomes of records without a value: rejected, or ignored, which is counted.
        notice_partitions: within what time partitions that are added are noticed, and a topic that is made anew.
        made_anew: a topic that was deleted and made anew under its name: refuse to read it until somebody has looked,
            or read it from its beginning.
    """

    servers: Annotated[str, AfterValidator(_servers)] = Field(examples=["servers: localhost:9092"])
    topic: Annotated[str, AfterValidator(_topic)] = Field(examples=["topic: orders"])
    start: Annotated[str, BeforeValidator(_written), AfterValidator(_start)] = Field(
        default="earliest", examples=["start: earliest"]
    )
    connection: Annotated[Word, AfterValidator(connection_id)] | None = Field(
        default=None, examples=["connection: kafka_orders"]
    )
    tombstones: Literal["reject", "ignore"] = Field(default="reject", examples=["tombstones: ignore"])
    notice_partitions: Duration = Field(default=timedelta(seconds=5), examples=["notice_partitions: 5s"])
    made_anew: Literal["refuse", "read"] = Field(default="refuse", examples=["made_anew: refuse"])
