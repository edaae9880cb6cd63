"""PJoin forgets what punctuations say is done with, hands them on as soon as that is true, and refuses lies."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.activation import Activation
from spark_jobs.joins.stream_stream.base import Results, Tuples
from spark_jobs.joins.stream_stream.events import Event, Listener, Monitor, Registry, eager_index, lazy_index
from spark_jobs.joins.stream_stream.p_join import PJoin
from spark_jobs.joins.stream_stream.patterns import WILDCARD, Pattern, constant, enumeration, key_range
from spark_jobs.joins.stream_stream.predicates import Equality

AMPLE = 1 << 20
OPEN, BID = 0, 1


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def p_join(memory: int = AMPLE, **policies: object) -> PJoin:
    return PJoin(2, Equality(), memory, VirtualSpill(page_bytes=256), **policies)  # type: ignore[arg-type]


def tuples(*keys: int, first: int = 0) -> Tuples:
    return Tuples(np.arange(first, first + len(keys)), np.array(keys))


def told(results: Results) -> list[tuple[int, list[int]]]:
    """What was handed on: stream and keys."""
    return [(stream, keys_of(pattern)) for stream, pattern in results.propagated]


def little_memory() -> int:
    """A budget with room for about 300 tuples and punctuations."""
    return next(memory for memory in range(1 << 16, AMPLE, 512) if capacity(memory) >= 300)


def capacity(memory: int) -> int:
    try:
        return p_join(memory).parts.memory.capacity
    except MemoryBudgetError:
        return 0


def test_an_auction_that_is_closed_is_forgotten_and_told_downstream() -> None:
    """The running example of 001 §2.1: items open for bids, bids, and the end of an item's auction."""
    join = p_join()
    join.arrive(OPEN, tuples(1080, 1082, 1084))
    assert told(join.punctuate(OPEN, enumeration(np.array([1080, 1082, 1084])))) == []  # each is there yet
    assert join.arrive(BID, tuples(1080, 1082, 1080)).ids.T.tolist() == [[0, 0], [1, 1], [0, 2]]
    closed = join.punctuate(BID, constant(1080))
    assert join.tuples_in_memory() == 2  # items 1082 and 1084; bids are dropped, as an item comes once
    assert told(closed) == [(OPEN, [1080]), (BID, [1080])]
    assert closed.unmatched.size == 0


def test_a_tuple_that_an_opposite_punctuation_matches_is_probed_and_never_stored() -> None:
    join = p_join()
    join.arrive(0, tuples(7))
    join.punctuate(0, constant(7))
    assert join.arrive(1, tuples(7)).ids.T.tolist() == [[0, 0]]
    late = join.arrive(1, tuples(7, first=1))
    assert late.ids.T.tolist() == [[0, 1]]
    assert join.tuples_in_memory() == 1


def test_a_tuple_that_leaves_unmatched_is_told_once() -> None:
    join = p_join()
    join.arrive(0, tuples(5, 6))
    purged = join.punctuate(1, key_range(5, 6))
    assert purged.unmatched.T.tolist() == [[0, 0], [0, 1]]
    assert join.arrive(0, tuples(5, first=2)).unmatched.T.tolist() == [[0, 2]]
    assert [results.unmatched.size for results in join.finish()] == [0]


def test_a_tuple_against_a_punctuation_of_its_own_stream_is_refused() -> None:
    join = p_join()
    join.punctuate(0, constant(3) | key_range(10, 2**62))
    results = join.arrive(0, tuples(3, 4, 10, 2**62))
    assert results.refused.tolist() == [0, 2, 3]
    assert (join.statistics.arrived, join.statistics.refused) == (1, 3)
    join.punctuate(1, WILDCARD)
    assert join.arrive(1, tuples(4, 99)).refused.tolist() == [0, 1]


def test_a_key_that_both_streams_have_closed_stays_closed() -> None:
    join = p_join()
    for stream in (0, 1):
        join.punctuate(stream, enumeration(np.arange(100)))
    assert len(join.parts.memory) == 0  # neither tuples nor keys: one range covers them
    assert join.arrive(0, tuples(42)).refused.tolist() == [0]


@pytest.mark.parametrize("find", ["index", "scan"])
def test_a_lazy_purge_waits_for_its_threshold(find: str) -> None:
    join = p_join(monitor=Monitor(purge_threshold=3), find=find)
    join.arrive(0, tuples(1, 2, 3, 4))
    for key, left in ((1, 4), (2, 4), (3, 1)):
        join.punctuate(1, constant(key))
        assert join.tuples_in_memory() == left


def test_a_purge_by_index_looks_at_no_other_tuples() -> None:
    looked_at = []
    for find in ("index", "scan"):
        join = p_join(find=find)
        join.arrive(0, tuples(*range(1000)))
        join.punctuate(1, constant(500))
        looked_at.append(join.scanned)
    assert looked_at == [0, 1000]


def test_a_punctuation_is_handed_on_when_no_tuple_of_its_stream_is_left() -> None:
    join = p_join()
    join.arrive(0, tuples(1, 1, 3))
    assert told(join.punctuate(0, enumeration(np.array([1, 3, 9])))) == [(0, [9])]
    join.arrive(1, tuples(1))
    assert told(join.punctuate(1, constant(1))) == [(0, [1]), (1, [1])]
    assert told(join.punctuate(1, constant(3))) == [(0, [3]), (1, [3])]


