"""What a topic of Kafka still holds of what the ledger says was read, partition by partition, and reads it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from confluent_kafka.admin import OffsetSpec
from psycopg2 import extensions

from spark_jobs.definition import Source
from spark_jobs.errors import SourceAwayError
from spark_jobs.proof.landed_records import LandedRecords, landed_records
from spark_jobs.proof.landing_folder import AbsentFile, Landing, LedgerRange, ledger_ranges, poison_in
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.kafka.offsets import TopicOffsets
from spark_jobs.source.kafka.partition import OffsetSlice, Partition
from spark_jobs.source.kafka.reading import read_offsets
from spark_jobs.source.records.record_decoder import RecordDecoder


@dataclass(frozen=True)
class LandedPartition:
    """What a partition holds that the stream is to read.

    Attributes:
        unit: its name in the ledger.
        partition: the partition.
        client: of its topic.
        first: the oldest offset that it still has and that is to be read.
        size: offset after its newest stable record.
        arrived: when its records arrived; the first of them, for all that the ledger knows.
        ranges: those of it, by where they begin.
    """

    unit: str
    partition: Partition
    client: KafkaClient
    first: int
    size: int
    arrived: datetime
    ranges: Sequence[LedgerRange]

    @property
    def is_planned(self) -> bool:
        """Whether the ledger has all of it, loaded or not."""
        return self._reached() >= self.size

    @property
    def has_gap(self) -> bool:
        """Whether the ledger has what comes later, and lacks something before."""
        return self._reached() < max((each.last for each in self.ranges), default=0)

    def records(self, source: Source) -> Iterator[LandedRecords]:
        """Its records, block by block; as of a landed file.

        Raises:
            UnreadableFileError: some were removed meanwhile; after all others.
            SourceAwayError: no broker answers for the partition.
        """
        whole = OffsetSlice(0, self.partition, self.first, self.size, None, poison_in(self.ranges))
        return landed_records(read_offsets(whole, RecordDecoder.of(source), self.client), source)

    def _reached(self) -> int:
        reached = self.first
        for each in self.ranges:
            reached = max(reached, each.last) if each.first <= reached else reached
        return reached


def accounted_partitions(
    cursor: extensions.cursor, landing: Landing, source: Source
) -> Iterator[LandedPartition | AbsentFile]:
    """All partitions of the source's topic, and those that the ledger knows, with their ranges.

    Args:
        cursor: in the proof's transaction.
        landing: of the source.
        source: a topic of Kafka.

    Raises:
        SourceAwayError: not all of the topic's partitions answer, or it is not there.
    """
    assert source.kafka is not None
    client = KafkaClient.of(source.kafka, landing.pipeline)
    there = _watermarks(client, source.kafka.topic)
    for unit, of_unit in groupby(ledger_ranges(cursor, landing.pipeline, landing.prefix), lambda each: each.unit):
        ranges = sorted(of_unit, key=lambda each: each.first)
        partition = Partition.of(unit.removeprefix(landing.prefix))
        marks = None if partition is None else there.pop(partition, None)
        if partition is None or marks is None:
            yield AbsentFile(unit, [each for each in ranges if _was_to_be_read(each)], is_changed=False)
        else:
            yield from _with_ranges(unit, partition, marks, ranges, client)
    for partition, marks in there.items():
        yield LandedPartition(landing.prefix + partition.unit, partition, client, *marks, datetime.now(UTC), ())


def _watermarks(client: KafkaClient, topic: str) -> dict[Partition, tuple[int, int]]:
    """The oldest offset of each partition, and the one after its newest record."""
    offsets = TopicOffsets(client, topic)
    topic_id, count = offsets.described()
    partitions = [Partition(topic, number, topic_id) for number in range(count)]
    oldest, newest = (offsets.of(partitions, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
    for each in partitions:
        for answer in (oldest[each], newest[each]):
            if isinstance(answer, str):
                raise SourceAwayError(f"{each} of Kafka can't be read: {answer}. Verify again when it can.")
    return {each: (int(oldest[each]), int(newest[each])) for each in partitions}


def _with_ranges(
    unit: str, partition: Partition, marks: tuple[int, int], ranges: Sequence[LedgerRange], client: KafkaClient
) -> Iterator[LandedPartition | AbsentFile]:
    oldest, end = marks
    to_be_read = [each for each in ranges if _was_to_be_read(each)]
    start = max((each.last for each in ranges if not _was_to_be_read(each)), default=0)
    gone = [_gone(each, oldest) for each in to_be_read if each.first < oldest]
    if gone:
        yield AbsentFile(unit, gone, is_changed=False)
    own = [_cut(each, max(each.first, oldest), each.last) for each in to_be_read if each.last > oldest]
    seen_ns = min((each.modified_ns for each in to_be_read if each.modified_ns is not None), default=None)
    arrived = datetime.now(UTC) if seen_ns is None else datetime.fromtimestamp(seen_ns / 1e9, UTC)
    first = max(start, oldest)
    yield LandedPartition(unit, partition, client, first, end, arrived, own)


def _gone(each: LedgerRange, oldest: int) -> LedgerRange:
    """The part of a range that lies before the oldest offset. It had no more records than offsets."""
    last = min(each.last, oldest)
    return _cut(each, each.first, last, None if each.records is None else min(each.records, last - each.first))


def _was_to_be_read(each: LedgerRange) -> bool:
    """Whether it is not what lies before the start of the stream."""
    return each.batch_no is not None or each.state != "loaded"


def _cut(each: LedgerRange, first: int, last: int, records: int | None = None) -> LedgerRange:
    """A part of a range, and how many records that has at most; None where that does not matter."""
    if (first, last) == (each.first, each.last):
        return each
    return each._replace(first=first, last=last, records=records)
