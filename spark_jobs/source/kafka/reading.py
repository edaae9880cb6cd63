"""Reads a slice of a partition: records of Kafka to stream tuples, in blocks of bounded size."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException
from numpy.typing import NDArray

from spark_jobs.definition import Source
from spark_jobs.definition.fates import MALFORMED
from spark_jobs.definition.kinds.kafka import OFFSET, PARTITION, TIMESTAMP, TOPIC
from spark_jobs.definition.stream_tuple import ARRIVED_AT, POSITION, RANGE, RECORD
from spark_jobs.errors import SourceAwayError, SourceRangeGoneError, UnreadableFileError
from spark_jobs.ledger.source_ranges import RecordMark
from spark_jobs.loading.outcome import Held
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.kafka.consumer import Consumed, KafkaConsumer
from spark_jobs.source.kafka.partition import OffsetSlice, Partition
from spark_jobs.source.records.decoded import KEPT_OF_TOO_LONG, cut_record
from spark_jobs.source.records.long_values import too_long
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.source.sparing import decode_sparing, sifted

SILENCE_SECONDS = 30.0
"""After that long without an answer a partition is taken for unreachable."""

_BLOCK_BYTES = 4 << 20
_MOST_RECORDS = 16_384
# How large records are is learnt from block to block; until it is known they are taken a few at a time.
_FEW_RECORDS, _GROWTH = 16, 16
_POLL_SECONDS = 0.1
_END_OF_LOG_SECONDS = 5.0
_MICROSECONDS = pa.timestamp("us", "UTC")


def read_offsets(piece: OffsetSlice, decoder: RecordDecoder, client: KafkaClient) -> Iterator[Arrivals]:
    """Read a slice. O(bytes); in memory are some blocks of it, and what the client has fetched ahead.

    Offsets without a record (of aborted transactions, or compacted) are no loss.

    Args:
        piece: a slice of the source's topic.
        decoder: of the source.
        client: of the topic.

    Raises:
        UnreadableFileError: some of the slice was removed by retention before it was read; after all others of it.
        SourceRangeGoneError: the partition ends before the slice does, or its log is not the one that was read before.
        SourceAwayError: no broker answers for the partition, or no schema registry.
    """
    slice_ = _SliceRecords(piece, client.consumer())
    for records in slice_.blocks():
        yield _arrivals(piece, decoder, records)._replace(mark=_mark(records, -1))
    if slice_.removed:
        raise UnreadableFileError(
            f"{slice_.removed} offsets of {piece.partition}, from {piece.first} on, were removed by the topic's "
            "retention before they were read: they are lost at the source."
        )


def _arrivals(piece: OffsetSlice, decoder: RecordDecoder, read: Consumed) -> Arrivals:
    unfit = too_long(read.values)
    if not unfit:
        return _of_usual_length(piece, decoder, read)
    where = np.zeros(len(read.offsets), np.bool_)
    where[list(unfit)] = True
    usual = _of_usual_length(piece, decoder, _where(read, ~where))
    rejected = [*usual.rejected, _too_long(piece, decoder.source, _where(read, where), list(unfit.values()))]
    return usual._replace(rejected=rejected, records=usual.records + len(unfit))


def _of_usual_length(piece: OffsetSlice, decoder: RecordDecoder, read: Consumed) -> Arrivals:
    missing = pc.equal(pc.fill_null(pc.binary_length(read.values), 0), 0)
    if not pc.any(missing).as_py():
        return _decoded(piece, decoder, read)
    source = decoder.source
    empty = missing.to_numpy(zero_copy_only=False)
    without_value = read.values.is_null().to_numpy(zero_copy_only=False)
    passed_over = without_value if source.settings.tombstones == "ignore" else np.zeros(len(empty), bool)
    rejected = [
        _without_value(piece, source, _where(read, where & ~passed_over), reason)
        for where, reason in ((without_value, "null value"), (empty & ~without_value, "empty value"))
        if (where & ~passed_over).any()
    ]
    decoded = _decoded(piece, decoder, _where(read, ~empty))
    ignored = int(np.count_nonzero(passed_over))
    return Arrivals(decoded.tuples, decoded.rejected + rejected, len(empty) - ignored, ignored)


def _where(read: Consumed, kept: NDArray[np.bool_]) -> Consumed:
    values = read.values.filter(pa.array(kept))
    return read._replace(
        values=values, offsets=read.offsets[kept], timestamps=read.timestamps[kept], epochs=read.epochs[kept]
    )


def _mark(read: Consumed, row: int) -> RecordMark:
    """What a record is known by: where it lies, which leader took it when, and its value.

    The epoch alone would not do: a cluster that is restored as a whole counts on from where its copy was.
    """
    head = struct.pack("<qi", read.timestamps[row], read.epochs[row])
    digest = hashlib.blake2b(head + (read.values[row].as_py() or b""), digest_size=8).digest()
    return RecordMark(int(read.offsets[row]), int.from_bytes(digest, "little", signed=True))


def _decoded(piece: OffsetSlice, decoder: RecordDecoder, read: Consumed) -> Arrivals:
    columns = decoder.source.record_columns
    decoded = decode_sparing(piece.poison, read.values, read.offsets, columns, decoder.decode)
    records = read.values
    if (
        decoder.source.record_format.holds_columns
    ):  # what is held of it is its columns, which can be read without its schema
        records = pc.if_else(pc.is_valid(decoded.reasons), records, None)
    tuples = _with_place(decoded.tuples, piece, read, records)
    return sifted(piece.poison, tuples, decoded.reasons, identified=decoder.source.is_known_by_place)


def _too_long(piece: OffsetSlice, source: Source, read: Consumed, told: list[str]) -> Held:
    """Records that are too long, in their order: of each its beginning is held."""
    beginnings = [value.as_buffer()[:KEPT_OF_TOO_LONG].to_pybytes() for value in read.values]
    records = pa.array([cut_record(*each) for each in zip(beginnings, told, strict=True)], pa.binary())
    tuples = _with_place(_nothing(source, len(told)), piece, read, records)
    reasons = pa.array([f"malformed: too long: {each}" for each in told])
    return Held(MALFORMED, reasons, None, tuples, identified=source.is_known_by_place)


def _nothing(source: Source, count: int) -> pa.Table:
    return pa.table({name: pa.nulls(count, kind.arrow()) for name, kind in source.record_columns.items()})


def _without_value(piece: OffsetSlice, source: Source, read: Consumed, reason: str) -> Held:
    """Records of which there is nothing to keep but where they were: each is held under a text that says so."""
    nothing = _nothing(source, len(read.offsets))
    records = [f"({reason}: {piece.partition} at offset {offset})".encode() for offset in read.offsets.tolist()]
    tuples = _with_place(nothing, piece, read, pa.array(records, pa.binary()))
    told = f"{reason}: a record of Kafka that has nothing to load"
    return Held(MALFORMED, told, None, tuples, identified=source.is_known_by_place)


def _with_place(values: pa.Table, piece: OffsetSlice, read: Consumed, records: pa.Array) -> pa.Table:
    count = len(read.offsets)
    offsets = pa.array(read.offsets)
    untimed = read.timestamps < 0
    now_ms = int(time.time() * 1000)
    written = pa.array(read.timestamps * 1000, pa.int64(), mask=untimed).cast(_MICROSECONDS)
    # A producer's clock may be ahead of ours; nothing arrives later than it is read.
    arrived = np.where(untimed, now_ms, np.minimum(read.timestamps, now_ms)) * 1000
    columns = {
        TOPIC: pa.repeat(piece.partition.topic, count),
        PARTITION: pa.repeat(pa.scalar(piece.partition.number, pa.int32()), count),
        OFFSET: offsets,
        TIMESTAMP: written,
        ARRIVED_AT: pa.array(arrived).cast(_MICROSECONDS),
        RECORD: records,
        RANGE: pa.repeat(pa.scalar(piece.range_no, pa.int32()), count),
        POSITION: offsets,
    }
    for name, column in columns.items():
        values = values.append_column(name, column)
    return values


class _SliceRecords:
    """The records of a slice, in the order of their offsets.

    Attributes:
        removed: offsets of the slice that were removed before they were read.
    """

    def __init__(self, piece: OffsetSlice, consumer: KafkaConsumer) -> None:
        self._piece = piece
        self._consumer = consumer
        self._next = piece.first
        self._former = piece.after  # until it has been looked at
        self._ends_at: int | None = None
        self.removed = 0

    def blocks(self) -> Iterator[Consumed]:
        """All of them, in blocks."""
        most, heard = _FEW_RECORDS, time.monotonic()
        self._seek()
        try:
            while self._next < self._piece.last:
                records = self._next_records(min(most, self._piece.last - self._next))
                if len(records.offsets):
                    yield records
                    most = _next_count(records, most)
                if len(records.offsets) or records.told:
                    heard = time.monotonic()  # what was done with them took its time
                else:
                    self._check_silence(time.monotonic() - heard)
        except KafkaException as error:
            raise SourceAwayError(_away(self._piece.partition, error.args[0].str())) from None
        finally:
            self._consumer.unassign()

    def _seek(self) -> None:
        offset = self._next if self._former is None else self._former.offset
        self._consumer.assign(self._piece.partition.topic, self._piece.partition.number, offset)

    def _next_records(self, most: int) -> Consumed:
        """The next records of the slice; what else is told is heeded."""
        read = self._consumer.consume(most, _POLL_SECONDS)
        if len(read.offsets) and self._former is not None:
            read = self._past_former(read, self._former)
        if len(read.offsets):
            self._next = min(int(read.offsets[-1]) + 1, self._piece.last)
            self._ends_at = None
            if read.offsets[-1] >= self._piece.last:
                read = _where(read, read.offsets < self._piece.last)
        for offset, error in read.told:
            self._heed(offset, error)
        return read

    def _past_former(self, read: Consumed, former: RecordMark) -> Consumed:
        """Compare the record that was read last with what lies at its offset now; what is of the slice is left.

        Where there is no record any more, it was compacted or removed, and nothing can be said.

        Raises:
            SourceRangeGoneError: it is another one.
        """
        piece = self._piece
        if read.offsets[0] == former.offset and _mark(read, 0) != former:
            raise SourceRangeGoneError(
                f"{piece.partition} has another record at offset {former.offset} than the one that was read there: a "
                "broker has lost records, or was restored, and others were written in their place. Which of those "
                f"before offset {piece.first} were never read can't be said. Load the topic by a pipeline of another "
                f"name; or go on behind offset {piece.last}: freshet source PIPELINE --give-up {piece.partition.unit} "
                "(of several streams: STREAM/ before it)."
            )
        self._former = None
        if read.offsets[-1] + 1 < piece.first:
            self._seek()
        return _where(read, read.offsets >= piece.first)

    def _heed(self, offset: int, error: KafkaError) -> None:
        gone = {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
        if self._former is not None and error.code() in gone:  # nothing is there to compare
            self._former = None
            self._seek()
        elif error.code() == KafkaError._PARTITION_EOF:
            if offset >= self._piece.last:
                self._next = self._piece.last  # what is before it are gaps
            elif offset >= self._next:
                self._ends_at = offset
        elif error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:
            self._pass_over_removed(error.str())
        else:
            raise KafkaException(error)

    def _pass_over_removed(self, told: str) -> None:
        """Go on behind what retention has removed.

        Raises:
            SourceRangeGoneError: it is not retention: the partition has no such offset yet, or no more.
        """
        partition = self._piece.partition
        low, high = self._consumer.watermarks(partition.topic, partition.number, SILENCE_SECONDS)
        if low <= self._next:
            raise SourceRangeGoneError(
                f"{partition} was planned to be read up to offset {self._piece.last}, but has none from {self._next} "
                f"on: it ends at {high} ({told}). A broker may have lost records. The stream waits for them."
            )
        first = min(low, self._piece.last)
        self.removed += first - self._next
        self._next = first
        self._seek()

    def _check_silence(self, seconds: float) -> None:
        partition = self._piece.partition
        if self._ends_at is not None and seconds > _END_OF_LOG_SECONDS:
            raise SourceRangeGoneError(
                f"{partition} was planned to be read up to offset {self._piece.last}, and ends at {self._ends_at}. "
                "A broker may have lost records, or a transaction is open again. The stream waits for them."
            )
        if seconds > SILENCE_SECONDS:
            raise SourceAwayError(_away(partition, f"no answer for {SILENCE_SECONDS:.0f} s"))


def _next_count(records: Consumed, most: int) -> int:
    """How many records make a block, if those that come are like these."""
    each = max(records.values.nbytes // len(records.offsets), 1)
    return max(min(_BLOCK_BYTES // each, most * _GROWTH, _MOST_RECORDS), 1)


def _away(partition: Partition, told: str) -> str:
    return f"{partition} of Kafka can't be read: {told}. The stream waits until it can; nothing is lost."