def test_a_range_is_handed_on_when_its_last_tuple_is_gone() -> None:
    join = p_join()
    join.arrive(0, tuples(10, 20, 5000))
    assert told(join.punctuate(0, key_range(10, 30))) == []
    join.punctuate(1, constant(10))
    (both,) = [join.punctuate(1, constant(20))]
    assert (0, list(range(10, 31))) in told(both)
    wide = key_range(4000, 2**62)
    assert join.punctuate(0, wide).propagated == []
    assert (0, wide) in join.punctuate(1, key_range(4000, 2**62)).propagated


def test_push_by_count_waits_for_as_many_punctuations() -> None:
    join = p_join(monitor=Monitor(propagate_count=3))
    assert [told(join.punctuate(0, constant(2 * key))) for key in range(3)] == [[], [], [(0, [0, 2, 4])]]


def test_push_by_time_waits_for_the_clock() -> None:
    clock = Clock()
    join = p_join(monitor=Monitor(propagate_count=None, propagate_after=10.0), clock=clock)
    assert told(join.punctuate(0, constant(1))) == []
    clock.now = 10.0
    assert told(join.arrive(1, tuples(5))) == [(0, [1])]
    assert told(join.punctuate(0, constant(3))) == []


def test_pull_hands_on_at_request_only() -> None:
    join = p_join(monitor=Monitor(propagate_count=None))
    assert told(join.punctuate(0, constant(1))) == []
    assert told(join.request_propagation()) == [(0, [1])]
    assert told(join.request_propagation()) == []


def test_an_eager_index_counts_when_a_punctuation_comes_a_lazy_one_before_it_is_handed_on() -> None:
    counted = []
    for registry in (lazy_index(), eager_index()):
        join = p_join(monitor=Monitor(propagate_count=None), registry=registry)
        join.arrive(0, tuples(*range(50)))
        join.punctuate(0, key_range(-(2**62), 2**62))
        before = join.scanned
        join.request_propagation()
        counted.append((before, join.scanned))
    assert counted == [(0, 50), (50, 50)]


def test_the_registry_can_be_changed_while_the_join_runs() -> None:
    join = p_join()
    join.arrive(0, tuples(1, 2))
    join.registry.listeners[Event.PURGE_THRESHOLD_REACHED] = []
    join.punctuate(1, constant(1))
    assert join.tuples_in_memory() == 2
    enough = Listener(("purge",), condition=lambda monitor: monitor.since_purge >= 2)
    join.registry.listeners[Event.NEW_PUNCTUATION_READY] = [enough]
    join.punctuate(1, constant(9))
    assert join.tuples_in_memory() == 1


def test_a_registry_that_does_nothing_loses_nothing() -> None:
    join = p_join(little_memory(), registry=Registry())
    join.arrive(0, tuples(*range(400)))
    found = join.arrive(1, tuples(*range(400))).ids.shape[1]
    join.punctuate(0, enumeration(np.arange(0, 400, 2)))
    found += sum(results.ids.shape[1] for results in join.finish())
    assert found == 400


class TestWithADisk:
    def spilled(self, **policies: object) -> PJoin:
        """A join most of whose tuples lie on disk: keys 0 to 999 of stream 0."""
        join = p_join(little_memory(), activation=Activation(0), **policies)
        join.arrive(0, tuples(*range(1000)))
        assert join.tuples_on_disk() > 600
        return join

    def test_tuples_on_disk_are_purged_when_their_partition_is_read(self) -> None:
        join = self.spilled()
        join.punctuate(1, enumeration(np.arange(0, 400, 2)))
        unmatched = 0
        while join.is_work:
            unmatched += join.advance().unmatched.shape[1]
        assert join.tuples_on_disk() + join.tuples_in_memory() == 800
        assert join.statistics.unmatched == 200
        assert unmatched > 100

    def test_what_is_to_be_purged_meets_the_disk_first(self) -> None:
        join = self.spilled()
        join.punctuate(0, enumeration(np.arange(1000)))
        found = join.arrive(1, tuples(*range(1000))).ids.shape[1]
        assert found < 1000
        while join.is_work:
            found += join.advance().ids.shape[1]
        assert found == 1000
        assert join.statistics.unmatched == 0
        # Stream 1 goes on, so the tuples of stream 0 stay; those of stream 1 have met all that they ever will.
        assert join.tuples_in_memory() + join.tuples_on_disk() == 1000

    def test_a_punctuation_waits_for_the_tuples_on_disk(self) -> None:
        join = self.spilled()
        keys = list[int]()
        for results in (
            join.punctuate(0, enumeration(np.arange(1000))),
            join.punctuate(1, enumeration(np.arange(1000))),
        ):
            keys += [key for stream, some in told(results) if stream == 0 for key in some]
        assert len(keys) < 1000
        while join.is_work:
            keys += [key for stream, some in told(join.advance()) if stream == 0 for key in some]
        assert sorted(keys) == list(range(1000))
        assert join.tuples_on_disk() == 0

    def test_a_tuple_that_matched_while_it_lay_on_disk_is_not_told_as_unmatched(self) -> None:
        join = self.spilled()
        found = join.arrive(1, tuples(*range(1000))).ids.shape[1]
        while join.is_work:
            found += join.advance().ids.shape[1]
        join.punctuate(0, enumeration(np.arange(1000)))
        join.punctuate(1, enumeration(np.arange(1000)))
        unmatched = 0
        while join.is_work:
            results = join.advance()
            found, unmatched = found + results.ids.shape[1], unmatched + results.unmatched.shape[1]
        assert (found, unmatched) == (1000, 0)
        assert join.tuples_in_memory() + join.tuples_on_disk() == 0


def keys_of(pattern: Pattern) -> list[int]:
    keys = pattern.keys(10_000)
    assert keys is not None
    return keys.tolist()
