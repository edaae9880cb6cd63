"""Load shedding around the joins: what is shed, that nothing is lost, and that it comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import pytest

from spark_jobs.errors import JoinStateError
from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.base import Relation, SemiStreamJoin
from spark_jobs.joins.semi_stream.cached_join import CachedJoin
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.load_shedding import (
    POLICIES,
    LoadSheddingJoin,
    MemoryDestination,
    SheddingPolicy,
    considered,
    random_sample,
    untuned,
    upfront,
)
from spark_jobs.joins.semi_stream.lookup_position import FixedPosition, LongestWait
from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from spark_jobs.joins.semi_stream.partition_wait_join import PartitionWaitJoin
from spark_jobs.joins.semi_stream.semi_streamed_index_join import SemiStreamedIndexJoin
from spark_jobs.joins.structures.stream_buffer import TupleColumns
from tests.joins.memory_relation import MemoryRelation

ROWS, PAGE_ROWS = 400, 4
MEMORY = 3000


class Stream:
    """A skewed stream into a join that sheds; ids count up, and every outcome is kept."""

    def __init__(
        self,
        join: SemiStreamJoin,
        relation: MemoryRelation,
        policy: SheddingPolicy,
        seed: int = 1,
        destination: MemoryDestination | None = None,
    ) -> None:
        self.destination = MemoryDestination() if destination is None else destination
        self.join = LoadSheddingJoin(join, policy, self.destination, self.tuples_of, buffer_capacity=1000)
        self.relation = relation
        self.keys = np.empty(0, np.int64)
        self.settled: list[int] = []
        self._random = np.random.default_rng(seed)

    def tuples_of(self, ids: np.ndarray) -> TupleColumns:
        return TupleColumns(self.keys[ids], self.relation.pages_of(self.keys[ids]), ids)

    def push(self, count: int) -> None:
        # A tenth of the keys has no match.
        keys = (self._random.random(count) ** 3 * ROWS * 1.1).astype(np.int64)
        ids = np.arange(len(self.keys), len(self.keys) + count)
        self.keys = np.concatenate([self.keys, keys])
        self.join.push(keys, self.relation.pages_of(keys), ids)

    def advance(self) -> None:
        step = self.join.advance()
        if step.matches is not None:
            assert np.array_equal(step.matches.page.keys[step.matches.rows], self.keys[step.matches.ids])
            self.settled += step.matches.ids.tolist()
        assert (self.keys[step.unmatched] >= ROWS).all()
        self.settled += step.unmatched.tolist()

    def check(self) -> None:
        self.join.check()
        counts = self.join.statistics
        assert counts.matched + counts.unmatched == len(self.settled) == len(set(self.settled))
        assert len(self.settled) + len(self.destination) + self.join.pending == len(self.keys)
        assert counts.shed == len(self.destination)


BackStage = Callable[[MemoryRelation, SheddingPolicy], SemiStreamJoin]
BACK_STAGES: dict[str, BackStage] = {
    "hybrid_join": lambda relation, policy: HybridJoin(relation, MEMORY, policy.position),
    "cached_hybrid_join": lambda relation, policy: CachedJoin(
        relation, 2 * MEMORY, lambda r, memory: HybridJoin(r, memory, policy.position)
    ),
    "index_nested_loop": lambda relation, _: create("index_nested_loop", relation, MEMORY),
    "batched_index_nested_loop": lambda relation, _: create("batched_index_nested_loop", relation, MEMORY),
    "mesh_join": lambda relation, _: create("mesh_join", relation, 20_000),
}


@pytest.fixture
def relation() -> MemoryRelation:
    return MemoryRelation(range(ROWS), PAGE_ROWS)


def stream_into(
    relation: MemoryRelation, back_stage: str, policy: SheddingPolicy, destination: MemoryDestination | None = None
) -> Stream:
    return Stream(BACK_STAGES[back_stage](relation, policy), relation, policy, destination=destination)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("back_stage", BACK_STAGES)
def test_nothing_is_lost_and_all_comes_back_when_the_stream_is_slow(
    relation: MemoryRelation, back_stage: str, policy: str
) -> None:
    stream, overloaded = stream_into(relation, back_stage, POLICIES[policy]()), False
    for _ in range(60):
        stream.push(min(stream.join.room, 100))
        for _ in range(3):
            stream.advance()
        stream.check()
        overloaded |= stream.join.overloaded
    assert overloaded
    assert len(stream.destination) > 100
    for step in range(20_000):
        if step % 10 == 0:
            stream.push(1)
        stream.advance()
        if not len(stream.destination):
            break
    stream.check()
    assert len(stream.destination) == 0
    assert stream.join.statistics.extra["reloaded"] == stream.join.statistics.extra["shed"]


def test_a_stream_that_the_join_keeps_up_with_sheds_nothing(relation: MemoryRelation) -> None:
    stream = stream_into(relation, "hybrid_join", considered())
    for _ in range(300):
        stream.push(1)
        stream.advance()
    assert stream.join.statistics.extra["shed"] == 0
    assert not stream.join.policy.position.overloaded


def test_a_stream_that_falls_silent_is_joined_to_its_last_shed_tuple(relation: MemoryRelation) -> None:
    stream = stream_into(relation, "hybrid_join", considered())
    stream.push(900)
    while stream.join.pending:
        stream.advance()
    assert stream.join.statistics.extra["shed"] > 0
    assert sorted(stream.settled) == list(range(900))


def test_finish_joins_what_is_pending_and_leaves_the_destination_alone(relation: MemoryRelation) -> None:
    stream = stream_into(relation, "hybrid_join", considered())
    stream.push(900)
    stream.advance()
    stream.advance()
    shed = len(stream.destination)
    assert shed
    list(stream.join.finish())
    assert stream.join.pending == 0
    assert len(stream.destination) == shed


@pytest.mark.parametrize("policy", [considered, untuned])
def test_considered_gives_up_the_oldest_that_are_in_memory(
    relation: MemoryRelation, policy: Callable[[], SheddingPolicy]
) -> None:
    stream = stream_into(relation, "hybrid_join", policy())
    capacity = stream.join.join.room
    stream.push(capacity)
    stream.advance()
    first_left = min(set(range(capacity)) - set(stream.settled))
    stream.push(capacity)
    stream.advance()
    shed = stream.destination.take(1)
    assert shed.ids.tolist() == [first_left]
    assert shed.keys.tolist() == [stream.keys[first_left]]
    assert shed.pages.tolist() == relation.pages_of(shed.keys).tolist()


def test_upfront_gives_up_what_came_last(relation: MemoryRelation) -> None:
    stream = stream_into(relation, "hybrid_join", upfront())
    capacity = stream.join.join.room
    stream.push(capacity)
    stream.advance()
    stream.push(300)
    stream.advance()
    shed = stream.destination.take(1000).ids.tolist()
    assert shed == list(range(capacity + 300 - len(shed), capacity + 300))
    assert 200 < len(shed) < 300


def test_a_random_sample_favours_no_key(relation: MemoryRelation) -> None:
    stream = stream_into(relation, "hybrid_join", random_sample(np.random.default_rng(5)))
    for _ in range(4000):
        stream.push(6)
        stream.advance()
    shed = stream.keys[stream.destination.take(len(stream.keys)).ids]
    assert 0.3 < len(shed) / len(stream.keys) < 0.95
    arrived = np.bincount(stream.keys // 40, minlength=11).astype(float)
    expected = arrived * len(shed) / len(stream.keys)
    kept = 1 - len(shed) / len(stream.keys)
    chi_square = ((np.bincount(shed // 40, minlength=11) - expected) ** 2 / (expected * kept)).sum()
    assert chi_square < 29.6  # 0.1 % of random samples exceed it, at 10 degrees of freedom


def test_the_lookup_moves_only_while_tuples_are_shed(relation: MemoryRelation) -> None:
    position = FixedPosition(0.0)
    stream = stream_into(relation, "hybrid_join", considered(position))
    stream.push(900)
    stream.advance()
    stream.advance()
    assert position.overloaded
    while stream.join.overloaded:
        stream.advance()
    assert not position.overloaded


@pytest.mark.parametrize("policy", [considered(), considered(LongestWait(ROWS // PAGE_ROWS)), upfront()])
def test_memory_stays_within_the_joins_budget_and_the_stream_buffer(
    relation: MemoryRelation, policy: SheddingPolicy
) -> None:
    stream = stream_into(relation, "hybrid_join", policy)
    for _ in range(30):
        stream.push(stream.join.room)
        stream.advance()
        assert stream.join.memory_used() <= MEMORY + relation.page_bytes + 1000 * 24


def test_a_full_stream_buffer_takes_no_more(relation: MemoryRelation) -> None:
    stream = stream_into(relation, "hybrid_join", considered())
    stream.push(1000)
    with pytest.raises(JoinStateError, match="room for 0"):
        stream.push(1)


def test_the_caller_can_shed_too(relation: MemoryRelation) -> None:
    stream = stream_into(relation, "hybrid_join", considered())
    stream.push(500)
    ids = stream.join.shed(500)
    assert sorted(ids.tolist()) == list(range(500))
    assert stream.join.pending == 0
    assert stream.join.statistics.shed == 500


class FailingDestination(MemoryDestination):
    """Stores every second parcel only."""

    tries = 0

    def put(self, tuples: TupleColumns) -> None:
        self.tries += 1
        if self.tries % 2:
            raise OSError("no room")
        super().put(tuples)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_the_destination_fails_to_store_is_stored_later(relation: MemoryRelation, policy: str) -> None:
    stream = stream_into(relation, "hybrid_join", POLICIES[policy](), FailingDestination())
    failures = 0
    for _ in range(60):
        stream.push(min(stream.join.room, 100))
        try:
            stream.advance()
        except OSError:
            failures += 1
        stream.join.check()
    assert failures > 3
    while stream.join.pending:
        with contextlib.suppress(OSError):
            stream.advance()
    assert sorted(stream.settled) == list(range(len(stream.keys)))


WAITING = {
    "mesh_join": MeshJoin,
    "semi_streamed_index_join": SemiStreamedIndexJoin,
    "partition_wait_join": PartitionWaitJoin,
}


@pytest.mark.parametrize("join", WAITING)
def test_a_join_that_waits_for_more_of_the_stream_ends_when_told_to(relation: MemoryRelation, join: str) -> None:
    stream = Stream(WAITING[join](relation, 20_000), relation, upfront())
    stream.push(3)
    list(stream.join.finish())
    assert stream.join.pending == 0


@pytest.mark.parametrize("join", WAITING)
def test_a_join_that_waits_for_more_of_the_stream_gets_back_what_was_shed(relation: MemoryRelation, join: str) -> None:
    stream = Stream(WAITING[join](relation, 20_000), relation, upfront())
    for _ in range(100):
        stream.push(min(stream.join.room, 500))
        stream.advance()
    assert len(stream.destination) > 1000
    for _ in range(20_000):
        stream.advance()
        if not len(stream.destination):
            break
    assert len(stream.destination) == 0


def test_probes_are_those_of_the_join(relation: MemoryRelation) -> None:
    stream = stream_into(relation, "cached_hybrid_join", considered())
    for _ in range(30):
        stream.push(min(stream.join.room, 100))
        stream.advance()
    assert stream.join.statistics.probes == stream.join.join.statistics.probes


def test_impossible_positions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"from 0 .* to 1"):
        FixedPosition(1.5)


def test_memory_budget_holds_what_a_position_remembers() -> None:
    relation: Relation = MemoryRelation(range(ROWS), PAGE_ROWS)
    position = LongestWait(relation.page_count)
    join = HybridJoin(relation, 5000, position)
    assert join.memory_used() + relation.page_bytes <= 5000
    assert join.memory_used() > position.memory_used() == 12 * relation.page_count
