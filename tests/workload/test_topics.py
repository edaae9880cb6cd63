"""The workload written to topics of a real broker, record by record."""

from __future__ import annotations

import json
import threading

from confluent_kafka import Consumer, TopicPartition

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
