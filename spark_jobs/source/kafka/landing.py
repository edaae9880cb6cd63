"""What a topic still holds of what the ledger says was read, partition by partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from confluent_kafka.admin import OffsetSpec
from psycopg2 import extensions

from spark_jobs.errors import SourceAwayError
from spark_jobs.ledger.stated_ranges import LedgerRange
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.kafka.offsets import TopicOffsets
from spark_jobs.source.kafka.partition import OffsetSlice, Partition
from spark_jobs.source.kind import SourceStream
from spark_jobs.source.landed_units import AbsentUnit, Fault, LandedUnit, Landing


@dataclass(frozen=True)
class LandedPartition(LandedUnit):
    """What a partition holds that the stream is to read.

    Attributes:
        unit: its name in the ledger.
        partition: the partition.
        first: the oldest offset that it still has and that is to be read.
        size: offset after its newest stable record.
        seen_at: when its records arrived; the first of them, for all that the ledger knows.
        ranges: those of it, by where they begin.
    """

    unit: str
    partition: Partition
    first: int
    size: int
    seen_at: datetime
    ranges: Sequence[LedgerRange]
    where: ClassVar[str] = "the topic"
    drops_records: ClassVar[bool] = True  # by compaction, or with the segment that held them

    @property
    def whole(self) -> OffsetSlice:
        """All of it that is to be read."""
        return OffsetSlice(0, self.partition, self.first, self.size, None, self.poison)

    @property
    def arrived(self) -> datetime:
        """As of `LandedUnit`."""
        return self.seen_at

    @property
    def begin(self) -> int:
        """As of `LandedUnit`."""
        return self.first

    def fault(self, error: Exception) -> tuple[Fault, str]:
        """Some of it was removed meanwhile."""
        return "gone", f"{self.unit}: {error}"

    @property
    def has_gap(self) -> bool:
        """Whether the ledger has what comes later, and lacks something before."""
        return self.reached < max((each.last for each in self.ranges), default=0)


class TopicLanding(Landing):
    """A topic's partitions, and those that the ledger knows."""

    def __init__(self, stream: SourceStream, cursor: extensions.cursor) -> None:
        self._stream = stream
        self._cursor = cursor
        self.told = f"reading the topic {stream.prefix}".rstrip()

    def units(self) -> Iterator[LandedPartition | AbsentUnit]:
        """As of `Landing`.

        Raises:
            SourceAwayError: not all of the topic's partitions answer, or it is not there.
        """
        topic, prefix = self._stream.source.settings, self._stream.prefix
        there = _watermarks(KafkaClient.of_stream(self._stream), topic.topic)
        for unit, of_unit in LedgerRange.by_unit(self._cursor, self._stream.pipeline, prefix):
            ranges = sorted(of_unit, key=lambda each: each.first)
            partition = Partition.of(unit.removeprefix(prefix))
            marks = None if partition is None else there.pop(partition, None)
            if partition is None or marks is None:
                yield AbsentUnit(unit, [each for each in ranges if _was_to_be_read(each)], is_changed=False)
            else:
                yield from _with_ranges(unit, partition, marks, ranges)
        for partition, marks in there.items():
            yield LandedPartition(prefix + partition.unit, partition, *marks, datetime.now(UTC), ())

    def room(self, planned: LedgerRange) -> int | None:
        """One record an offset."""
        return planned.last - planned.first

    def passed_over(self, unit: LandedUnit) -> bool:
        """Whether the ledger has what comes later, and lacks something before."""
        assert isinstance(unit, LandedPartition)
        return unit.has_gap


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
    unit: str, partition: Partition, marks: tuple[int, int], ranges: Sequence[LedgerRange]
) -> Iterator[LandedPartition | AbsentUnit]:
    oldest, end = marks
    to_be_read = [each for each in ranges if _was_to_be_read(each)]
    start = max((each.last for each in ranges if not _was_to_be_read(each)), default=0)
    gone = [_gone(each, oldest) for each in to_be_read if each.first < oldest]
    if gone:
        yield AbsentUnit(unit, gone, is_changed=False)
    own = [_cut(each, max(each.first, oldest), each.last) for each in to_be_read if each.last > oldest]
    seen_ns = min((each.modified_ns for each in to_be_read if each.modified_ns is not None), default=None)
    arrived = datetime.now(UTC) if seen_ns is None else datetime.fromtimestamp(seen_ns / 1e9, UTC)
    first = max(start, oldest)
    yield LandedPartition(unit, partition, first, end, arrived, own)


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
