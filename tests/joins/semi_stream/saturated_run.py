"""Drives a join with a stream that is faster than it: memory is refilled after every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spark_jobs.joins.semi_stream.base import SemiStreamJoin, Step
from tests.joins.memory_relation import MemoryRelation


@dataclass
class SaturatedRun:
    """A join, its R, and a stream.

    Attributes:
        taken_in: for each step so far, how many stream tuples had been pushed before it.
        steps: what each step settled.
    """

    join: SemiStreamJoin
    relation: MemoryRelation
    stream: Sequence[int]
    pushed: int = 0
    taken_in: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def step(self) -> Step:
        """Push what there is room for, and advance."""
        keys = np.array(self.stream[self.pushed : self.pushed + self.join.room], np.int64)
        self.join.push(keys, self.relation.pages_of(keys), np.arange(self.pushed, self.pushed + len(keys)))
        self.pushed += len(keys)
        self.taken_in.append(self.pushed)
        self.steps.append(self.join.advance())
        return self.steps[-1]

    def until_the_stream_ends(self) -> None:
        """Push all of it; the last tuples may still wait."""
        while self.pushed < len(self.stream):
            self.step()

    def finish(self) -> None:
        """Push all of it and settle all of it."""
        self.until_the_stream_ends()
        self.steps += self.join.finish()

    @property
    def settled(self) -> list[int]:
        """Ids of the tuples that were settled, in this order."""
        matched = [step.matches.ids for step in self.steps if step.matches is not None]
        return np.concatenate([*matched, *(step.unmatched for step in self.steps)]).tolist()
