"""A topic of Kafka as a stream: which offsets are new, what is read next of which partition, and in which pieces."""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc
from confluent_kafka import KafkaException
from confluent_kafka.admin import OffsetSpec

from spark_jobs.definition.joined_tuple import STREAM_SEPARATOR
from spark_jobs.definition.kinds.kafka import Kafka
from spark_jobs.errors import SourceAwayError
from spark_jobs.ledger.partition_positions import PartitionPositions
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.ledger.unread import PartitionLag, Unread
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.kafka.offsets import TopicOffsets
from spark_jobs.source.kafka.partition import OffsetSlice, Partition, offset_range
from spark_jobs.source.landed_source import SingleSource
from spark_jobs.timestamps import parse_timestamp

_log = logging.getLogger(__name__)

# A slice of less costs more to begin than it is worth.
_SMALLEST_SLICE = 20_000
# How often the oldest offsets are asked for: retention removes whole segments, some minutes apart at most.
_OLDEST_SECONDS = 1.0
_NAMED_PARTITIONS = 5
_MOST_LAGS = 100  # told with each heartbeat
_SAMPLE_SECONDS = 60.0
_SAMPLED_RECORDS = 200
_SAMPLE_WAIT_SECONDS = 0.5
_GUESSED_BYTES = 500.0
_BEFORE_START = "before the start of the stream, as kafka.start says"
_REMOVED = "removed by the topic's retention before it was read: lost at the source"


