"""How clients of Kafka are set up: brokers, the connection's secrets, and what the stream needs of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from spark_jobs.definition.kinds.kafka import Kafka
from spark_jobs.errors import PipelineDefinitionError
from spark_jobs.secret_text import SecretText
from spark_jobs.source.connections import read_connection
from spark_jobs.source.kafka.consumer import KafkaConsumer
from spark_jobs.source.kind import SourceStream

# What the stream decides itself, whatever a connection says.
_OWN = {
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",  # never from the beginning unasked
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
    # No group is joined. So long a client that ends waits for the coordinator of a commit, 45 s by default.
    "session.timeout.ms": "1000",
}
_DEFAULTS = {
    # Brokers answer that there is nothing more after this time; a range that ends in a gap waits for it.
    "fetch.wait.max.ms": "20",
    "fetch.error.backoff.ms": "100",
    "queued.max.messages.kbytes": "32768",
    "queued.min.messages": "20000",  # what is fetched ahead beyond the end of a slice is fetched for nothing
    "fetch.queue.backoff.ms": "5",  # once so many are there; by default it is a second, and they are read long before
    "reconnect.backoff.max.ms": "2000",
    "socket.timeout.ms": "10000",
    "log_level": "0",  # errors come as such; its own lines on standard error would come once a second
}


@dataclass(frozen=True)
class KafkaClient:
    """Makes clients; travels inside pickled tasks, without what the settings are set to.

    Attributes:
        servers: brokers to begin with.
        group: the consumer group that positions are told to.
        settings: librdkafka's settings of the connection; they may hold secrets, and are in no text of this object.
    """

    servers: str
    group: str
    settings: tuple[tuple[str, SecretText], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, kafka: Kafka, pipeline: str, stream: str | None = None) -> KafkaClient:
        """The client of a pipeline's topic, with its connection as the environment has it.

        Args:
            kafka: the topic.
            pipeline: the pipeline's name.
            stream: the stream's; None: the pipeline has one only. Several may read one topic, each to its own position.

        Raises:
            PipelineDefinitionError: the environment has no such connection, or it can't be understood.
        """
        settings = {} if kafka.connection is None else _connection_settings(kafka.connection)
        group = f"freshet-{pipeline}" if stream is None else f"freshet-{pipeline}-{stream}"
        return cls(kafka.servers, group, tuple(sorted(settings.items())))

    @classmethod
    def of_stream(cls, stream: SourceStream) -> KafkaClient:
        """That of a stream's topic; raises as `of`."""
        return cls.of(stream.source.settings, stream.pipeline, stream.name)

    def admin(self, on_error: Callable[[KafkaError], None]) -> AdminClient:
        """A new client that asks for topics and offsets.

        Args:
            on_error: takes what goes wrong with connections, while the client is polled.
        """
        quick = {name: _DEFAULTS[name] for name in ("reconnect.backoff.max.ms", "socket.timeout.ms", "log_level")}
        with _refusals_told(self):
            settings = {**quick, **dict(self.settings), "bootstrap.servers": self.servers, "error_cb": on_error}
            return AdminClient(settings, logger=_silent())

    def consumer(self) -> KafkaConsumer:
        """This process's consumer, which is given partitions by hand and never joins the group."""
        return _consumer(self)

    def get_ready(self) -> None:
        """Have this process's consumer, and the compiled code that it reads with, before the first records come."""
        self.consumer().consume(1, 0.0)


@cache
def _consumer(client: KafkaClient) -> KafkaConsumer:
    own = {**_OWN, "bootstrap.servers": client.servers, "group.id": client.group}
    with _refusals_told(client):
        return KafkaConsumer({**_DEFAULTS, **dict(client.settings), **own})


@contextmanager
def _refusals_told(client: KafkaClient) -> Iterator[None]:
    """Tell of settings that librdkafka does not take, without their values."""
    try:
        yield
    except (KafkaException, TypeError, ValueError) as error:  # the latter two where a setting is to be no text
        told = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        for _, value in client.settings:
            told = told.replace(value, "***") if value else told
        raise PipelineDefinitionError(
            f"Kafka's client does not take the settings of kafka.connection: {told}. Allowed in the "
            "connection's extra: librdkafka's configuration properties, as it spells them."
        ) from None


@cache
def _silent() -> logging.Logger:
    """Takes librdkafka's own lines, which come once a second while a broker is away; what matters comes as errors."""
    logger = logging.getLogger("spark_jobs.source.kafka.client.librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def _connection_settings(connection_id: str) -> dict[str, SecretText]:
    connection = read_connection(connection_id, "kafka.connection", "kafka")
    settings = {name: _setting(value) for name, value in connection.extra.items()}
    if connection.user:
        settings.setdefault("sasl.username", SecretText(connection.user))
        settings.setdefault("sasl.password", SecretText(connection.password or ""))
        settings.setdefault("sasl.mechanism", SecretText("PLAIN"))
        settings.setdefault("security.protocol", SecretText("SASL_SSL"))
    return settings


def _setting(value: Any) -> SecretText:
    return SecretText(str(value).lower() if isinstance(value, bool) else value)
