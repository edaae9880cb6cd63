"""Drives a semi-stream join through its life and compares it with a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.base import Relation, SemiStreamJoin, Step
from tests.joins.memory_relation import MemoryRelation, value_of


def least_memory(algorithm: str, relation: Relation) -> int:
    """The smallest budget in bytes with which the algorithm can be made."""
    too_small, enough = 0, 1 << 20
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        try:
            create(algorithm, relation, middle)
            enough = middle
        except MemoryBudgetError:
            too_small = middle
    return enough


@dataclass
class Run:
    """One operator at work, all its promises checked after every call.

    Attributes:
        found: for each stream tuple that was joined, the value of its tuple of R.
        unmatched: stream tuples reported as unmatched.
        shed: stream tuples given up.
    """

    algorithm: str
    relation: MemoryRelation
    memory: int
    found: dict[int, int] = field(default_factory=dict)
    unmatched: set[int] = field(default_factory=set)
    shed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.join: SemiStreamJoin = create(self.algorithm, self.relation, self.memory)
        self.keys: list[int] = []
        self._check()

    def push(self, keys: Sequence[int]) -> None:
        """Push tuples, advancing whenever there is no room; their ids count up."""
        rest = list(keys)
        while rest:
            if not self.join.room:
                self.advance()
            part, rest = rest[: self.join.room], rest[self.join.room :]
            ids = np.arange(len(self.keys), len(self.keys) + len(part))
            self.keys += part
            array = np.array(part, np.int64)
            self.join.push(array, self.relation.pages_of(array), ids)
            self._check()

    def advance(self) -> Step:
        return self.take(self.join.advance())

    def take(self, step: Step) -> Step:
        """Note what a step settled."""
        if step.matches is not None:
            page = step.matches.page
            for id_, row in zip(step.matches.ids.tolist(), step.matches.rows.tolist(), strict=True):
                assert id_ not in self.settled
                assert page.keys[row] == self.keys[id_]
                self.found[id_] = int(page.rows[row])
        for id_ in step.unmatched.tolist():
            assert id_ not in self.settled
            self.unmatched.add(id_)
        self._check()
        return step

    def give_up(self, count: int) -> None:
        expected = min(count, self.join.pending)
        ids = self.join.shed(count).tolist()
        assert len(ids) == len(set(ids)) == expected
        assert self.settled.isdisjoint(ids)
        self.shed.update(ids)
        self._check()

    def finish(self) -> None:
        for step in self.join.finish():
            self.take(step)

    @property
    def settled(self) -> set[int]:
        return self.found.keys() | self.unmatched | self.shed

    def assert_equals_dictionary_join(self) -> None:
        """Every tuple was joined with its tuple of R or is unmatched, but for those that were shed."""
        values = {key: value_of(key) for key in self.relation.keys}
        kept = {id_: key for id_, key in enumerate(self.keys) if id_ not in self.shed}
        assert self.found == {id_: values[key] for id_, key in kept.items() if key in values}
        assert self.unmatched == {id_ for id_, key in kept.items() if key not in values}

    def _check(self) -> None:
        join = self.join
        join.check()
        assert join.memory_used() <= self.memory
        counts = join.statistics
        assert (counts.matched, counts.unmatched, counts.shed) == (
            len(self.found),
            len(self.unmatched),
            len(self.shed),
        )
        assert counts.pushed == len(self.keys)
        assert join.pending == counts.pushed - counts.matched - counts.unmatched - counts.shed


Scenario = Callable[[Run], None]
