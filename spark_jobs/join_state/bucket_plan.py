"""What a bucket joins, and what comes of it: its plan, and the pieces that a take gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import NamedTuple

import pyarrow as pa

from spark_jobs.definition.fates import WAITING, Fate
from spark_jobs.definition.join import FixedWindow, Join
from spark_jobs.definition.matching import Band as BandOfValues
from spark_jobs.definition.shapes import JoinedStreams
from spark_jobs.joins.stream_stream import windows
from spark_jobs.joins.stream_stream.predicates import Band, Equality, Overlap, Predicate

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class PunctuationRule:
    """What tells that no more tuples of a key come in a stream; with neither, each tuple does, of its own.

    Attributes:
        when: a boolean column of the stream: the last of a key.
        count: number of another stream, and its column that says how many of a key come.
    """

    when: str | None = None
    count: tuple[int, str] | None = None


@dataclass(frozen=True)
class BucketStream:
    """A stream as its bucket sees it.

    Attributes:
        name: what its columns are called by in joined tuples.
        key: the columns that must equal the other streams'.
        event_id: the columns that tell its events apart.
        event_time: the column with the start of its tuples' validity.
        punctuation: what tells that no more of a key come; None: nothing does.
        matched: the columns that must match the other streams' by the plan's predicate: a value, or the two ends of an
            interval.
    """

    name: str
    key: tuple[str, ...]
    event_id: tuple[str, ...]
    event_time: str
    punctuation: PunctuationRule | None = None
    matched: tuple[str, ...] = ()


@dataclass(frozen=True)
class BucketPlan:
    """What a bucket does.

    Attributes:
        streams: at least two.
        window: makes ends of starts, in microseconds; None: tuples are valid for ever.
        algorithm: of the catalogue of spark_jobs.joins.stream_stream, or "auto".
        memory_bytes: for the operator and the directories of this bucket. Pages of mapped files are not counted.
        most_results: a tuple that would make more is not taken; None: all are.
        predicate: when the columns match that need not be equal; equality where there are none.
    """

    streams: tuple[BucketStream, ...]
    window: windows.Window | None
    algorithm: str
    memory_bytes: int
    most_results: int | None = None
    predicate: Predicate = field(default_factory=Equality)

    @property
    def found_by(self) -> Predicate:
        """By what partners are looked up: by equal keys where there are any."""
        return Equality() if self.streams[0].key else self.predicate

    @property
    def is_punctuated(self) -> bool:
        """Whether any stream has punctuations: then what arrives has to be in the order of arrival."""
        return any(stream.punctuation for stream in self.streams)

    def without_punctuations(self) -> BucketPlan:
        """The same for a join of what the punctuations have let through already."""
        return replace(self, streams=tuple(replace(stream, punctuation=None) for stream in self.streams))

    @classmethod
    def of(cls, shape: JoinedStreams, buckets: int) -> BucketPlan:
        """The plan of each bucket of streams that are joined in so many."""
        join, names = shape.join, list(shape.streams)
        streams = tuple(
            BucketStream(
                name,
                join.equal(name),
                source.event_id,
                source.event_time,
                _punctuation_rule(join, name, names),
                join.matched(name),
            )
            for name, source in shape.streams.items()
        )
        memory = join.memory // buckets
        return cls(streams, _window(join), join.algorithm, memory, join.most_facts, _predicate(shape))


def _predicate(shape: JoinedStreams) -> Predicate:
    join = shape.join
    if not isinstance(join.match, BandOfValues):
        return Overlap() if join.match == "overlap" else Equality()
    name = next(iter(join.on))
    (column,) = join.matched(name)
    return Band(join.match.width(shape.streams[name].columns[column]))


def _window(join: Join) -> windows.Window | None:
    window = join.window
    if window is None:
        return None
    if isinstance(window, FixedWindow):
        return windows.FixedWindow(window.fixed // _MICROSECOND)
    return windows.SlidingWindow(window // _MICROSECOND)


def _punctuation_rule(join: Join, stream: str, streams: Sequence[str]) -> PunctuationRule | None:
    punctuation = join.punctuations.get(stream)
    if punctuation is None:
        return None
    if punctuation == "unique":
        return PunctuationRule()
    if punctuation.when is not None:
        return PunctuationRule(when=punctuation.when)
    other, column = punctuation.told_by
    return PunctuationRule(count=(streams.index(other), column))


RESULTS = "_results"


class Settled(NamedTuple):
    """Tuples of one stream that a take is done with, and that are in no result.

    Attributes:
        stream: its number.
        fate: what became of them.
        tuples: as they came. Of those that would make too many results also `RESULTS`: about how many each. What
            expired ones say of their place in a batch is of the batch in which they came.
    """

    stream: int
    fate: Fate
    tuples: pa.Table


class JoinedPiece(NamedTuple):
    """A piece of what a take gives.

    Attributes:
        joined: joined tuples: columns `stream.column` of all streams, `_completed_at`, and `_arrived_at` of the latest
            part. No columns where there are no tuples.
        settled: tuples that are not, by stream and fate.
        counts: by stream, how many came to which fate: `joined` those that are in a result for the first time. Their
            sums over a take's pieces are the take's; of `waiting`, which are in the state and in no result, the last
            counts.
    """

    joined: pa.Table
    settled: tuple[Settled, ...]
    counts: tuple[Counter[Fate], ...]


def total_counts(taken: Sequence[tuple[Counter[Fate], ...]]) -> tuple[Counter[Fate], ...]:
    """What the pieces of a take add up to, for each stream; what waits is the last one's."""
    totals = summed(taken)
    for total, last in zip(totals, taken[-1] if taken else (), strict=True):
        total[WAITING] = last[WAITING]
    return totals


def summed(parts: Iterable[tuple[Counter[Fate], ...]]) -> tuple[Counter[Fate], ...]:
    """Sums of counts, for each stream."""
    totals = []
    for of_stream in zip(*parts, strict=True):
        total = Counter[Fate]()
        for counts in of_stream:
            total.update(counts)
        totals.append(total)
    return tuple(totals)
