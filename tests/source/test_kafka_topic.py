"""A topic as a source, against a real broker and a real ledger: what is planned, read, resumed and refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from psycopg2 import extensions

from spark_jobs.control import drivers
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import Source
from spark_jobs.definition.kinds.kafka import Kafka
from spark_jobs.errors import PipelineDefinitionError, SourceAwayError, SourceRangeGoneError, UnreadableFileError
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.partition_positions import PartitionPositions
from spark_jobs.ledger.source_ranges import RangeEnd, SourceRange, close_ranges
from spark_jobs.local.embedded_kafka.broker import KafkaBroker
from spark_jobs.secret_text import SecretText
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.kafka import offsets as kafka_offsets
from spark_jobs.source.kafka import reading as kafka_reading
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.kafka.partition import OffsetSlice, Partition
from spark_jobs.source.kafka.reading import read_offsets
from spark_jobs.source.kafka.topic import KafkaTopic, fair_shares
from spark_jobs.source.records.record_decoder import RecordDecoder
from tests.kafka_broker import PASSWORD, Topic
from tests.waiting import wait_for

MEBIBYTE = 1 << 20


def records(first: int, last: int) -> list[bytes]:
    return [json.dumps({"id": number}).encode() for number in range(first, last)]


class Reader:
    """The part of a stream that reads: plans what is new, notes it in the ledger, reads it in slices."""

    def __init__(self, topic: Topic, warehouse: extensions.connection, **kafka: Any) -> None:
        self.source = Source.model_validate(
            {
                "kafka": {"servers": topic.servers, "topic": topic.name} | kafka,
                "format": "json",
                "schema": "id bigint",
                "event_time": "_timestamp",
            }
        )
        assert self.source.kafka is not None
        self.connection = warehouse
        self.client = KafkaClient.of(self.source.kafka, topic.name)
        register_pipeline(warehouse, "clicks", timedelta(seconds=5), "{}")
        self.epoch = drivers.take_over(warehouse, "clicks", log_file=None)
        self.topic = KafkaTopic(
            self.source.kafka, self.client, PartitionPositions("clicks", lambda: warehouse, lambda: self.epoch)
        )
        self.topic.resume(lambda _: [])

    def plan(self, most_bytes: int = MEBIBYTE) -> list[SourceRange]:
        """What a batch is to read, open in the ledger."""
        self.topic.look()
        ranges = self.topic.take(most_bytes)
        if ranges:
            batch_ledger.open_batch(self.connection, "clicks", self.epoch, ranges)
        return ranges

    def topic_partition(self) -> Partition:
        """Its first partition."""
        return next(iter(self.topic._next))

    def read(self, ranges: list[SourceRange], parts: int = 2) -> list[int]:
        """The ids of what lies in ranges."""
        return [number for arrivals in self.arrivals(ranges, parts) for number in arrivals.tuples["id"].to_pylist()]

    def arrivals(self, ranges: list[SourceRange], parts: int) -> list[Arrivals]:
        """What lies in ranges."""
        return [
            arrivals
            for pieces in self.topic.pieces(list(enumerate(ranges)), parts)
            for piece in pieces
            for arrivals in read_offsets(piece, RecordDecoder.of(self.source), self.client)
        ]

    def load(self) -> list[int]:
        """The ids of what is new; it is read, and noted in the ledger as that."""
        (planned,) = self.plan()
        arrivals = self.arrivals([planned], 1)
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute("SELECT max(batch_no) FROM freshet.batch")
            ((batch_no,),) = cursor.fetchall()
            records = sum(each.records for each in arrivals)
            close_ranges(cursor, batch_no, [RangeEnd(records, mark=arrivals[-1].mark if arrivals else None)])
        return [number for each in arrivals for number in each.tuples["id"].to_pylist()]

    def give_up(self) -> None:
        """What the newest batch was to read is not read."""
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute("SELECT max(batch_no) FROM freshet.batch")
            ((batch_no,),) = cursor.fetchall()
            close_ranges(cursor, batch_no, [RangeEnd(None)])


@pytest.fixture
def reader(topic: Topic, connection: extensions.connection) -> Iterator[Any]:
    return lambda **kafka: Reader(topic, connection, **kafka)


def test_another_driver_goes_on_where_the_ledger_is(topic: Topic, reader: Any) -> None:
    topic.send(records(0, 10))
    first = reader()
    assert sorted(first.read(first.plan())) == list(range(10))
    topic.send(records(10, 15))
    second = reader()
    assert second.read(second.plan()) == list(range(10, 15))
    assert second.plan() == []


@pytest.mark.parametrize(("start", "begins"), [("earliest", 0), ("latest", 5), ("a time", 3)])
def test_a_stream_begins_where_its_definition_says_also_after_a_restart(
    topic: Topic, reader: Any, start: str, begins: int
) -> None:
    now = datetime.now(UTC)
    start = (now - timedelta(minutes=20)).isoformat() if start == "a time" else start
    topic.send(records(0, 3), timestamp=now - timedelta(minutes=30))
    topic.send(records(3, 5), timestamp=now - timedelta(minutes=10))
    reader(start=start)  # notes it, and reads nothing
    topic.send(records(5, 7))
    later = reader(start=start)
    assert later.read(later.plan()) == list(range(begins, 7))


def test_aborted_transactions_and_their_marks_are_no_loss(topic: Topic, reader: Any) -> None:
    topic.send(records(0, 2))
    with topic.transaction(records(100, 103), commit=False):
        pass
    with topic.transaction(records(2, 4)):
        pass
    stream = reader()
    ranges = stream.plan()
    assert sum(each.last - each.first for each in ranges) == 9  # with the marks of two transactions
    assert stream.read(ranges) == [0, 1, 2, 3]


def test_what_an_open_transaction_has_written_is_not_planned(topic: Topic, reader: Any) -> None:
    topic.send(records(0, 2))
    stream = reader()
    with topic.transaction(records(2, 4)):
        assert stream.read(stream.plan()) == [0, 1]
        assert stream.plan() == []
    topic.wait_until(lambda: stream.read(stream.plan()) == [2, 3])  # it is marked some time after it is committed


def test_partitions_that_are_added_are_read_from_their_beginning(topic: Topic, reader: Any) -> None:
    topic.send(records(0, 2))
    stream = reader(start="latest", notice_partitions="1ms")
    topic.add_partitions(3)
    topic.send(records(2, 4), partition=2)
    topic.wait_until(lambda: stream.read(stream.plan()) == [2, 3])


def test_one_partition_that_is_far_behind_does_not_hold_up_the_others(
    broker: KafkaBroker, topic: Topic, connection: extensions.connection
) -> None:
    hot = Topic(broker, f"{topic.name}-hot", 3)
    hot.send(records(100_000, 105_000))
    hot.send(records(200_000, 200_010), partition=1)
    hot.send(records(300_000, 300_500), partition=2)
    stream = Reader(hot, connection)
    each = len(records(100_000, 100_001)[0])
    shares = []
    for _ in range(3):
        taken = {part.unit.partition("@")[0]: part.last - part.first for part in stream.plan(900 * each)}
        shares.append([taken.get(f"{hot.name}:{number}", 0) for number in range(3)])
    assert shares == [[445, 10, 445], [845, 0, 55], [900, 0, 0]]
    waiting = dict.fromkeys([Partition(hot.name, number, "") for number in range(3)], 5)
    assert sum(fair_shares(waiting, 2).values()) == 3  # one of each, at least


def test_a_batch_is_bounded_in_bytes(topic: Topic, reader: Any) -> None:
    topic.send([json.dumps({"id": number, "note": "x" * 10_000}).encode() for number in range(300)])
    stream = reader()
    (planned,) = stream.plan(MEBIBYTE)
    assert 0.9 * MEBIBYTE < planned.bytes <= MEBIBYTE
    assert planned.last - planned.first == pytest.approx(104, abs=2)


def test_a_partition_is_read_by_several_tasks(topic: Topic, reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    topic.send(records(0, 1000))
    monkeypatch.setattr("spark_jobs.source.kafka.topic._SMALLEST_SLICE", 300)
    stream = reader()
    ranges = stream.plan()
    assert [len(stream.topic.pieces(list(enumerate(ranges)), parts)) for parts in (1, 2, 9)] == [1, 2, 4]
    assert sorted(stream.read(ranges, parts=9)) == list(range(1000))


def test_what_was_removed_after_it_was_planned_is_told_and_the_rest_is_read(topic: Topic, reader: Any) -> None:
    topic.send(records(0, 20))
    stream = reader()
    ((piece,),) = stream.topic.pieces(list(enumerate(stream.plan())), 1)
    topic.remove_before(15)
    reading = read_offsets(piece, RecordDecoder.of(stream.source), stream.client)
    assert next(reading).tuples["id"].to_pylist() == list(range(15, 20))
    with pytest.raises(UnreadableFileError, match=r"15 offsets of .* were removed by the topic's retention"):
        next(reading)


def test_an_end_before_the_position_is_refused(topic: Topic, reader: Any) -> None:
    topic.send(records(0, 3))
    stream = reader()
    (planned,) = stream.plan()
    beyond = replace(planned, first=3, last=50)
    batch_ledger.open_batch(stream.connection, "clicks", stream.epoch, [beyond])
    with pytest.raises(SourceAwayError, match="ends at 3 now"):
        reader().plan()


def test_a_log_that_was_cut_and_has_grown_past_what_was_read_is_not_read_on(
    broker: KafkaBroker, topic: Topic, reader: Any, tmp_path: Path
) -> None:
    topic.send(records(0, 10))
    stream = reader()
    assert stream.load() == list(range(10))
    data, copy = broker.folder / "data", tmp_path / "copy"
    broker.stop()
    try:
        shutil.copytree(data, copy)
        broker.start()
        topic.wait_until(topic.answering)
        topic.send(records(10, 20))
        assert reader().load() == list(range(10, 20))
        broker.stop()
        shutil.rmtree(data)
        shutil.copytree(copy, data)
    finally:
        broker.start()
    topic.wait_until(topic.answering)
    topic.send(records(100, 115))
    again = reader()
    with pytest.raises(SourceRangeGoneError, match="another record at offset 19 than the one that was read"):
        again.load()
    again.give_up()
    topic.send(records(115, 117))
    assert reader().load() == [115, 116]


def test_where_the_record_that_was_read_last_is_gone_the_next_ones_are_read(topic: Topic, reader: Any) -> None:
    with topic.transaction(records(0, 5)):
        pass
    stream = reader()
    topic.wait_until(lambda: stream.topic.look() or stream.topic.has_waiting)
    assert stream.load() == list(range(5))  # its last offset is the transaction's mark
    with topic.transaction(records(50, 80), commit=False):
        pass
    topic.send(records(5, 7))
    topic.wait_until(lambda: stream.topic.look() or stream.topic.has_waiting)
    assert stream.load() == [5, 6]
    topic.remove_before(39)
    topic.send(records(7, 9))
    assert stream.load() == [7, 8]


def test_a_slice_beyond_the_end_is_waited_for(topic: Topic, reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    topic.send(records(0, 3))
    stream = reader()
    (planned,) = stream.plan()
    partition = Partition.of(planned.unit)
    assert partition is not None
    monkeypatch.setattr(kafka_reading, "_END_OF_LOG_SECONDS", 0.3)
    for first in (0, 10):
        with pytest.raises(SourceRangeGoneError, match="ends at 3"):
            list(read_offsets(OffsetSlice(0, partition, first, 20), RecordDecoder.of(stream.source), stream.client))


def test_a_topic_that_is_not_there_is_waited_for(topic: Topic, connection: extensions.connection) -> None:
    name = topic.name
    topic.delete()
    with pytest.raises(SourceAwayError, match=f"There is no topic {name}"):
        Reader(topic, connection)


def test_others_see_in_the_consumer_group_how_far_the_stream_is(topic: Topic, reader: Any) -> None:
    topic.send(records(0, 7))
    stream = reader()
    stream.read(stream.plan())
    stream.topic.look()
    group = Consumer({"bootstrap.servers": topic.servers, "group.id": stream.client.group, "log_level": 0})
    where = TopicPartition(topic.name, 0)
    topic.wait_until(lambda: group.committed([where], timeout=10)[0].offset == 7)
    group.close()


def test_secrets_come_from_the_environment_and_are_in_no_text(
    topic: Topic, reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PipelineDefinitionError, match="AIRFLOW_CONN_KAFKA_CLICKS"):
        reader(connection="kafka_clicks")
    password = "not-for-logs"
    for text in (
        json.dumps({"conn_type": "kafka", "login": "me", "password": password, "extra": {"sasl.mechanism": "PLAIN"}}),
        f"kafka://me:{password}@?sasl.mechanism=PLAIN",
    ):
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_CLICKS", text)
        source = Source.model_validate(
            {
                "kafka": {"servers": topic.servers, "topic": topic.name, "connection": "kafka_clicks"},
                "format": "json",
                "schema": "id bigint",
                "event_time": "_timestamp",
            }
        )
        assert source.kafka is not None
        client = KafkaClient.of(source.kafka, "clicks")
        assert dict(client.settings)["sasl.password"] == password
        assert dict(client.settings)["security.protocol"] == "SASL_SSL"
        assert password not in f"{client} {client!r} {source}"
    for of_another in (f"postgres://me:{password}@bank/money", json.dumps({"login": "me", "password": password})):
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_CLICKS", of_another)
        with pytest.raises(PipelineDefinitionError, match="not of type kafka") as refused:
            KafkaClient.of(source.kafka, "clicks")
        assert password not in str(refused.value)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_CLICKS", "{" + password)
    with pytest.raises(PipelineDefinitionError, match="is not a connection") as refused:
        KafkaClient.of(source.kafka, "clicks")
    assert password not in str(refused.value)


def test_a_setting_that_is_to_be_no_text_is_refused_without_its_value() -> None:
    client = KafkaClient("localhost:1", "g", (("stats_cb", SecretText("s3cret")),))
    with pytest.raises(PipelineDefinitionError, match=r"does not take the settings of kafka\.conn") as told:
        client.consumer()
    assert "stats_cb" in str(told.value)
    assert "s3cret" not in str(told.value)


def test_an_open_batch_of_files_asks_what_to_do(reader: Any) -> None:
    stream = reader()
    with pytest.raises(SourceAwayError, match=r"(?s)a\.json.*changed to Kafka.*--give-up a\.json"):
        stream.read([SourceRange("a.json", 0, 70, 70, None, kind="files")])
    stream.topic._positions.prefix = "orders/"
    told = r"read orders/a\.json when stream orders was changed to Kafka.*--give-up orders/a\.json"
    with pytest.raises(SourceAwayError, match=f"(?s){told}"):
        stream.read([SourceRange("a.json", 0, 70, 70, None, kind="files")])


def test_two_streams_of_one_topic_tell_two_groups_how_far_they_are() -> None:
    kafka = Kafka(servers="localhost:1", topic="t")
    of = [KafkaClient.of(kafka, "clicks", stream).group for stream in (None, "shown", "clicked")]
    assert of == ["freshet-clicks", "freshet-clicks-shown", "freshet-clicks-clicked"]


def test_a_user_is_let_in_by_tls_and_password(
    topic: Topic, reader: Any, connected: Callable[[str], dict[str, str]]
) -> None:
    topic.send(records(0, 100))
    stream = reader(**connected(PASSWORD))
    assert sorted(stream.read(stream.plan())) == list(range(100))


@pytest.mark.parametrize("wrong", ["password", "certificate"])
def test_a_user_who_is_not_let_in_is_told_why_and_the_password_is_not(
    topic: Topic, reader: Any, connected: Callable[[str], dict[str, str]], monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setattr(kafka_offsets, "_ANSWER_SECONDS", 1.0)
    keys = connected("wr0ng%word")
    if wrong == "certificate":
        del_ca = json.loads(os.environ["AIRFLOW_CONN_SHOP_KAFKA"]) | {"extra": {}}
        monkeypatch.setenv("AIRFLOW_CONN_SHOP_KAFKA", json.dumps(del_ca))
    told = "Invalid username or password" if wrong == "password" else "certificate verify failed"
    with pytest.raises(SourceAwayError, match=f"(?s){told}.* of kafka.connection") as refused:
        reader(**keys)
    assert "wr0ng" not in str(refused.value)


def test_what_compaction_took_out_is_no_loss(
    broker: KafkaBroker, topic: Topic, connection: extensions.connection
) -> None:
    compact = Topic(
        broker,
        f"{topic.name}-compact",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
        segment_ms="100",
        min_compaction_lag_ms="0",
        delete_retention_ms="0",
    )
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})
    stream = Reader(compact, connection)

    def left() -> list[int]:
        stream.topic.resume(lambda _: [])
        piece = OffsetSlice(0, stream.topic_partition(), 0, end)
        decoder = RecordDecoder.of(stream.source)
        tables = [arrivals.tuples for arrivals in read_offsets(piece, decoder, stream.client)]
        return [number for table in tables for number in table["id"].to_pylist()]

    end = 0
    for number in range(30):
        producer.produce(compact.name, records(number, number + 1)[0], key=b"k")
        assert producer.flush(30) == 0
        end += 1
        time.sleep(0.01)
    time.sleep(0.15)  # the segment is closed by the next record that comes after this
    producer.produce(compact.name, records(30, 31)[0], key=b"other")
    assert producer.flush(30) == 0
    end += 1
    wait_for(lambda: len(left()) < 10, "the log cleaner")
    assert stream.read(stream.plan())[-1] == 30
    assert stream.plan() == []


@pytest.mark.parametrize(
    "partitions", [200, pytest.param(1000, marks=pytest.mark.slow)]
)  # which the broker makes slowly
def test_hundreds_of_partitions_are_read_in_turn(
    broker: KafkaBroker, topic: Topic, connection: extensions.connection, partitions: int
) -> None:
    wide = Topic(broker, f"{topic.name}-wide", partitions)
    stream = Reader(wide, connection)
    numbers = range(0, partitions, partitions // 8)
    for number in numbers:
        wide.send(records(number, number + 1), partition=number)
    wide.send(records(1000, 3000), partition=7)
    taken = stream.plan(most_bytes=1)
    assert len(taken) == len(numbers) + 1
    found = stream.read(taken)
    while taken := stream.plan():
        found += stream.read(taken)
    assert sorted(found) == [*numbers, *range(1000, 3000)]
    wide.delete()


def test_a_partition_without_leader_waits_shown_and_holds_no_other_back(
    topic: Topic, reader: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic.add_partitions(8)
    stream = reader()
    for number in range(8):
        topic.send(records(number, number + 1), partition=number)
    stream.topic.look()
    monkeypatch.setattr(
        kafka_offsets.TopicOffsets,
        "of",
        lambda self, partitions, spec, of=kafka_offsets.TopicOffsets.of: {
            each: offset if each.number in {0, 7} else "Leader not available"
            for each, offset in of(self, partitions, spec).items()
        },
    )
    assert sorted(stream.read(stream.plan())) == [0, 7]
    told = [record.message for record in caplog.records if "can't be read" in record.message]
    assert len(told) == 1
    assert f"{topic.name}:5 and 1 more: Leader not available" in told[0]
    lags = {lag.partition: lag for lag in stream.topic.unread.partitions}
    assert len(lags) == 8
    assert {(lag.end - lag.position, lag.trouble) for lag in lags.values()} == {(0, None), (1, "Leader not available")}
    monkeypatch.undo()
    assert sorted(stream.read(stream.plan())) == list(range(1, 7))
    assert all(lag.trouble is None for lag in stream.topic.unread.partitions)


def test_a_record_that_is_too_long_is_rejected_alone_and_cut(
    broker: KafkaBroker, topic: Topic, connection: extensions.connection
) -> None:
    large = Topic(broker, f"{topic.name}-large", max_message_bytes=str(20 << 20))
    too_long = b'{"id": 2, "more": "' + b"x" * (16 << 20) + b'"}'
    large.send([b'{"id": 1}', too_long, b"", b'{"id": 3}'])
    stream = Reader(large, connection)
    arrivals = stream.arrivals(stream.plan(64 * MEBIBYTE), 1)
    assert [number for each in arrivals for number in each.tuples["id"].to_pylist()] == [1, 3]
    held = [row for each in arrivals for group in each.rejected for row in group.tuples.to_pylist()]
    (cut,) = [row for row in held if row["_position"] == 1]
    digest = hashlib.sha256(too_long).hexdigest()
    assert cut["_record"] == too_long[: 64 << 10] + f"{len(too_long)} bytes, SHA-256 {digest}]".encode().join(
        [b"\xff[cut: ", b""]
    )
    reasons = [group.reason for each in arrivals for group in each.rejected if not isinstance(group.reason, str)]
    assert [each.to_pylist() for each in reasons] == [[f"malformed: too long: {len(too_long)} bytes, SHA-256 {digest}"]]
    assert sum(each.records for each in arrivals) == 4
