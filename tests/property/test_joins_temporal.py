"""The theorems of 004 on time and order, and the temporal join's structures against lists, by random operations."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.emission import Emission, InputOrdered, OutputOrdered
from spark_jobs.joins.stream_stream.extent_queue import ExtentQueue
from spark_jobs.joins.stream_stream.predicates import Band, Equality, Overlap, Predicate, Values
from spark_jobs.joins.stream_stream.result_buffer import ResultBuffer
from spark_jobs.joins.stream_stream.temporal_join import TemporalJoin
from spark_jobs.joins.stream_stream.tuple_queue import TupleQueue
from spark_jobs.joins.stream_stream.validity_order import ValidityOrder
from spark_jobs.joins.structures import sweep_area
from spark_jobs.joins.structures.interval_order import interval_order
from spark_jobs.joins.structures.sweep_area import FOUND_COLUMNS, FOUND_ID, SweepArea

LOWEST, LARGEST = -(2**63), 2**63 - 1
PREDICATES = [Equality(), Overlap(), Band(0), Band(3)]
KEYS = st.integers(-6, 6) | st.integers(LOWEST, LARGEST - 1) | st.sampled_from([LOWEST, LARGEST - 1])
TIMES = st.integers(0, 12)


@st.composite
def intervals(draw: st.DrawFn, points: st.SearchStrategy[int]) -> tuple[int, int]:
    low = draw(points)
    return low, min(LARGEST, low + draw(st.sampled_from([1, 2, 5, 40, 2**62])))


def values(*pairs: tuple[int, int], predicate: Predicate) -> Values:
    keys, highs = np.array(pairs, np.int64).reshape(-1, 2).T
    return Values(keys, highs if predicate.interval else None)


def columns_of(rows: list[list[int]], width: int) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1, width).T


@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
@given(st.lists(intervals(KEYS), min_size=3, max_size=3))
def test_what_is_removed_matches_nothing_that_follows(predicate: Predicate, drawn: list[tuple[int, int]]) -> None:
    """004 (1) and (2): for all w >= v, if P_rm(v, u) then not P_join(u, w), nor P_join(w, u)."""
    order = (lambda pair: pair) if predicate.interval else (lambda pair: pair[0])
    for kept in drawn:
        reached, following = sorted((pair for pair in drawn if pair is not kept), key=order)[:2]
        v, u, w = (values(pair, predicate=predicate) for pair in (reached, kept, following))
        if predicate.removes(v, u)[0]:
            assert not predicate.joins(u, w)[0]
            assert not predicate.joins(w, u)[0]


@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
@given(intervals(KEYS), intervals(KEYS))
def test_a_predicate_is_symmetric(predicate: Predicate, left: tuple[int, int], right: tuple[int, int]) -> None:
    one, other = values(left, predicate=predicate), values(right, predicate=predicate)
    assert predicate.joins(one, other) == predicate.joins(other, one)


ROWS = st.lists(st.tuples(intervals(st.integers(-3, 3)), TIMES, st.integers(1, 6)), max_size=7)


@pytest.mark.parametrize("emission", [InputOrdered(), OutputOrdered()], ids=["input", "output"])
@pytest.mark.parametrize("predicate", [Equality(), Overlap(), Band(1)], ids=str)
@settings(deadline=None, max_examples=30)
@given(st.lists(ROWS, min_size=2, max_size=3), st.randoms(use_true_random=False))
def test_a_snapshot_of_the_results_is_the_join_of_the_snapshots(
    predicate: Predicate, emission: Emission, drawn: list, randomness: object
) -> None:
    """Snapshot reducibility, 004 (3), at every instant."""
    streams = [sorted(((start, start + length, *key) for key, start, length in rows)) for rows in drawn]
    join = TemporalJoin(len(streams), predicate, 1 << 18, VirtualSpill(), emission=emission)
    parts = []
    for stream, rows in enumerate(streams):
        starts, ends, keys, highs = columns_of([list(row) for row in rows], 4)
        tuples = Tuples(np.arange(len(rows)), keys, highs if predicate.interval else None, starts, ends)
        parts += [(stream, tuples.part(slice(first, first + 2))) for first in range(0, len(rows), 2)]
    parts.sort(key=lambda part: part[0] if emission.buffers_inputs else part[1].ids[0])
    results = [join.arrive(stream, tuples) for stream, tuples in parts] + list(join.finish())
    found = [
        (tuple(ids), start, end)
        for some in results
        if some.starts is not None and some.ends is not None
        for *ids, start, end in np.vstack((some.ids, some.starts, some.ends)).T.tolist()
    ]
    for instant in range(20):
        valid = [[i for i, row in enumerate(rows) if row[0] <= instant < row[1]] for rows in streams]
        expected: set[tuple[int, ...]] = {(i,) for i in valid[0]}
        for stream in range(1, len(streams)):
            expected = {
                (*ids, i)
                for ids in expected
                for i in valid[stream]
                if all(
                    predicate.joins(
                        values(streams[other][j][2:], predicate=predicate),
                        values(streams[stream][i][2:], predicate=predicate),
                    )[0]
                    for other, j in enumerate(ids)
                )
            }
        snapshot = [ids for ids, start, end in found if start <= instant < end]
        assert len(snapshot) == len(set(snapshot))
        assert set(snapshot) == expected


INSERT = st.tuples(
    st.just("insert"), st.lists(st.tuples(intervals(KEYS), TIMES, st.integers(1, 9), st.booleans()), max_size=9)
)
QUERY = st.tuples(st.just("query"), st.lists(st.tuples(intervals(KEYS), TIMES, st.integers(1, 9)), max_size=5))
REORGANISE = st.tuples(st.just("reorganise"), st.integers(0, 3))
REBUILD = st.tuples(st.just("rebuild"), st.integers(0, 3))
TAKE = st.tuples(st.just("take"), st.integers(0, 4))


@settings(deadline=None, max_examples=150)
@given(
    st.integers(2, 40) | st.just(700),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 2), INSERT | QUERY | REORGANISE | REBUILD | TAKE), max_size=25),
)
def test_sweep_areas_behave_like_lists(capacity: int, streams: int, operations: list) -> None:
    area = SweepArea(max(capacity, streams), streams)
    held: list[list[list[int]]] = [[] for _ in range(streams)]  # Low, last, start, end, id, matched.
    clock = next_id = 0
    for any_stream, (operation, argument) in operations:
        stream = any_stream % streams
        if operation == "insert":
            rows = [
                [low, high - 1, clock + start, clock + start + length, next_id + i, int(matched)]
                for i, ((low, high), start, length, matched) in enumerate(argument[: area.room(stream)])
            ]
            next_id += len(rows)
            area.insert(stream, columns_of(rows, 6))
            held[stream] += rows
        elif operation == "query":
            queries = [[low, high - 1, clock + at, clock + at + length] for (low, high), at, length in argument]
            asked, cursor, found = columns_of(queries, 4), sweep_area.begin(), []
            room = np.empty((FOUND_COLUMNS, 2), np.int64)
            while not sweep_area.ended(asked, cursor):
                count = area.query(stream, np.ascontiguousarray(asked), cursor, room, mark=False)
                found += [(row[0], *row[FOUND_ID:]) for row in room[:, :count].T.tolist()]
            assert sorted(found) == sorted(
                (i, row[4], max(low, row[0]), min(last, row[1]), max(start, row[2]), min(end, row[3]))
                for i, (low, last, start, end) in enumerate(queries)
                for row in held[stream]
                if row[0] <= last and row[1] >= low and row[2] < end and row[3] > start
            )
        elif operation == "reorganise":
            clock += argument
            gone = [row for row in held[stream] if row[3] <= clock]
            held[stream] = [row for row in held[stream] if row[3] > clock]
            dropped = area.reorganise(stream, clock)
            assert dropped.tuples == len(gone)
            assert sorted(dropped.unmatched.tolist()) == [row[4] for row in gone if not row[5]]
        elif operation == "rebuild":
            wanted = np.zeros(streams, np.int64)
            wanted[stream] = min(argument, area.free)
            for other, dropped in enumerate(area.rebuild(np.full(streams, clock), wanted)):
                gone = [row for row in held[other] if row[3] <= clock]
                held[other] = [row for row in held[other] if row[3] > clock]
                assert dropped.tuples == len(gone)
                assert dropped.unmatched.tolist() == [row[4] for row in gone if not row[5]]
            assert area.room(stream) >= wanted[stream]
        else:
            taken = area.take_oldest(stream, argument).T.tolist()
            assert bool(taken) == bool(held[stream][:argument])
            assert taken == held[stream][: min(argument, len(taken))]
            held[stream] = held[stream][len(taken) :]
        area.check()
        standing = [area.oldest(s, 999).T.tolist() for s in range(streams)]
        assert [[row for row in rows if row[3] != LOWEST] for rows in standing] == held
        assert area.memory_used() == SweepArea.bytes_for(area.capacity, streams)


@given(st.lists(st.tuples(st.integers(0, 9) | KEYS, st.integers(0, 5)), max_size=80), st.booleans())
def test_interval_order_sorts_by_start_then_end_and_keeps_equals(drawn: list[tuple[int, int]], almost: bool) -> None:
    pairs = sorted(drawn)[: len(drawn) // 2] + drawn[len(drawn) // 2 :] if almost else drawn
    starts, ends = columns_of([list(pair) for pair in pairs], 2)
    order = interval_order(starts, ends)
    expected = np.lexsort((ends, starts)).tolist()
    assert (list(range(len(pairs))) if order is None else order.tolist()) == expected
    assert (order is None) == (expected == list(range(len(pairs))))


@given(st.lists(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=8), max_size=5), st.integers(0, 12))
def test_only_tuples_in_order_are_taken(batches: list, reached: int) -> None:
    order = ValidityOrder(2)
    order.reach(1, reached)
    latest = (reached, LOWEST)
    for batch in batches:
        intervals = [(start, start + 1 + length) for start, length in batch]
        expected = []
        for interval in intervals:
            expected.append(interval >= latest)
            latest = max(latest, interval)
        starts, ends = columns_of([list(interval) for interval in intervals], 2)
        kept = order.take(1, Tuples(starts, starts, None, starts, ends))
        assert (kept is None) == all(expected)
        assert kept is None or kept.tolist() == expected
        assert order.starts.tolist() == [LOWEST, latest[0]]


@settings(deadline=None)
@given(st.integers(1, 9), st.lists(st.tuples(st.booleans(), st.integers(0, 14)), max_size=90))
def test_queues_of_tuples_and_of_extents_are_first_in_first_out(chunk: int, operations: list) -> None:
    spill = VirtualSpill()
    queue, extents = TupleQueue(spill, 2, chunk), ExtentQueue(spill, 1)
    expected: list[int] = []
    numbers: list[int] = []
    following = 0
    for pushed, number in operations:
        if pushed:
            count = min(number, chunk)
            queue.push(np.arange(following, following + count) + np.zeros((2, 1), np.int64))
            expected += range(following, following + count)
            for _ in range(number):
                extents.push(following)
                numbers.append(following)
            following += count
            if number % 3 == 0 and queue.chunks:
                queue.spill()
        else:
            for _ in range(min(number, len(numbers))):
                assert extents.pop() == (numbers.pop(0),)
            if expected:
                front = queue.front()
                assert front[1].tolist() == expected[: front.shape[1]]
                count = 1 + number % front.shape[1]
                queue.take(count)
                expected = expected[count:]
        assert len(queue) == len(expected)
        assert len(extents) == len(numbers)
        assert extents.memory_used() <= ExtentQueue.bytes_for(1)
    while numbers:
        assert extents.pop() == (numbers.pop(0),)
    while expected:
        front = queue.front()
        assert front[0].tolist() == expected[: front.shape[1]]
        expected = expected[front.shape[1] :]
        queue.take(front.shape[1])
    assert not spill.extents


@settings(deadline=None)
@given(
    st.integers(96, 2000),
    st.sampled_from([24, 100]),
    st.lists(st.tuples(st.lists(st.tuples(TIMES, TIMES), max_size=12), st.integers(0, 4)), max_size=30),
)
def test_waiting_results_leave_in_order(memory: int, page_bytes: int, operations: list) -> None:
    spill = VirtualSpill(page_bytes=page_bytes)
    buffer = ResultBuffer(spill, 3, memory)
    waiting: list[list[int]] = []
    bound = 0
    for added, progress in operations:
        rows = [[bound + start, bound + start + 1 + length, i] for i, (start, length) in enumerate(added)]
        waiting += rows
        buffer.add(columns_of(rows, 3))
        bound += progress
        left = buffer.release(bound).T.tolist()
        assert all(earlier[:2] <= later[:2] for earlier, later in pairwise(left))
        assert sorted(left) == sorted(row for row in waiting if row[0] < bound)
        waiting = [row for row in waiting if row[0] >= bound]
    assert sorted(buffer.release(LARGEST).T.tolist()) == sorted(waiting)
    assert not spill.extents
