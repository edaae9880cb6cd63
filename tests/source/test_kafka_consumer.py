"""The consumer takes of a topic what confluent-kafka's own takes, record for record."""

from __future__ import annotations

import ctypes
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from spark_jobs.source.kafka import consumer as kafka_consumer
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.kafka.consumer import KafkaConsumer
from tests.kafka_broker import Topic


def settings(topic: Topic) -> dict[str, str]:
    return {"bootstrap.servers": topic.servers, "group.id": "test", "enable.partition.eof": "true", "log_level": "0"}


def test_records_are_those_that_a_consumer_of_objects_takes(topic: Topic) -> None:
    topic.send([b"one", None, b"", bytes(range(256)) * 400, *[b"%d" % number for number in range(500)]])
    topic.send([None, b"then"], timestamp=datetime(2020, 1, 2, tzinfo=UTC))
    ours, theirs = KafkaConsumer(settings(topic)), Consumer(settings(topic))
    ours.assign(topic.name, 0, 1)
    read = ours.consume(1000, 5.0)
    theirs.assign([TopicPartition(topic.name, 0, 1)])
    messages = [each for each in theirs.consume(506, 5.0) if each.error() is None]
    theirs.close()
    assert len(messages) == 505
    assert read.values.to_pylist() == [each.value() for each in messages]
    assert read.offsets.tolist() == [each.offset() for each in messages] == [*range(1, 506)]
    assert read.timestamps.tolist() == [each.timestamp()[1] for each in messages]
    assert read.epochs.tolist() == [each.leader_epoch() for each in messages]
    assert [(offset, error.code()) for offset, error in read.told] == [(506, KafkaError._PARTITION_EOF)]
    assert ours.watermarks(topic.name, 0, 5.0) == (0, 506)
    assert KafkaConsumer(settings(topic)).consume(1, 0.01).told == [], "others end with those who use them"
    ours.unassign()
    assert len(ours.consume(10, 0.01).values) == 0


def test_a_client_gets_ready_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    for name in ("read_heads", "take_values"):
        monkeypatch.setattr(kafka_consumer, name, lambda messages, *_, name=name: called.append((name, len(messages))))
    KafkaClient("localhost:1", "test").get_ready()
    assert called == [("read_heads", 0), ("take_values", 0)]


def test_messages_that_can_not_be_read_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[int] = []

    def consume(_queue: int, _milliseconds: int, messages: int, most: int) -> int:
        np.ctypeslib.as_array((ctypes.c_size_t * most).from_address(messages))[:2] = 7, 8
        return 2

    def no_memory(*_: object) -> None:
        raise MemoryError

    consumer = KafkaConsumer({"group.id": "test"})
    functions = SimpleNamespace(
        rd_kafka_consume_batch_queue=consume,
        rd_kafka_message_destroy=given_back.append,
        rd_kafka_message_timestamp=ctypes.c_void_p(1),
        rd_kafka_message_leader_epoch=ctypes.c_void_p(1),
    )
    monkeypatch.setattr(consumer, "_functions", functions)
    monkeypatch.setattr(kafka_consumer, "read_heads", no_memory)
    with pytest.raises(MemoryError):
        consumer.consume(10, 0.0)
    assert given_back == [7, 8]


def test_a_long_slice_is_fetched_without_pauses(topic: Topic) -> None:
    """By default the client pauses for a second whenever enough is fetched ahead."""
    topic.send([b"x" * 200] * 60_000)

    def seconds(**changes: str) -> float:
        client = KafkaClient(topic.servers, "pauses", tuple(changes.items()))
        client.get_ready()
        consumer = client.consumer()
        consumer.assign(topic.name, 0, 0)
        time.sleep(0.2)  # so that enough is there
        began, count = time.monotonic(), 0
        while count < 60_000:
            count += len(consumer.consume(16_384, 0.1).offsets)
        consumer.unassign()
        return time.monotonic() - began

    assert seconds() < seconds(**{"fetch.queue.backoff.ms": "1000"}) / 2


def test_what_the_broker_does_not_have_is_told(topic: Topic) -> None:
    consumer = KafkaConsumer(settings(topic) | {"auto.offset.reset": "error"})
    consumer.assign(topic.name, 0, 7)
    ((_, error),) = consumer.consume(1, 5.0).told
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    assert "out of range" in error.str()
    with pytest.raises(KafkaException, match="Unknown partition"):
        consumer.watermarks(topic.name, 5, 5.0)
