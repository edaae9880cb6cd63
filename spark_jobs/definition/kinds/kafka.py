"""A topic of Kafka as a source: how it is written in a pipeline's definition, and the columns that its records have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.fields import Duration, Part, Word, connection_id
from spark_jobs.definition.kinds.base import KindFacts
from spark_jobs.definition.problems import Problem, path_of, shown
from spark_jobs.timestamps import parse_timestamp

if TYPE_CHECKING:
    from spark_jobs.definition.source import Source
    from spark_jobs.settings import Home

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


class _KafkaFacts(KindFacts):
    name = "kafka"
    key = "kafka"
    settings = Kafka
    example = "kafka: {servers: localhost:9092, topic: orders}"
    description = (
        "The topic that they are read from. Where event_id is left out, topic, partition and offset tell events apart."
    )
    meaning = "a topic"
    title = "Kafka"
    records = "Kafka's records"
    bears: Literal["messages"] = "messages"
    columns = KAFKA_COLUMNS
    place = PLACE_COLUMNS
    is_log = True

    def identity(self, source: Source) -> str:
        topic: Kafka = source.settings
        return f"topic {topic.topic} of {', '.join(sorted(topic.servers.split(',')))}"

    def dataset(self, source: Source, home: Home) -> tuple[str, str]:
        topic: Kafka = source.settings
        return f"kafka://{topic.servers.split(',')[0].strip()}", topic.topic

    def connections(self, source: Source) -> Iterator[str]:
        if (connection := source.settings.connection) is not None:
            yield connection

    def problems(self, path: str, source: Source) -> Iterator[Problem]:
        for name in source.record_columns:
            if name.lower() in KAFKA_COLUMNS:
                text = f"column {name!r} has the name of a column that each record of Kafka has; choose another."
                yield Problem(path_of(path, "schema"), text)
        if source.settings.made_anew == "read" and set(source.event_id) <= KAFKA_COLUMNS.keys():
            text = "can't be read where offsets are the event id: the new topic's would be taken for the old one's."
            yield Problem(path_of(path, "kafka", "made_anew"), f"{text} Write refuse, or name columns as event_id.")


KAFKA = _KafkaFacts()
