"""Every semi-stream join under random pushes, steps, shedding and growth of R."""

from __future__ import annotations

import functools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from spark_jobs.joins.semi_stream import ALGORITHMS
from tests.conformance.semi_stream_run import Run, least_memory
from tests.joins.memory_relation import MemoryRelation

KEYS = st.integers(-2, 42) | st.sampled_from([-(2**63), 2**63 - 1])


class SemiStreamMachine(RuleBasedStateMachine):
    """A run whose every promise is checked after each call by Run itself."""

    def __init__(self, algorithm: str) -> None:
        super().__init__()
        self.algorithm = algorithm
        self.run: Run | None = None

    @initialize(
        keys=st.sets(KEYS, max_size=30), page_rows=st.integers(1, 5), more_memory=st.sampled_from([0, 200, 2000])
    )
    def start(self, keys: set[int], page_rows: int, more_memory: int) -> None:
        relation = MemoryRelation(keys, page_rows, most_rows=2 * page_rows)
        least = _least_memory(self.algorithm, page_rows, relation.page_count)
        self.run = Run(self.algorithm, relation, least + more_memory)

    @rule(keys=st.lists(KEYS, max_size=15))
    def push(self, keys: list[int]) -> None:
        self.run.push(keys)

    @rule()
    def advance(self) -> None:
        self.run.advance()

    @precondition(lambda self: self.run.join.pending)
    @rule(count=st.integers(0, 5))
    def shed(self, count: int) -> None:
        self.run.give_up(count)

    @precondition(lambda self: not self.run.join.pending)
    @rule(key=KEYS)
    def relation_grows(self, key: int) -> None:
        known = {self.run.keys[id_] for id_ in self.run.unmatched}
        if key not in known:
            self.run.relation.insert(key)

    def teardown(self) -> None:
        if self.run is not None:
            self.run.finish()
            self.run.assert_equals_dictionary_join()


@functools.cache
def _least_memory(algorithm: str, page_rows: int, page_count: int) -> int:
    return least_memory(algorithm, MemoryRelation(range(page_count * page_rows), page_rows, most_rows=2 * page_rows))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_random_lives(algorithm: str) -> None:
    run_state_machine_as_test(
        lambda: SemiStreamMachine(algorithm),
        settings=settings(
            max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