class KafkaTopic(SingleSource):
    """The partitions of one topic.

    All that is read is planned here, by offsets; the ledger remembers it, and `resume` brings it back. Only what is
    stable is planned: records of open transactions are not. Between partitions a batch is fair: each may take as much
    as any other, and what one has not is dealt out among the others.

    A look costs one question to each broker. Memory: O(partitions).

    Args:
        kafka: the topic, as the pipeline's definition has it.
        client: makes clients.
        positions: the ledger's.

    Attributes:
        unread: what was seen and left when offsets were taken last: partitions, about how many bytes, since when; None
            before that. Any thread may ask.
    """

    def __init__(self, kafka: Kafka, client: KafkaClient, positions: PartitionPositions) -> None:
        self._kafka = kafka
        self._client = client
        self._positions = positions
        self._offsets = TopicOffsets(client, kafka.topic)
        self._next: dict[Partition, int] = {}
        self._ends: dict[Partition, int] = {}
        self._seen: dict[Partition, deque[tuple[int, int]]] = {}  # ends that are not taken yet, and when each was seen
        self._troubles: dict[Partition, str] = {}
        self._committed: dict[Partition, int] = {}
        self._described_at = self._oldest_at = 0.0
        self._sampled_at: float | None = None
        self._record_bytes = _GUESSED_BYTES
        self._looked_at = time.monotonic()
        self.unread: Unread | None = None

    @property
    def has_waiting(self) -> bool:
        """Whether there are offsets that have not been taken, or there may be: a partition can't be read."""
        return bool(self._troubles) or any(end > self._next[partition] for partition, end in self._ends.items())

    def resume(self, taken: Callable[[list[str]], Iterable[tuple[str, int, int | None, int | None]]]) -> None:
        """Begin anew with what the ledger knows; before the first look.

        Args:
            taken: what the ledger knows of files; not asked for anything.

        Raises:
            SourceAwayError: no broker answers, or the topic is not there, or was made anew.
        """
        self._next, self._ends, self._seen, self._troubles = {}, {}, {}, {}
        self._described_at = self._oldest_at = 0.0
        self._find_partitions()

    def look(self) -> None:
        """See what has come since the last look, and tell the consumer group how far the stream is.

        Raises:
            SourceAwayError: no broker answers for any partition; the message says what to do.
        """
        now = time.monotonic()
        if now - self._described_at >= self._kafka.notice_partitions.total_seconds():
            self._find_partitions()
        ends = self._offsets.of(list(self._next), OffsetSpec.latest())
        self._tell_troubles(ends)
        for partition, end in ends.items():
            if isinstance(end, str):
                continue  # what it was known to have still counts as unread
            if end < self._next[partition]:
                raise SourceAwayError(
                    f"{partition} of Kafka has been read up to offset {self._next[partition]}, and ends at {end} now: "
                    "a broker has lost records, or was restored. The stream waits until they are there again. If they "
                    "never will be, load the topic by a pipeline of another name."
                )
            if end > max(self._ends.get(partition, 0), self._next[partition]):
                self._seen.setdefault(partition, deque()).append((end, time.time_ns()))
            self._ends[partition] = end
        if now - self._oldest_at >= _OLDEST_SECONDS:
            self._oldest_at = now
            self._pass_over_removed()
        self._tell_group()
        self._looked_at = now

    def take(self, most_bytes: int) -> list[SourceRange]:
        """The next ranges: about `most_bytes`, and at least one offset of each partition that has any."""
        self._sample()
        waiting = {
            partition: end - self._next[partition]
            for partition, end in self._ends.items()
            if end > self._next[partition] and partition not in self._troubles
        }
        taken: list[SourceRange] = []
        for partition, count in fair_shares(waiting, max(int(most_bytes / self._record_bytes), 1)).items():
            first, last = self._next[partition], self._next[partition] + count
            size = int(count * self._record_bytes)
            seen = self._seen.get(partition)
            since_ns = seen[0][1] if seen else time.time_ns()
            taken.append(offset_range(partition, first, last, size, since_ns))
            self._go_on_from(partition, last)
        # Published as a whole: the heartbeat asks from a thread of its own.
        since = min((seen[0][1] for seen in self._seen.values()), default=None)
        landed_at = None if since is None else datetime.fromtimestamp(since / 1e9, UTC)
        records = sum(max(end - self._next[partition], 0) for partition, end in self._ends.items())
        size = int(records * self._record_bytes)
        self.unread = Unread(0, size, landed_at, self._looked_at, len(self._seen), self._lags())
        return taken

    def _lags(self) -> list[PartitionLag]:
        """What is unread of each partition; of those that can't be read, and those that are furthest behind."""
        lags = []
        for partition, position in self._next.items():
            seen = self._seen.get(partition)
            since = datetime.fromtimestamp(seen[0][1] / 1e9, UTC).isoformat() if seen else None
            end, trouble = self._ends.get(partition, position), self._troubles.get(partition)
            lags.append(PartitionLag(str(partition), position, end, since, trouble))
        return sorted(lags, key=lambda lag: (lag.trouble is None, lag.position - lag.end, lag.partition))[:_MOST_LAGS]

    def pieces(self, ranges: Sequence[tuple[int, SourceRange]], parts: int) -> list[list[OffsetSlice]]:
        """The slices of ranges, dealt out to at most `parts` tasks of about the same number of offsets.

        Args:
            ranges: with their numbers in the batch.
            parts: tasks.

        Raises:
            SourceAwayError: some are of a topic that was deleted: a new one of its name has other records there; or of
                files, which the pipeline read before it read Kafka.
        """
        self._check_ranges(ranges)
        share = max(sum(each.last - each.first for _, each in ranges) // parts, _SMALLEST_SLICE)
        marks = self._positions.marks([each.unit for _, each in ranges])
        slices = []
        for number, each in ranges:
            partition = Partition.of(each.unit)
            assert partition is not None
            count = -(-(each.last - each.first) // share)
            cuts = [each.first + (each.last - each.first) * cut // count for cut in range(count + 1)]
            slices += [
                OffsetSlice(
                    *(number, partition, first, last, marks.get(each.unit) if first == each.first else None),
                    each.poison,
                )
                for first, last in itertools.pairwise(cuts)
            ]
        tasks: list[tuple[int, int, list[OffsetSlice]]] = [(0, number, []) for number in range(min(parts, len(slices)))]
        for piece in sorted(slices, key=lambda each: each.first - each.last):
            size, number, pieces = tasks[0]
            pieces.append(piece)
            heapq.heapreplace(tasks, (size + piece.last - piece.first, number, pieces))
        return [pieces for _, _, pieces in tasks]

    def _check_ranges(self, ranges: Sequence[tuple[int, SourceRange]]) -> None:
        prefix = self._positions.prefix
        files = [prefix + each.unit for _, each in ranges if Partition.of(each.unit) is None]
        if files:
            changed = f"stream {prefix.removesuffix(STREAM_SEPARATOR)}" if prefix else "the pipeline's source"
            raise SourceAwayError(
                f"A batch was to read {', '.join(files)} when {changed} was changed to Kafka. Change it back until the "
                "batch is loaded, then to Kafka again; or give the files up: freshet source PIPELINE "
                f"--give-up {files[0]}"
            )
        topic_id, _ = self._offsets.described()
        former = [
            prefix + each.unit for _, each in ranges if (of := Partition.of(each.unit)) and of.topic_id != topic_id
        ]
        if former:
            raise SourceAwayError(
                f"Topic {self._kafka.topic} was deleted and made anew while a batch was to read {', '.join(former)}: "
                "what was there is lost at the source. Give it up, and the stream goes on: freshet source PIPELINE "
                f"--give-up {former[0]}"
            )

    def _find_partitions(self) -> None:
        """See which partitions there are, and where new ones are to be read from."""
        self._described_at = time.monotonic()
        topic_id, count = self._offsets.described()
        partitions = [Partition(self._kafka.topic, number, topic_id) for number in range(count)]
        new = [partition for partition in partitions if partition not in self._next]
        if not new:
            return
        known = self._positions.read()
        self._check_same_topic(topic_id, known)
        for partition in new:
            if partition.unit in known:
                self._next[partition] = known[partition.unit]
        unknown = [partition for partition in new if partition.unit not in known]
        if unknown:
            self._begin(unknown, is_first=not any(self._is_of_topic(unit) for unit in known))

    def _begin(self, partitions: list[Partition], *, is_first: bool) -> None:
        """Note where partitions are read from, so that a later driver does not begin elsewhere.

        Args:
            partitions: the ledger knows none of them.
            is_first: whether it knows none of the topic: those that are added are read from their beginning.
        """
        spec, start = OffsetSpec.earliest(), self._kafka.start
        if is_first and start == "latest":
            spec = OffsetSpec.latest()
        elif is_first and start != "earliest":
            spec = OffsetSpec.for_timestamp(int(parse_timestamp(start).timestamp() * 1000))
        found = self._offsets.of(partitions, spec)
        if any(offset == -1 for offset in found.values()):  # nothing has come since that time
            ends = self._offsets.of(partitions, OffsetSpec.latest())
            found = {each: ends[each] if offset == -1 else offset for each, offset in found.items()}
        self._tell_troubles(found)
        if is_first and self._kafka.start != "earliest" and self._troubles:
            away = _named(list(self._troubles))
            raise SourceAwayError(
                f"{away} of Kafka can't be asked for offsets, so that it can't be said where the stream is to start "
                f"there (kafka.start: {self._kafka.start}). The stream waits until they can."
            )
        begins = {each: offset for each, offset in found.items() if not isinstance(offset, str)}
        ranges = [offset_range(each, 0, offset) for each, offset in begins.items()]
        self._positions.note(ranges, "loaded", _BEFORE_START)
        self._next |= begins
        _log.info("%s: %d partitions are new", self._kafka.topic, len(begins))

    def _check_same_topic(self, topic_id: str, known: dict[str, int]) -> None:
        former = {each.topic_id for each in map(Partition.of, known) if each and each.topic == self._kafka.topic}
        for each in [each for each in self._next if each.topic_id != topic_id]:
            for of_former in (self._next, self._ends, self._seen, self._troubles):
                of_former.pop(each, None)
        if not former or topic_id in former:
            return
        if self._kafka.made_anew == "refuse":
            raise SourceAwayError(
                f"Topic {self._kafka.topic} was deleted and made anew: it was read as {', '.join(sorted(former))}, and "
                f"is {topic_id} now. Nothing of the new one is read. What the old one had beyond the ledger's offsets "
                "is lost at the source. To read the new one from its beginning set kafka.made_anew: read, "
                "which needs an event_id that is not made of offsets; or load it by a pipeline of another name."
            )
        _log.warning("%s was made anew, as %s; it is read from its beginning", self._kafka.topic, topic_id)

    def _is_of_topic(self, unit: str) -> bool:
        partition = Partition.of(unit)
        return partition is not None and partition.topic == self._kafka.topic

    def _pass_over_removed(self) -> None:
        """Note what retention has removed of what was still to be read, and go on behind it."""
        lost: list[SourceRange] = []
        for partition, oldest in self._offsets.of(list(self._ends), OffsetSpec.earliest()).items():
            if not isinstance(oldest, str) and oldest > self._next[partition]:
                lost.append(offset_range(partition, self._next[partition], oldest))
                _log.error("%s: offsets %d to %d: %s", partition, self._next[partition], oldest - 1, _REMOVED)
        if lost:
            for each in lost:
                self._positions.note([each], "lost", f"{_REMOVED}; {each.bytes} offsets")
                partition_of = Partition.of(each.unit)
                assert partition_of is not None
                self._go_on_from(partition_of, each.last)

    def _go_on_from(self, partition: Partition, offset: int) -> None:
        """What lies before an offset is taken, or gone."""
        self._next[partition] = offset
        seen = self._seen.get(partition)
        while seen and seen[0][0] <= offset:
            seen.popleft()
        if not seen:
            self._seen.pop(partition, None)

    def _tell_troubles(self, found: dict[Partition, Any]) -> None:
        """Say once which partitions are away and why, and that they are there again; many are one line of the log."""
        told: dict[str | None, list[Partition]] = {}
        for partition, offset in found.items():
            trouble = offset if isinstance(offset, str) else None
            if trouble != self._troubles.get(partition):
                told.setdefault(trouble, []).append(partition)
        for trouble, partitions in told.items():
            which = _named(partitions)
            if trouble is None:
                for partition in partitions:
                    del self._troubles[partition]
                _log.info("there again: %s", which)
            else:
                self._troubles |= dict.fromkeys(partitions, trouble)
                _log.warning("can't be read, the others go on: %s: %s", which, trouble)

    def _tell_group(self) -> None:
        """Tell the consumer group how far the stream is: what was taken by now is loaded. Only others read it."""
        behind = {each: offset for each, offset in self._next.items() if self._committed.get(each) != offset and offset}
        if not behind:
            return
        try:
            self._client.consumer().commit((each.topic, each.number, offset) for each, offset in behind.items())
        except KafkaException as error:
            _log.warning("%s: the consumer group could not be told: %s", self._kafka.topic, error.args[0].str())
        self._committed |= behind

    def _sample(self) -> None:
        """Learn how large records are, from some of the partition that has most of them waiting."""
        now = time.monotonic()
        if self._sampled_at is not None and now - self._sampled_at < _SAMPLE_SECONDS:
            return
        partition = max(
            self._ends.keys() - self._troubles.keys(),
            key=lambda each: self._ends[each] - self._next[each],
            default=None,
        )
        if partition is None or self._ends[partition] <= self._next[partition]:
            return
        consumer = self._client.consumer()
        try:
            consumer.assign(partition.topic, partition.number, self._next[partition])
            count = min(_SAMPLED_RECORDS, self._ends[partition] - self._next[partition])
            sampled = consumer.consume(count, _SAMPLE_WAIT_SECONDS).values
        except KafkaException:
            return  # the batch that reads them tells what is wrong
        finally:
            consumer.unassign()
        if len(sampled):
            self._sampled_at = now
            self._record_bytes = max((pc.sum(pc.binary_length(sampled)).as_py() or 0) / len(sampled), 1.0)


def _named(partitions: list[Partition]) -> str:
    """The first of some partitions, and how many more there are."""
    names = ", ".join(map(str, partitions[:_NAMED_PARTITIONS]))
    more = len(partitions) - _NAMED_PARTITIONS
    return f"{names}{f' and {more} more' if more > 0 else ''}"


def fair_shares(waiting: dict[Partition, int], most: int) -> dict[Partition, int]:
    """How many offsets a batch takes of each partition: as many as of any other, as far as it has them.

    Args:
        waiting: offsets that there are, each more than 0.
        most: offsets that the batch takes, but for one of each partition, which it takes at least.
    """
    shares: dict[Partition, int] = {}
    left = most
    for number, (partition, count) in enumerate(sorted(waiting.items(), key=lambda each: each[1])):
        shares[partition] = max(min(count, left // (len(waiting) - number)), 1)
        left -= shares[partition]
    return shares
