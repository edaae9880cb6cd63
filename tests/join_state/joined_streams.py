"""Streams for a bucket, and what it has to make of them, in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import combinations, product
from pathlib import Path

import pyarrow as pa

from spark_jobs.definition.fates import DUPLICATE, PURGED, WAITING, Fate
from spark_jobs.join_state.bucket import Bucket, BucketPlan, BucketStream
from spark_jobs.join_state.bucket_plan import PunctuationRule, total_counts
from spark_jobs.joins.stream_stream.predicates import Band, Overlap, Predicate
from spark_jobs.joins.stream_stream.windows import FixedWindow, SlidingWindow, Window

UTC_TIME = pa.timestamp("us", tz="UTC")
KEY_TYPES = {
    "whole": pa.int64(),
    "text": pa.string(),
    "amount": pa.decimal128(12, 2),
    "composite": pa.int32(),
    "interval": pa.int32(),
}


@dataclass(frozen=True)
class Event:
    """A tuple of a stream."""

    id: int
    key: int
    time: int
    last: bool | None = None
    count: int | None = None

    @property
    def key_end(self) -> int:
        """Where the key ends, of those that are intervals."""
        return self.key + 1 + self.id % 4


WINDOW = SlidingWindow(100)


UNIQUE, LAST, COUNTED = PunctuationRule(), PunctuationRule(when="last"), PunctuationRule(count=(0, "count"))


def plan_of(
    streams: int = 2,
    window: Window | None = WINDOW,
    key: str = "whole",
    memory: int = 1 << 22,
    ends: Sequence[PunctuationRule | None] = (None,) * 6,
) -> BucketPlan:
    """A plan whose streams are called a, b, c ..."""
    columns = {"composite": ("key", "site"), "interval": ("key", "key_end")}.get(key, ("key",))
    return BucketPlan(
        tuple(BucketStream("abcdef"[number], columns, ("id", "part"), "at", ends[number]) for number in range(streams)),
        window,
        "auto",
        memory,
    )


def matched_by(plan: BucketPlan, predicate: Predicate, equal: tuple[str, ...] = ()) -> BucketPlan:
    """The same plan, but what is its key has to match by a predicate; and some columns have to be equal."""
    streams = tuple(replace(stream, key=equal, matched=stream.key) for stream in plan.streams)
    return replace(plan, streams=streams, predicate=predicate)


def table(events: Sequence[Event], key: str = "whole", *, arrived: int = 0) -> pa.Table:
    """Events as their stream's tuples."""
    keys: list[object] = [event.key for event in events]
    if key == "text":
        keys = [f"key {event.key}" for event in events]
    elif key == "amount":
        keys = [Decimal(event.key) for event in events]
    return pa.table(
        {
            "key": pa.array(keys, KEY_TYPES[key]),
            "key_end": pa.array([event.key_end for event in events], pa.int32()),
            "site": pa.array([f"site {event.key % 3}" for event in events], pa.string()),
            "id": pa.array([event.id for event in events], pa.int64()),
            "part": pa.array(["x" for _ in events], pa.string()),
            "last": pa.array([event.last for event in events], pa.bool_()),
            "count": pa.array([event.count for event in events], pa.int16()),
            "at": pa.array([event.time for event in events], pa.int64()).cast(UTC_TIME),
            "_arrived_at": pa.array([arrived] * len(events), pa.int64()).cast(UTC_TIME),
            "_record": pa.array([b"{}"] * len(events), pa.binary()),
        }
    )


def batches_of(
    streams: int, randomness: random.Random, count: int, size: int = 20, keys: int = 25
) -> list[list[list[Event]]]:
    """For each batch the events of each stream: out of order by up to 30, some of them twice."""
    batches: list[list[list[Event]]] = []
    ids = [0] * streams
    for batch in range(count):
        batches.append([])
        for stream in range(streams):
            events = []
            for _ in range(randomness.randrange(size)):
                earlier = [event for former in batches[-4:] for event in (former[stream : stream + 1] or [[]])[0]]
                if earlier and randomness.random() < 0.1:
                    events.append(randomness.choice(earlier))
                    continue
                ids[stream] += 1
                key, time = randomness.randrange(keys), 40 * batch + randomness.randrange(-30, 40)
                last, count = randomness.random() < 0.5, randomness.choice((None, 0, 2, 3))
                events.append(Event(ids[stream], key, time, last, count))
            batches[-1].append(events)
    return batches


