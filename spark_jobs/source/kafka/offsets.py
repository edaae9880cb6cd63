"""Asks the brokers which partitions a topic has, and for their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from spark_jobs.errors import SourceAwayError
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.kafka.partition import Partition

_ANSWER_SECONDS = 10.0


class TopicOffsets:
    """The offsets of one topic. Of what is newest only that counts which no open transaction comes before.

    Args:
        client: makes clients.
        topic: its name.
    """

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self._refusal = ""
        self._admin = client.admin(self._note)
        self._servers = client.servers
        self._topic = topic

    def described(self) -> tuple[str, int]:
        """Id of the topic, and how many partitions it has.

        Raises:
            SourceAwayError: no broker answers, or there is no such topic.
        """
        try:
            asked = self._admin.describe_topics(TopicCollection([self._topic]), request_timeout=_ANSWER_SECONDS)
            described = asked[self._topic].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                text = (
                    f"There is no topic {self._topic} at {self._servers}. Make it; the stream waits until it is there."
                )
                raise SourceAwayError(text) from None
            raise self._away(error.args[0].str()) from None
        self._refusal = ""
        return str(described.topic_id), len(described.partitions)

    def of(self, partitions: Sequence[Partition], spec: OffsetSpec) -> dict[Partition, int | str]:
        """The offset of each partition, or why it is not known. One question to each broker.

        Raises:
            SourceAwayError: it is known of none.
        """
        asked = {TopicPartition(each.topic, each.number): spec for each in partitions}
        if not asked:
            return {}
        committed = IsolationLevel.READ_COMMITTED
        answers = self._admin.list_offsets(asked, isolation_level=committed, request_timeout=_ANSWER_SECONDS)
        by_number = {where.partition: answer for where, answer in answers.items()}
        found = {each: _offset_of(by_number[each.number]) for each in partitions}
        troubles = [each for each in found.values() if isinstance(each, str)]
        if len(troubles) == len(found):
            raise self._away(troubles[0])
        return found

    def _note(self, error: KafkaError) -> None:
        """Remember that a broker lets us not in: all that a question tells of it is that there is no answer."""
        if error.code() in {KafkaError._AUTHENTICATION, KafkaError._SSL}:
            self._refusal = f"{error.str()}. Look at user, password and certificates of kafka.connection"

    def _away(self, told: str) -> SourceAwayError:
        self._admin.poll(0)
        told = self._refusal or told
        return SourceAwayError(
            f"Kafka's topic {self._topic} at {self._servers} can't be read: {told}. The stream waits until it can; "
            "nothing is lost."
        )


def _offset_of(answer: Any) -> int | str:
    try:
        return int(answer.result().offset)
    except KafkaException as error:
        return str(error.args[0].str())
