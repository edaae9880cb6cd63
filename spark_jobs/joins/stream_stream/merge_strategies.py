"""Which runs are merged next: the strategies of sort-based joins (004 §4.2, §7), handed to the operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

# The last group before a merge may not have been full, and the oldest loses tuples.
_NEARLY = 0.8


class Waiting(NamedTuple):
    """Groups of runs on disk, oldest first.

    Attributes:
        levels: of each group: 0 for one that came from memory, one more for each time that it has grown by the fan-in.
        fan_in: how many groups can be merged at once from the oldest on.
        inner_fan_in: how many can be where the oldest takes no part: more, where no results are made there (004 §5.3).
        arrived: tuples that came since `advance` was called last: the load.
    """

    levels: Sequence[int]
    fan_in: int
    inner_fan_in: int
    arrived: int


class Span(NamedTuple):
    """Neighbouring groups to merge: the place of the first, and how many they are; at least 2."""

    first: int
    many: int


class MergeStrategy(Protocol):
    """Chooses what to merge."""

    def choose(self, waiting: Waiting) -> Span | None:
        """The groups to merge next, within the fan-in; None to wait. The same whenever it is given the same."""


def level_of(tuples: float, memory_tuples: int, fan_in: int) -> int:
    """How often a group has grown by the fan-in since memory wrote it; a fifth may be missing of it. O(level)."""
    level = 0
    while tuples >= _NEARLY * memory_tuples * fan_in ** (level + 1):
        level += 1
    return level


@dataclass(frozen=True)
class MaxFanIn:
    """Merges only as many groups of one level as the fan-in allows: each tuple is written least often.

    Of several levels the highest goes first, where a merge makes most results (004 §4.2). The oldest group, which loses
    tuples where they have validity, goes with those of any level above its own (004 §5.3).
    """

    def choose(self, waiting: Waiting) -> Span | None:
        """The oldest groups of one level, if there are as many as the fan-in."""
        levels = list(waiting.levels)
        if len(levels) > 1:
            levels[0] = max(levels[0], levels[1])
        best: Span | None = None
        first = 0
        for end in range(1, len(levels) + 1):
            if end < len(levels) and levels[end] == levels[first]:
                continue
            most = waiting.inner_fan_in if first else waiting.fan_in
            if end - first >= most and (best is None or levels[first] > levels[best.first]):
                best = Span(first, most)
            first = end
        return best


@dataclass(frozen=True)
class Greedy:
    """Merges whenever there is anything to merge, from the oldest group on: results come soonest."""

    def choose(self, waiting: Waiting) -> Span | None:
        """The oldest groups, up to the fan-in."""
        return Span(0, min(len(waiting.levels), waiting.fan_in)) if len(waiting.levels) > 1 else None


@dataclass(frozen=True)
class LoadFollowing:
    """One strategy while the load is high, another while it is low (004 §7, second experiment).

    Attributes:
        high_load: tuples between two calls of `advance` from which on the load is high.
        high: the strategy then.
        low: the strategy otherwise.
    """

    high_load: int
    high: MergeStrategy = field(default_factory=MaxFanIn)
    low: MergeStrategy = field(default_factory=Greedy)

    def choose(self, waiting: Waiting) -> Span | None:
        """What the strategy of the hour chooses."""
        return (self.high if waiting.arrived >= self.high_load else self.low).choose(waiting)


def last_span(sizes: Sequence[float], fan_in: int, inner_fan_in: int) -> Span:
    """What to merge when no more comes: all, if the fan-in allows it; else the neighbours that cost least. O(groups).

    Args:
        sizes: of the groups, oldest first; at least one.
        fan_in: as in `Waiting`.
        inner_fan_in: as in `Waiting`.
    """
    if len(sizes) <= fan_in:
        return Span(0, len(sizes))
    many = min(inner_fan_in, len(sizes) - fan_in + 1)
    cheapest = min(range(1, len(sizes) - many + 1), key=lambda first: sum(sizes[first : first + many]))
    return Span(cheapest, many)
