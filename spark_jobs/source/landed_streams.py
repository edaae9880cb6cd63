"""Folders and topics as one source, one of each stream; their units are told apart by the stream's name."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from spark_jobs.definition.joined_tuple import STREAM_SEPARATOR
from spark_jobs.errors import SourceAwayError
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.ledger.unread import Unread
from spark_jobs.source.landed_source import LandedSource, SingleSource, TakenRow
from spark_jobs.source.slices import SourceSlice

# Of what a batch may read, each stream is left an eighth of its equal share. It may seem to be ahead for one event from
# the future, or nobody knows yet how many of its bytes there are in an hour.
_LEAST_SHARE = 8
_HALVINGS = 40  # of days, to well below a second
_REMEMBERED = 0.5  # the weight that a batch's pace has left after the next one


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
    piece: SourceSlice

    @property
    def range_no(self) -> int:
        """Number of the range within its batch."""
        return self.piece.range_no

    @property
    def is_loaded_in_part(self) -> bool:
        """As of the piece."""
        return self.piece.is_loaded_in_part


class _Progress:
    """How far the events of a stream that were read have come, and how many bytes a second of event time has."""

    def __init__(self) -> None:
        self.newest: datetime | None = None
        self._taken = 0  # since they had come there
        self._bytes = self._seconds = 0.0

    @property
    def pace(self) -> float | None:
        """Bytes a second of event time; None while it is not known."""
        return self._bytes / self._seconds if self._bytes and self._seconds else None

    def take(self, taken: int) -> None:
        """So many more bytes are read."""
        self._taken += taken

    def advance(self, newest: datetime | None) -> None:
        """What was taken has been read, and events have come to this time."""
        if newest == self.newest:
            return
        if self._taken and newest is not None and self.newest is not None and newest > self.newest:
            self._bytes = self._bytes * _REMEMBERED + self._taken
            self._seconds = self._seconds * _REMEMBERED + (newest - self.newest).total_seconds()
        self._taken, self.newest = 0, newest

    def resume(self) -> None:
        """What was taken is taken again."""
        self._taken = 0


class LandedStreams(LandedSource):
    """The sources of several streams, as of one; units are called `stream/unit`.

    Args:
        sources: of each stream, by name, in the order of the pipeline.
    """

    def __init__(self, sources: Mapping[str, SingleSource]) -> None:
        self._sources = dict(sources)
        self._progress = {stream: _Progress() for stream in sources}
        self.unread = None

    def _unread(self) -> Unread | None:
        """What was seen and left when ranges were taken last, of all streams."""
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

    def advance(self, newest: Mapping[str, datetime | None]) -> None:
        """What was taken has been read: each stream's events have come to this time. By it more is taken, and less."""
        for stream, progress in self._progress.items():
            progress.advance(newest[stream])

    def resume(self, taken: Callable[[list[str]], Iterable[TakenRow]]) -> None:
        """Begin anew with what the ledger knows; as of `LandedSource`."""
        for stream, source in self._sources.items():
            source.resume(_of_stream(stream, taken))
            self._progress[stream].resume()

    def look(self) -> None:
        """See what has landed since the last look.

        Raises:
            SourceAwayError: a folder can't be listed, or a topic's brokers don't answer; the message says which, and
                what to do.
        """
        for source in self._sources.values():
            source.look()

    def take(self, most_bytes: int) -> list[SourceRange]:
        """The next ranges: at most `most_bytes` or so, but at least one of each stream where there is any.

        A backlog's streams are read up to about the same event time: what one brings too early would have to wait in
        memory, or in the warehouse, for its partners. What a stream leaves of its share is for those ahead of it.
        """
        shares = self._shares(most_bytes)
        taken: list[SourceRange] = []
        left = most_bytes
        of_others = sum(shares.values())
        for stream in sorted(self._sources, key=self._came_to):
            of_others -= shares[stream]
            ranges = self._sources[stream].take(max(left - of_others, 1))
            taken += [replace(each, unit=stream_unit(stream, each.unit)) for each in ranges]
            read = sum(each.bytes for each in ranges)
            self._progress[stream].take(read)
            left -= read
        self.unread = self._unread()
        return taken

    def _came_to(self, stream: str) -> float:
        newest = self._progress[stream].newest
        return newest.timestamp() if newest is not None else 0.0

    def _shares(self, most_bytes: int) -> dict[str, int]:
        """How many bytes to leave for each stream that has some: those until one event time, `most_bytes` together."""
        least = most_bytes // (_LEAST_SHARE * len(self._sources))
        waiting = [stream for stream, source in self._sources.items() if source.has_waiting]
        shares = dict.fromkeys(self._sources, 0) | dict.fromkeys(waiting, least)
        paces = {stream: self._progress[stream].pace for stream in waiting}
        known = {stream: (self._came_to(stream), pace) for stream, pace in paces.items() if pace is not None}
        if not known:
            return shares

        def until(time: float) -> dict[str, int]:
            return {stream: max(least, int(pace * (time - came_to))) for stream, (came_to, pace) in known.items()}

        room = most_bytes - sum(share for stream, share in shares.items() if stream not in known)
        earliest = min(came_to for came_to, _ in known.values())
        latest = min(came_to + most_bytes / pace for came_to, pace in known.values())
        for _ in range(_HALVINGS):
            middle = (earliest + latest) / 2
            earliest, latest = (earliest, middle) if sum(until(middle).values()) > room else (middle, latest)
        return shares | until(earliest)

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
            SourceAwayError: some are of no stream that the pipeline has now; or as of `LandedSource`.
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
