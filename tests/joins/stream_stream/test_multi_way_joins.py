"""MJoin and AMJoin: one frame, coordinated flush, joins on demand; what is told by counts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from spark_jobs.errors import JoinStateError, MemoryBudgetError
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.am_join import AMJoin
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.keys_in_all_streams import KeysInAllStreams
from spark_jobs.joins.stream_stream.m_join import MJoin
from spark_jobs.joins.stream_stream.multi_way_join import MultiWayJoin
from spark_jobs.joins.stream_stream.predicates import Band, Equality
from spark_jobs.joins.stream_stream.probe_order import FixedOrder, ObservedSelectivity
from spark_jobs.joins.stream_stream.value_flushing import MostBits, RandomValue
from tests.conformance.stream_stream_run import Case, Run, random_streams
from tests.joins.structures.test_bit_vector_table import unmixed

AMPLE, SMALL = 1 << 17, 20_000
BOTH = pytest.mark.parametrize("make", [MJoin, AMJoin])


def arrive(
    join: MultiWayJoin, stream: int, keys: Sequence[int], first_id: int = 0, *, check: bool = True
) -> list[tuple[int, ...]]:
    """The results, in order."""
    results = join.arrive(stream, Tuples(np.arange(first_id, first_id + len(keys)), np.array(keys, np.int64)))
    if check:
        join.check()
    return sorted(zip(*results.ids.tolist(), strict=True))


def finished(join: MultiWayJoin) -> tuple[list[tuple[int, ...]], set[tuple[int, int]]]:
    """Late results, and unmatched tuples."""
    found, unmatched = [], set()
    for results in join.finish():
        found += zip(*results.ids.tolist(), strict=True)
        unmatched |= set(zip(*results.unmatched.tolist(), strict=True))
    return sorted(found), unmatched


@BOTH
def test_the_last_stream_to_bring_an_item_gives_the_item_of_all_stores(make: type[MJoin] | type[AMJoin]) -> None:
    """Q1 of 002 §1: items that sell in all of four stores."""
    join = make(4, Equality(), AMPLE, VirtualSpill())
    assert arrive(join, 0, [10, 11]) == arrive(join, 1, [11, 12]) == arrive(join, 2, [11, 11]) == []
    assert arrive(join, 3, [10, 11]) == [(1, 0, 0, 1), (1, 0, 1, 1)]
    assert finished(join) == ([], {(0, 0), (1, 1), (3, 0)})


@BOTH
def test_lists_of_all_streams_are_crossed(make: type[MJoin] | type[AMJoin]) -> None:
    join = make(3, Equality(), AMPLE, VirtualSpill())
    arrive(join, 0, [5] * 9)
    arrive(join, 1, [5] * 11)
    assert arrive(join, 2, [5, 6, 5]) == sorted(product(range(9), range(11), (0, 2)))


@BOTH
def test_no_result_comes_twice_when_a_value_goes_to_disk(make: type[MJoin] | type[AMJoin]) -> None:
    """Hot and rare keys, results before the flush, after it in a pause, after another pause, and at the end."""
    run = Run(Case("m_join", "equality", 3), 12_000, lambda memory, spill: make(3, Equality(), memory, spill))
    randomness = random.Random(5)
    streams = random_streams(run.case, randomness, [120] * 3)
    join = run.join
    for first in range(0, 120, 20):
        for stream, rows in enumerate(streams):
            run.arrive(stream, rows[first : first + 20])
        if first in (60, 80):
            while join.is_work:
                run.advance()
    run.finish()
    run.assert_equals_naive_join()
    counts = join.statistics
    assert counts.early > 0 < counts.late
    assert join.values_flushed > 0 < counts.flushed


@BOTH
def test_tuples_of_a_flushed_value_wait_for_a_pause(make: type[MJoin] | type[AMJoin]) -> None:
    join = make(2, Equality(), SMALL, VirtualSpill())
    arrive(join, 0, range(join.capacity))
    assert join.values_flushed == 0
    arrive(join, 0, range(join.capacity, 2 * join.capacity), join.capacity)
    assert join.values_flushed > 0
    early = arrive(join, 1, range(2 * join.capacity))
    assert 0 < len(early) < 2 * join.capacity
    assert join.is_work
    late = []
    while join.is_work:
        late += zip(*join.advance().ids.tolist(), strict=True)
        join.check()
    assert sorted(early + late) == [(id_, id_) for id_ in range(2 * join.capacity)]
    assert finished(join) == ([], set())


@BOTH
def test_spilling_drops_no_unmatched_tuple(make: type[MJoin] | type[AMJoin]) -> None:
    join = make(3, Equality(), SMALL, VirtualSpill(page_bytes=512))
    count = 6 * join.capacity
    for stream in range(2):
        arrive(join, stream, range(count))
    arrive(join, 2, range(0, count, 50))
    found, unmatched = finished(join)
    assert unmatched == {(stream, id_) for stream in range(2) for id_ in range(count) if id_ % 50}
    assert join.statistics.early + len(found) == -(-count // 50)


@BOTH
def test_a_key_with_more_tuples_than_memory_is_joined_block_by_block(make: type[MJoin] | type[AMJoin]) -> None:
    join = make(2, Equality(), SMALL, VirtualSpill(page_bytes=512))
    count = 2 * join.capacity
    arrive(join, 0, [7] * count)
    found = arrive(join, 1, [7] * 60 + [8])
    late, unmatched = finished(join)
    assert sorted(found + late) == sorted(product(range(count), range(60)))
    assert unmatched == {(1, 60)}


@BOTH
def test_some_of_the_streams_are_joined_on_demand(make: type[MJoin] | type[AMJoin]) -> None:
    join = make(4, Equality(), SMALL, VirtualSpill(page_bytes=512))
    randomness = random.Random(3)
    keys = [[randomness.randrange(300) for _ in range(150)] for _ in range(4)]
    for stream in range(4):
        arrive(join, stream, keys[stream])
    assert join.values_flushed
    before = join.statistics.early
    for wanted in ((0, 3), (3, 1, 0)):
        results = [r.ids for r in join.join_of(wanted)]
        found = sorted(zip(*np.concatenate(results, axis=1).tolist(), strict=True))
        expected = (
            [
                ids
                for ids in product(range(150), repeat=len(wanted))
                if len({keys[stream][id_] for stream, id_ in zip(wanted, ids, strict=True)}) == 1
            ]
            if len(wanted) == 2
            else [
                (c, b, a)
                for a in range(150)
                for b in range(150)
                if keys[0][a] == keys[1][b]
                for c in range(150)
                if keys[3][c] == keys[0][a]
            ]
        )
        assert found == sorted(expected)
    assert join.statistics.early == before
    with pytest.raises(ValueError, match="at least two of 4"):
        next(join.join_of((0, 0)))


def test_am_join_takes_one_look_for_a_tuple_that_fails_and_m_join_one_for_each_stream_that_has_the_key() -> None:
    joins = (
        MJoin(5, Equality(), AMPLE, VirtualSpill(), order=FixedOrder()),
        AMJoin(5, Equality(), AMPLE, VirtualSpill()),
    )
    for join in joins:
        for stream in (1, 2, 3):
            arrive(join, stream, range(100))
    before = [join.statistics.probes for join in joins]
    for join in joins:
        arrive(join, 0, range(100))
    assert [join.statistics.probes - b for join, b in zip(joins, before, strict=True)] == [400, 100]


def test_an_observed_order_asks_first_where_fewest_are_found() -> None:
    def probes(order: FixedOrder | ObservedSelectivity) -> int:
        join = MJoin(4, Equality(), AMPLE, VirtualSpill(), order=order)
        for stream, step in ((1, 1), (2, 2), (3, 50)):
            arrive(join, stream, range(0, 1000, step), check=False)
        before = join.statistics.probes
        for first in range(0, 1000, 20):
            arrive(join, 0, range(first, first + 20), first, check=False)
        return join.statistics.probes - before

    learned, best = probes(ObservedSelectivity()), probes(FixedOrder((0, 3, 2, 1)))
    assert best <= learned < 1.2 * best < 0.6 * probes(FixedOrder())


def test_the_order_follows_selectivities_that_change() -> None:
    order = ObservedSelectivity(remembered=100)
    for _ in range(5):
        order.learn(0, np.array([0, 1000, 1000]), np.array([0, 900, 10]))
    assert order.order(0, 3).tolist() == [2, 1]
    for _ in range(5):
        order.learn(0, np.array([0, 1000, 1000]), np.array([0, 10, 900]))
    assert order.order(0, 3).tolist() == [1, 2]


def test_an_order_names_each_stream_once() -> None:
    with pytest.raises(ValueError, match="each of 3 streams once"):
        FixedOrder((0, 1, 1)).order(0, 3)


def test_keys_that_share_a_bit_vector_make_no_wrong_results() -> None:
    """Two keys with one hash: one is in stream 0, the other in stream 1; the bits say that both are everywhere."""
    first, second = (unmixed((upper << 32) + 12345) for upper in (0x10000000, 0x10000001))
    results = {}
    for exact in (False, True):
        join = AMJoin(2, Equality(), AMPLE, VirtualSpill(), exact_bits=exact)
        assert arrive(join, 0, [first]) == []
        assert arrive(join, 1, [second]) == []
        results[exact] = join.statistics.probes
        assert arrive(join, 1, [first], 1) == [(0, 1)]
        assert finished(join) == ([], {(1, 0)})
    assert results == {False: 3, True: 2}


def test_bits_are_cleared_when_their_tuples_leave() -> None:
    join = AMJoin(3, Equality(), SMALL, VirtualSpill())
    for stream in range(3):
        arrive(join, stream, range(2 * join.capacity))
    assert 0 < len(join._bits) <= len(join._tables) <= join.capacity


def test_most_bits_make_more_room_a_value_than_chance() -> None:
    """One key in ten is in all four streams."""
    rooms = {}
    for flush in (RandomValue(), MostBits()):
        join = AMJoin(4, Equality(), 1 << 17, VirtualSpill(), flush=flush)
        size = join.capacity // 4
        for first in range(0, 8 * size, size):
            for stream in range(4):
                keys = [key if key % 10 == 0 else stream + 4 * key for key in range(first, first + size)]
                arrive(join, stream, keys, first, check=False)
        rooms[type(flush)] = join.tuples_freed / join.values_flushed
    assert rooms[MostBits] > 1.05 * rooms[RandomValue]


def test_m_join_has_no_bits_to_look_at() -> None:
    with pytest.raises(ValueError, match="take am_join"):
        MJoin(2, Equality(), AMPLE, VirtualSpill(), flush=MostBits())


@BOTH
def test_other_predicates_are_refused(make: type[MJoin] | type[AMJoin]) -> None:
    with pytest.raises(ValueError, match="by equal keys"):
        make(2, Band(1), AMPLE, VirtualSpill())


@pytest.mark.parametrize("exact", [False, True])
def test_ids_of_objects_that_all_sensors_saw_come_once(exact: bool) -> None:
    """Q2 of 002 §2.3."""
    query = KeysInAllStreams(3, 10_000, exact=exact)
    assert query.arrive(0, np.array([1, 2, 3])).tolist() == []
    assert query.arrive(1, np.array([3, 2, 9])).tolist() == []
    assert query.arrive(2, np.array([4, 3, 3, 2])).tolist() == [3, 2]
    assert query.arrive(0, np.array([3, 9])).tolist() == []
    assert query.looks == 12
    assert query.memory_used() <= 10_000


def test_ids_are_as_exact_as_their_entries() -> None:
    twins = [unmixed((upper << 32) + 77) for upper in (1, 2)]
    for exact, told in ((False, twins[1:]), (True, [])):
        query = KeysInAllStreams(2, 1000, exact=exact)
        query.arrive(0, np.array(twins[:1]))
        assert query.arrive(1, np.array(twins[1:])).tolist() == told


def test_ids_that_do_not_fit_are_refused_and_none_taken() -> None:
    query = KeysInAllStreams(2, 1000)
    query.arrive(0, np.arange(20))
    with pytest.raises(MemoryBudgetError, match="give it more than"):
        query.arrive(1, np.arange(1000))
    assert query.arrive(1, np.arange(20)).tolist() == list(range(20))
    with pytest.raises(JoinStateError, match="no stream 2"):
        query.arrive(2, np.arange(1))
    with pytest.raises(MemoryBudgetError, match="one key takes"):
        KeysInAllStreams(2, 10)
    with pytest.raises(ValueError, match="from 2 to 16"):
        KeysInAllStreams(17, 1000)


@BOTH
@pytest.mark.parametrize("streams", [2, 16])
def test_up_to_sixteen_streams_are_joined(make: type[MJoin] | type[AMJoin], streams: int) -> None:
    join = make(streams, Equality(), AMPLE, VirtualSpill())
    for stream in range(streams - 1):
        assert arrive(join, stream, [1, stream]) == []
    assert arrive(join, streams - 1, [1]) == sorted(
        product(*((0, 1) if stream == 1 else (0,) for stream in range(streams - 1)), (0,))
    )
