"""Folders and topics as one source, one of each stream; their units are told apart by the stream's name."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_jobs.definition.correlation import STREAM_SEPARATOR
from spark_jobs.errors import SourceAwayError
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.source.kafka_slice import OffsetSlice
from spark_jobs.source.kafka_topic import KafkaTopic
from spark_jobs.source.landed_files import LandedFiles
from spark_jobs.source.planned_file import FileSlice
from spark_jobs.warehouse.drivers import Unread

# Of what a batch may read, a stream that is ahead of another one is left a quarter of its equal share.
_LEAST_SHARE = 4

TakenRow = tuple[str, int, int | None, int | None]


def stream_unit(stream: str, unit: str) -> str:
    """How the ledger calls a unit of a stream."""
    return f"{stream}{STREAM_SEPARATOR}{unit}"


@dataclass(frozen=True)
class StreamSlice:
    """Some records of a stream.

    Attributes:
        stream: the stream's number in the pipeline, from 0.
        piece: where they lie.
    """

    stream: int
    piece: FileSlice | OffsetSlice

    @property
    def range_no(self) -> int:
        """Number of the range within its batch."""
        return self.piece.range_no

    @property
    def is_of_topic(self) -> bool:
        """Whether they are records of a topic."""
        return self.piece.is_of_topic


class LandedStreams:
    """The sources of several streams, as `LandedFiles` or `KafkaTopic` of one; units are called `stream/unit`.

    Args:
        sources: of each stream, by name, in the order of the pipeline.
    """

    def __init__(self, sources: Mapping[str, LandedFiles | KafkaTopic]) -> None:
        self._sources = dict(sources)
        self._behind_first = list(sources)

    @property
    def unread(self) -> Unread | None:
        """What was seen and left when ranges were taken last, of all streams; None before that."""
        seen = {stream: source.unread for stream, source in self._sources.items()}
        known = [each for each in seen.values() if each is not None]
        if len(known) < len(seen):
            return None
        lags = [
            replace(lag, partition=stream_unit(stream, lag.partition))
            for stream, each in seen.items()
            if each is not None
            for lag in each.partitions
        ]
        landed = [each.landed_at for each in known if each.landed_at is not None]
        return Unread(
            sum(each.files for each in known),
            sum(each.bytes for each in known),
            min(landed, default=None),
            min(each.looked_at for each in known),
            sum(each.unread_partitions for each in known),
            lags,
        )

    def has_waiting(self, stream: str) -> bool:
        """Whether a stream has, or may have, what has not been taken."""
        return self._sources[stream].has_waiting

    def prefer(self, behind_first: Sequence[str]) -> None:
        """Take from these streams in this order: the one first whose events are the furthest behind."""
        self._behind_first = list(behind_first)

    def resume(self, taken: Callable[[list[str]], Iterable[TakenRow]]) -> None:
        """Begin anew with what the ledger knows; as of `LandedFiles` and `KafkaTopic`."""
        for stream, source in self._sources.items():
            source.resume(_of_stream(stream, taken))

    def look(self) -> None:
        """See what has landed since the last look.

        Raises:
            SourceAwayError: a folder can't be listed, or a topic's brokers don't answer; the message says which, and
                what to do.
        """
        for source in self._sources.values():
            source.look()

    def take(self, most_bytes: int) -> list[SourceRange]:
        """The next ranges: at most `most_bytes` or so, but at least one range where there is any.

        Streams that are behind in event time come first: what the others bring would have to wait for them in memory.
        """
        reserved = most_bytes // (_LEAST_SHARE * len(self._sources))
        taken: list[SourceRange] = []
        left = most_bytes
        for number, stream in enumerate(self._behind_first):
            of_others = reserved * (len(self._sources) - number - 1)
            ranges = self._sources[stream].take(max(left - of_others, 1))
            taken += [replace(each, unit=stream_unit(stream, each.unit)) for each in ranges]
            left -= sum(each.bytes for each in ranges)
        return taken

    def forget(self, units: Iterable[str]) -> None:
        """Let files of these names be taken again, whole."""
        for unit in units:
            stream, _, name = unit.partition(STREAM_SEPARATOR)
            if stream in self._sources:
                self._sources[stream].forget([name])

    def changed(self) -> list[SourceRange]:
        """Files that were written to after they had been taken, as they are now; each is told once."""
        return [
            replace(each, unit=stream_unit(stream, each.unit))
            for stream, source in self._sources.items()
            for each in source.changed()
        ]

    def pieces(self, ranges: Sequence[tuple[int, SourceRange]], parts: int) -> list[list[StreamSlice]]:
        """The slices of ranges, dealt out to at most `parts` tasks of about the same number of bytes.

        Args:
            ranges: with their numbers in the batch.
            parts: tasks.

        Raises:
            SourceAwayError: some are of no stream that the pipeline has now; or as of `KafkaTopic`.
        """
        own_prefixes = tuple(stream_unit(stream, "") for stream in self._sources)
        strays = [each.unit for _, each in ranges if not each.unit.startswith(own_prefixes)]
        if strays:
            raise SourceAwayError(
                f"A batch was to read {', '.join(strays)} when the stream that it is of was renamed or removed. Name "
                "the stream as it was until the batch is loaded, then change it again; or give up what was to be read: "
                f"freshet source PIPELINE --give-up {strays[0]}"
            )
        shares: list[tuple[float, list[StreamSlice]]] = []
        for number, (stream, source) in enumerate(self._sources.items()):
            prefix = stream_unit(stream, "")
            own = [
                (position, replace(each, unit=each.unit.removeprefix(prefix)))
                for position, each in ranges
                if each.unit.startswith(prefix)
            ]
            if not own:
                continue
            each_bytes = sum(each.bytes for _, each in own) / sum(each.last - each.first for _, each in own)
            for task in source.pieces(own, parts):
                length = sum(piece.last - piece.first for piece in task)
                shares.append((length * each_bytes, [StreamSlice(number, piece) for piece in task]))
        tasks: list[tuple[float, int, list[StreamSlice]]] = [
            (0.0, number, []) for number in range(min(parts, len(shares)))
        ]
        for share_bytes, share in sorted(shares, key=lambda each: each[0], reverse=True):
            taken, number, pieces = tasks[0]
            heapq.heapreplace(tasks, (taken + share_bytes, number, pieces + share))
        return [pieces for _, _, pieces in tasks]


def _of_stream(
    stream: str, taken: Callable[[list[str]], Iterable[TakenRow]]
) -> Callable[[list[str]], Iterable[TakenRow]]:
    prefix = stream_unit(stream, "")

    def of_stream(units: list[str]) -> Iterable[TakenRow]:
        for unit, last, size, modified_ns in taken([prefix + unit for unit in units]):
            if unit.startswith(prefix):
                yield unit.removeprefix(prefix), last, size, modified_ns

    return of_stream
