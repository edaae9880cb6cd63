"""Topics of Kafka, to which events are written record by record."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from spark_jobs.errors import WorkloadError

_FLUSH_SECONDS = 60.0
_ANSWER_SECONDS = 30.0


def make_topics(servers: str, names: list[str], partitions: int) -> None:
    """Make those topics that are not there yet.

    Raises:
        WorkloadError: the broker does not make one.
    """
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    asked = admin.create_topics([NewTopic(name, partitions, 1) for name in names], request_timeout=_ANSWER_SECONDS)
    for name, answer in asked.items():
        try:
            answer.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise WorkloadError(f"Topic {name} can't be made at {servers}: {error.args[0].str()}.") from None


class TopicWriter:
    """Writes events to topics, each once, however often the broker is away meanwhile.

    Args:
        servers: brokers to begin with, host:port with commas between them.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._refused: KafkaError | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "message.timeout.ms": 0,  # what was sent is waited for, however long the broker is away
                "linger.ms": 2,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )

    def send(self, topic: str, records: Iterable[bytes]) -> None:
        """Write records. Waits where too much is under way.

        Raises:
            WorkloadError: the broker has refused one.
        """
        for record in records:
            while True:
                try:
                    self._producer.produce(topic, record, on_delivery=self._delivered)
                    break
                except BufferError:
                    self._producer.poll(1.0)
        self._producer.poll(0)
        self._check()

    def finish(self) -> None:
        """Wait until the broker has all of them.

        Raises:
            WorkloadError: it has not.
        """
        left = self._producer.flush(_FLUSH_SECONDS)
        self._check()
        if left:
            raise WorkloadError(f"{left} events could not be written to Kafka at {self._servers}: no answer.")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        self._refused = self._refused or error

    def _check(self) -> None:
        if self._refused is not None:
            raise WorkloadError(f"Kafka at {self._servers} has refused an event: {self._refused.str()}.")