@dataclass
class Outcome:
    """What became of all events."""

    joined: list[tuple[int, ...]] = field(default_factory=list)
    late: list[tuple[int, int]] = field(default_factory=list)
    after_last: list[tuple[int, int]] = field(default_factory=list)
    expired: list[tuple[int, int]] = field(default_factory=list)
    expired_early: list[tuple[int, int]] = field(default_factory=list)
    duplicates: int = 0
    left_early: int = 0
    waiting: list[set[int]] = field(default_factory=list)

    def sorted(self) -> Outcome:
        """The same, where the order in which things came does not count."""
        lists = (sorted(each) for each in (self.joined, self.late, self.after_last, self.expired, self.expired_early))
        return Outcome(*lists, self.duplicates, self.left_early, self.waiting)


def reached_after(batch: int, streams: int) -> list[int]:
    """How far each stream has come after a batch; they differ, and stand still now and then."""
    return [40 * (batch - batch % (stream + 1)) for stream in range(streams)]


class PlainState:
    """What a bucket does, written as simply as can be: every tuple with every other.

    With punctuations, with every other that was ever taken: what has been purged must be missed by nobody.
    """

    def __init__(self, plan: BucketPlan) -> None:
        self._window = plan.window
        self._predicate = plan.predicate
        self._sites = plan.streams[0].key == ("site",)
        self._ends = [stream.punctuation for stream in plan.streams]
        self._taken: list[list[Event]] = [[] for _ in plan.streams]
        self._purged: list[list[Event]] = [[] for _ in plan.streams]
        self._ended_before: list[list[Event]] = [[] for _ in plan.streams]  # their own stream has not passed them
        self._state: list[list[Event]] = [[] for _ in plan.streams]
        self._matched: list[set[int]] = [set() for _ in plan.streams]
        self._reached = [-(2**63)] * len(plan.streams)
        self.outcome = Outcome()

    def end(self, event: Event) -> int:
        if isinstance(self._window, SlidingWindow):
            return event.time + self._window.length
        if isinstance(self._window, FixedWindow):
            return (event.time // self._window.length + 1) * self._window.length
        return 2**63 - 1

    def match(self, parts: Sequence[Event]) -> bool:
        """Whether each two keys match."""
        if self._sites and len({part.key % 3 for part in parts}) > 1:
            return False
        if isinstance(self._predicate, Overlap):
            return all(one.key < other.key_end and other.key < one.key_end for one, other in combinations(parts, 2))
        apart = max(part.key for part in parts) - min(part.key for part in parts)
        return apart <= (self._predicate.width if isinstance(self._predicate, Band) else 0)

    def take(self, batch: Sequence[Sequence[Event]], late_before: Sequence[int], reached: Sequence[int]) -> None:
        before = [len(taken) for taken in self._taken]
        for stream, events in enumerate(batch):
            seen: set[int] = set()
            for event in events:
                known = [*self._state[stream], *self._purged[stream], *self._telling(stream)]
                known += self._ended_before[stream]
                if event.id in seen or event.id in {held.id for held in known}:
                    self.outcome.duplicates += 1
                    continue
                seen.add(event.id)
                if self._ended(stream, event.key) is not None:
                    self.outcome.after_last.append((stream, event.id))
                    continue
                if event.time < late_before[stream]:
                    self.outcome.late.append((stream, event.id))
                    continue
                held_by = self._taken if any(self._ends) else self._state
                others = [[event] if number == stream else held for number, held in enumerate(held_by)]
                for combination in product(*others):
                    if self.match(combination) and max(part.time for part in combination) < min(
                        self.end(part) for part in combination
                    ):
                        self.outcome.joined.append(tuple(part.id for part in combination))
                        for number, part in enumerate(combination):
                            self._matched[number].add(part.id)
                self._state[stream].append(event)
                self._taken[stream].append(event)
        # Of other keys nothing was told.
        keys = {event.key for taken, old in zip(self._taken, before, strict=True) for event in taken[old:]}
        for stream, held in enumerate(self._state):
            for event in [event for event in held if event.key in keys]:
                ends = [self._ended(other, event.key) for other in range(len(self._state)) if other != stream]
                if all(end is not None and self.end(event) <= end for end in ends):
                    held.remove(event)
                    self._purged[stream].append(event)
                    self.outcome.left_early += 1
                    if event.id not in self._matched[stream]:
                        self.outcome.expired_early.append((stream, event.id))
        self._reached = [max(pair) for pair in zip(self._reached, reached, strict=True)]
        for stream, held in enumerate(self._state):
            bound = min(start for other, start in enumerate(self._reached) if other != stream)
            gone = [event for event in held if self.end(event) <= bound]
            self._state[stream] = [event for event in held if self.end(event) > bound]
            self.outcome.expired += [(stream, event.id) for event in gone if event.id not in self._matched[stream]]
            self._matched[stream] -= {event.id for event in gone}
            ended = [*self._ended_before[stream], *gone]
            self._ended_before[stream] = [event for event in ended if self.end(event) > self._reached[stream]]
            self._purged[stream] = [e for e in self._purged[stream] if self.end(e) > self._reached[stream]]
        self.outcome.waiting = [
            {event.id for event in held} - matched for held, matched in zip(self._state, self._matched, strict=True)
        ]

    def _ended(self, stream: int, key: int) -> int | None:
        """How long it holds that no more of a key come."""
        rule = self._ends[stream]
        if rule is None:
            return None
        said = [(event, self._until(event)) for event in self._taken[stream] if event.key == key]
        said = [(event, until) for event, until in said if until > self._reached[stream]]
        if rule.count is None:
            return max((until for event, until in said if rule.when is None or event.last), default=None)
        telling = [
            (event.count, self._until(event))
            for event in self._taken[rule.count[0]]
            if event.key == key and event.count is not None and self._until(event) > self._reached[stream]
        ]
        if not telling or len(said) < telling[0][0]:
            return None
        return min(until for _, until in [*said, *telling])

    def _telling(self, stream: int) -> list[Event]:
        """The tuples of a stream that say something of their key, which still holds."""
        rule = self._ends[stream]
        if rule is None:
            return []
        says = [event for event in self._taken[stream] if rule.when is None or event.last]
        return [event for event in says if self._until(event) > self._reached[stream]]

    def _until(self, event: Event) -> int:
        end = self.end(event)
        return self.end(replace(event, time=end)) if self._window else end


class Taken:
    """A bucket at work, all its promises checked after each take."""

    def __init__(self, bucket: Bucket, plan: BucketPlan, key: str = "whole") -> None:
        self.bucket = bucket
        self.outcome = Outcome()
        self._plan = plan
        self._key = key

    def reopen(self, folder: Path, version: int) -> None:
        """Go on in another process, as it were."""
        self.bucket.close()
        self.bucket = Bucket(self._plan, folder, version)

    def take(self, batch: Sequence[Sequence[Event]], late_before: Sequence[int], reached: Sequence[int]) -> None:
        arrived = [table(events, self._key) if events else None for events in batch]
        before = [self._waiting(stream) for stream in range(len(batch))]
        taken: list[tuple[Counter[Fate], ...]] = []
        for piece in self.bucket.take(arrived, late_before, reached):
            if piece.joined.num_rows:
                names = [f"{stream.name}.id" for stream in self._plan.streams]
                self.outcome.joined += zip(*(piece.joined[name].to_pylist() for name in names), strict=True)
            for stream, fate, tuples in piece.settled:
                getattr(self.outcome, fate.name).extend((stream, id_) for id_ in _ids(tuples))
            taken.append(piece.counts)
        sums = total_counts(taken)
        self.outcome.waiting = [self._waiting(stream) for stream in range(len(batch))]
        self.outcome.duplicates += sum(sum_[DUPLICATE] for sum_ in sums)
        self.outcome.left_early += sum(sum_[PURGED] for sum_ in sums)
        for stream, events in enumerate(batch):
            sum_, waiting = sums[stream], len(self.outcome.waiting[stream])
            assert sum_[WAITING] == waiting
            assert len(before[stream]) + len(events) == sum(number for fate, number in sum_.items() if fate.share)

    def _waiting(self, stream: int) -> set[int]:
        found = [id_ for piece in self.bucket.waiting(stream) for id_ in _ids(piece)]
        assert len(found) == len(set(found))
        return set(found)


def _ids(tuples: pa.Table) -> Iterator[int]:
    if tuples.num_rows:
        assert {"key", "at", "_arrived_at", "_record"} <= set(tuples.column_names)
        yield from tuples["id"].to_pylist()
