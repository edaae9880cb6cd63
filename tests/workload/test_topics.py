"""The workload written to topics of a real broker, record by record."""

from __future__ import annotations

import itertools
import json
import threading
from datetime import timedelta

from confluent_kafka import Consumer, TopicPartition

from spark_jobs.local.embedded_kafka.broker import KafkaBroker
from spark_jobs.settings import Home
from spark_jobs.workload.order_stream import OrderStreamOptions, write_order_stream
from spark_jobs.workload.topics import make_topics
from tests.kafka_broker import Topic

NAMES = ["orders", "order_lines"]


def records(topic: Topic, name: str) -> list[bytes]:
    settings = {"bootstrap.servers": topic.servers, "group.id": "test", "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer(settings)
    partitions = topic.admin.list_topics(name, timeout=10).topics[name].partitions
    consumer.assign([TopicPartition(name, number, 0) for number in partitions])
    found, ends = [], 0
    while ends < len(partitions):
        for message in consumer.consume(1000, 1.0):
            if message.error() is None:
                found.append(message.value())
            else:
                ends += 1
    consumer.close()
    return found


def test_orders_and_lines_are_records_and_bad_ones_are_too(seeded_home: Home, topic: Topic) -> None:
    make_topics(topic.servers, NAMES, 2)
    make_topics(topic.servers, NAMES, 2)  # they may be there
    options = OrderStreamOptions(rate=1e5, orders=300, bad_share=0.3, servers=topic.servers)
    written = write_order_stream(seeded_home, options, threading.Event())
    for name in NAMES:
        found = records(topic, name)
        assert len(found) == written[name].events
        spoiled = [each for each in found if b"\xff\xfe" in each or not each.endswith(b"}")]
        assert len(spoiled) == written[name].bad["invalid_utf8"] + written[name].bad["malformed_json"] > 0
    keys = {json.loads(each)["l_orderkey"] for each in records(topic, "order_lines") if b"\xff\xfe" not in each}
    assert 250 < len(keys) <= 300
    assert not any(seeded_home.landing(name).exists() and any(seeded_home.landing(name).iterdir()) for name in NAMES)


def test_events_are_written_once_though_the_broker_is_killed(
    seeded_home: Home, broker: KafkaBroker, topic: Topic
) -> None:
    make_topics(topic.servers, NAMES, 2)
    ticks = itertools.count()
    with broker.kept_running():
        options = OrderStreamOptions(rate=1000.0, orders=500, tick=timedelta(milliseconds=20), servers=topic.servers)

        def kill_once(_: object) -> None:
            if next(ticks) == 5:
                broker.kill()

        before = [len(records(topic, name)) for name in NAMES]
        written = write_order_stream(seeded_home, options, threading.Event(), kill_once)
        after = [records(topic, name) for name in NAMES]
    for name, count, found in zip(NAMES, before, after, strict=True):
        assert len(found) - count == written[name].events > 0
