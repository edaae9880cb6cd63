"""Temporal join: validity intervals, both ways to keep results in order, several streams, little memory."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from spark_jobs.errors import JoinStateError
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.base import Results, Tuples
from spark_jobs.joins.stream_stream.emission import AsFound, Emission, InputOrdered, OutputOrdered
from spark_jobs.joins.stream_stream.predicates import Band, Equality
from spark_jobs.joins.stream_stream.probe_order import ObservedSelectivity
from spark_jobs.joins.stream_stream.temporal_join import TemporalJoin
from tests.conformance.stream_stream_run import PREDICATES, Case, Run, random_streams

AMPLE = 1 << 22
LITTLE = 30_000
both_ways = pytest.mark.parametrize("emission", [InputOrdered(), OutputOrdered()], ids=["input", "output"])


def tuples(*rows: tuple[int, int, int]) -> Tuples:
    """Tuples from (key, start, end); ids are positions."""
    keys, starts, ends = np.array(rows, np.int64).reshape(-1, 3).T
    return Tuples(np.arange(len(rows)), keys, None, starts, ends)


def ids_from(first: int, of: Tuples) -> Tuples:
    return Tuples(of.ids + first, of.keys, of.highs, of.starts, of.ends)


def made(streams: int = 2, memory: int = AMPLE, **policies: Any) -> TemporalJoin:
    return TemporalJoin(streams, Equality(), memory, VirtualSpill(page_bytes=256), **policies)


def rows_of(results: Results) -> list[tuple[tuple[int, ...], int, int]]:
    assert results.starts is not None
    assert results.ends is not None
    ids = zip(*results.ids.tolist(), strict=True)
    return list(zip(ids, results.starts.tolist(), results.ends.tolist(), strict=True))


def finished(join: TemporalJoin) -> tuple[list[tuple[tuple[int, ...], int, int]], list[tuple[int, ...]]]:
    """Results and unmatched tuples of `finish`."""
    found, unmatched = [], []
    for results in join.finish():
        found += rows_of(results)
        unmatched += list(zip(*results.unmatched.tolist(), strict=True))
    return found, unmatched


@both_ways
def test_a_result_is_valid_when_all_its_tuples_are(emission: Emission) -> None:
    """The example of 004 §5.1: 42 is valid on both streams from 10 to 12, 3 at no time."""
    join = made(emission=emission)
    first = rows_of(join.arrive(0, tuples((42, 10, 15), (3, 11, 14))))
    second = rows_of(join.arrive(1, tuples((42, 4, 12), (3, 17, 22))))
    last, unmatched = finished(join)
    assert first == []
    assert second + last == [((0, 0), 10, 12)]
    assert unmatched == [(1, 1)] or sorted(unmatched) == [(0, 1), (1, 1)]


@both_ways
def test_intervals_that_only_touch_have_no_time_in_common(emission: Emission) -> None:
    join = made(emission=emission)
    join.arrive(0, tuples((7, 0, 10)))
    join.arrive(1, tuples((7, 10, 20)))
    assert finished(join)[0] == []


def test_what_is_over_leaves_when_the_other_stream_has_passed_it() -> None:
    """The picture in the README."""
    join = made()
    join.arrive(0, tuples((42, 4, 14), (7, 9, 19), (42, 15, 25)))
    assert rows_of(join.arrive(1, tuples((7, 8, 18)))) == []
    assert join.tuples_in_memory() == 4
    results = join.arrive(1, ids_from(1, tuples((42, 16, 26))))
    assert rows_of(results) == [((1, 0), 9, 18)]
    assert results.unmatched.tolist() == [[0], [0]]
    assert join.tuples_in_memory() == 4
    assert finished(join) == ([((2, 1), 16, 25)], [])


def test_output_order_joins_at_arrival_and_input_order_when_no_stream_can_precede() -> None:
    probes = {}
    for emission in (InputOrdered(), OutputOrdered()):
        join = made(emission=emission)
        join.arrive(0, tuples((1, 5, 50), (1, 6, 51)))
        probes[type(emission).__name__] = join.statistics.probes
    assert probes == {"InputOrdered": 0, "OutputOrdered": 2}


@both_ways
def test_results_come_as_soon_as_all_streams_have_passed_their_start(emission: Emission) -> None:
    join = made(emission=emission)
    assert rows_of(join.arrive(0, tuples((1, 5, 50), (2, 9, 60)))) == []
    assert rows_of(join.arrive(1, tuples((1, 5, 40)))) == []
    assert rows_of(join.arrive(1, ids_from(1, tuples((3, 6, 41))))) == [((0, 0), 5, 40)]


@both_ways
def test_results_of_one_start_come_in_order_of_their_ends(emission: Emission) -> None:
    """Were each let go when both streams have brought a later interval, as 004 §5.2 has it, (0, 1) would leave first.

    x = [5, 15) and the later x' = [5, 15) meet y = [0, 10) and y' = [3, 13): x matches y' until 13, x' matches y until
    10. When x, but not x', has come, y'' = [6, 16) has come too.
    """
    join = made(emission=emission)
    join.arrive(1, tuples((2, 0, 10), (1, 3, 13), (9, 6, 16)))
    found = rows_of(join.arrive(0, tuples((1, 5, 15))))
    found += rows_of(join.arrive(0, ids_from(1, tuples((2, 5, 15), (8, 7, 17)))))
    assert found == [((1, 0), 5, 10), ((0, 1), 5, 13)]


@both_ways
def test_a_stream_that_tells_how_far_it_has_come_holds_up_no_results(emission: Emission) -> None:
    join = made(3, emission=emission)
    for stream in range(3):
        join.arrive(stream, tuples((1, 5, 50)))
    assert join.reached.tolist() == [5, 5, 5]
    join.arrive(0, ids_from(1, tuples((2, 8, 51))))
    assert rows_of(join.reach(1, 100)) == []
    assert join.reached.tolist() == [8, 100, 5]
    assert rows_of(join.reach(2, 7)) == [((0, 0, 0), 5, 50)]


@both_ways
def test_tuples_out_of_order_are_refused_and_the_others_taken(emission: Emission) -> None:
    join = made(emission=emission)
    results = join.arrive(0, tuples((1, 5, 50), (1, 4, 50), (1, 6, 40), (1, 6, 39), (1, 5, 90), (1, 6, 41)))
    assert results.refused.tolist() == [1, 3, 4]
    assert join.statistics.arrived == 3
    join.reach(0, 20)
    assert join.arrive(0, ids_from(6, tuples((1, 19, 60), (1, 20, 21)))).refused.tolist() == [6]
    found, _ = finished_all(join, 1, tuples((1, 5, 6), (1, 20, 30)))
    assert {ids for ids, _, _ in found} == {(0, 0), (7, 1), (0, 1), (2, 1), (5, 1)}


@both_ways
def test_a_tuple_that_arrives_and_expires_in_one_batch_still_matches(emission: Emission) -> None:
    join = made(emission=emission)
    join.arrive(1, tuples((1, 0, 3), (9, 100, 200)))
    results = join.arrive(0, tuples((1, 1, 2), (1, 2, 4), (5, 150, 160)))
    assert rows_of(results) == [((0, 0), 1, 2), ((1, 0), 2, 3)]


@both_ways
def test_tuples_of_one_batch_expire_like_those_that_came_before(emission: Emission) -> None:
    """Eviction that looks only at what was there before the batch leaves these in memory."""
    join = made(emission=emission)
    join.arrive(0, tuples(*((key, key, key + 2) for key in range(100)), (0, 500, 600)))
    results = join.arrive(1, tuples(*((1000, start, start + 2) for start in range(100)), (1, 400, 401)))
    assert join.tuples_in_memory() <= 2
    gone = set(zip(*results.unmatched.tolist(), strict=True))
    assert {(0, id_) for id_ in range(100)} <= gone
    # Those of stream 1 itself leave when stream 0, at 500, has passed their ends.
    assert {(1, id_) for id_ in range(100)} <= gone


@both_ways
def test_a_matched_tuple_is_not_told_as_unmatched_when_it_leaves(emission: Emission) -> None:
    join = made(emission=emission)
    join.arrive(0, tuples((1, 0, 10), (2, 0, 10)))
    join.arrive(1, tuples((1, 5, 8)))
    results = join.arrive(1, ids_from(1, tuples((7, 20, 30))))
    results = join.arrive(0, ids_from(2, tuples((7, 25, 30)))) if not results.unmatched.size else results
    assert (0, 1) in set(zip(*results.unmatched.tolist(), strict=True))
    assert (0, 0) not in set(zip(*results.unmatched.tolist(), strict=True))


def test_a_tuple_stays_until_all_other_streams_have_passed_its_end() -> None:
    join = made(3)
    for stream in range(3):
        join.arrive(stream, tuples((1, 0, 10)))
    join.reach(1, 10)
    assert join.tuples_in_memory() == 3
    join.reach(2, 10)
    # Streams 1 and 2 may still match with what stream 0 brings, which itself has not come so far.
    assert join.tuples_in_memory() == 2
    join.reach(0, 10)
    assert join.tuples_in_memory() == 0


@pytest.mark.parametrize("memory", ["least", "ample"])
@pytest.mark.parametrize("streams", [2, 3])
@pytest.mark.parametrize("predicate", list(PREDICATES))
def test_input_order_joins_like_the_naive_join(predicate: Any, streams: int, memory: str) -> None:
    case = Case("temporal_join", predicate, streams)

    def make(memory_bytes: int, spill: VirtualSpill) -> TemporalJoin:
        return TemporalJoin(streams, PREDICATES[predicate][0], memory_bytes, spill, emission=InputOrdered())

    randomness = random.Random(streams)
    run = Run(case, AMPLE if memory == "ample" else LITTLE, make)
    run.play(random_streams(case, randomness, [90 if streams == 2 else 40] * streams), randomness)
    run.assert_equals_naive_join()


@both_ways
@pytest.mark.parametrize("streams", [3, 4])
@pytest.mark.parametrize("predicate", ["equality", "overlap"])
def test_kept_intermediate_results_may_be_dropped_and_made_anew_at_any_time(
    predicate: Any, streams: int, emission: Emission
) -> None:
    case = Case("temporal_join", predicate, streams)

    def make(memory_bytes: int, spill: VirtualSpill) -> TemporalJoin:
        policies: dict[str, Any] = {"emission": emission, "materialise": True}
        return TemporalJoin(streams, PREDICATES[predicate][0], memory_bytes, spill, **policies)

    randomness = random.Random(7)
    run = Run(case, AMPLE, make)
    assert isinstance(run.join, TemporalJoin)
    inputs = random_streams(case, randomness, [60 if streams == 3 else 40] * streams)
    kept = set()
    for first in range(0, 60, 6):
        for stream in range(streams):
            if randomness.random() < 0.2:
                run.join.drop_intermediate()
            if randomness.random() < 0.3:
                assert run.join.materialise()
            kept.add(run.join.materialised)
            run.arrive(stream, inputs[stream][first : first + 6])
    run.finish()
    run.assert_equals_naive_join()
    assert kept == {True, False}


def test_kept_intermediate_results_spare_probes() -> None:
    """With n tuples of stream 2 that match one pair of the others, that pair is found n times, or once (004 §6)."""
    probes = {}
    for materialise in (False, True):
        join = made(3, materialise=materialise)
        join.arrive(0, tuples((1, 0, 100)))
        join.arrive(1, tuples((1, 0, 100)))
        before = join.statistics.probes
        assert finished_after(join, 2, tuples(*[(1, 0, 100)] * 20)) == 20
        probes[materialise] = join.statistics.probes - before
    assert probes == {False: 40, True: 20}


def finished_after(join: TemporalJoin, stream: int, arriving: Tuples) -> int:
    """How many results a batch and the end give."""
    return join.arrive(stream, arriving).count + len(finished(join)[0])


def test_memory_that_runs_short_drops_intermediate_results_first() -> None:
    join = made(3, LITTLE, materialise=True)
    wanted = 0
    for stream in range(3):
        join.arrive(stream, tuples(*[(1, 0, 100)] * 12))
        wanted = 12**3
    assert not join.materialised
    assert len(finished(join)[0]) == wanted


def test_an_observed_order_asks_the_most_selective_stream_first() -> None:
    order = ObservedSelectivity()
    join = made(3, order=order)
    join.arrive(1, tuples(*[(1, 0, 100)] * 10))
    join.arrive(2, tuples((99, 0, 100)))
    probes = []
    for batch in range(6):
        before = join.statistics.probes
        join.arrive(0, ids_from(5 * batch, tuples(*[(1, 0, 100)] * 5)))
        probes.append(join.statistics.probes - before)
    # At first each finds ten partners on stream 1, in vain; then each learns at once that stream 2 has none.
    assert probes == [55, 5, 5, 5, 5, 5]
    assert order.order(0, 3).tolist() == [2, 1]


@both_ways
def test_what_memory_does_not_hold_goes_to_disk_and_nothing_is_lost(emission: Emission) -> None:
    case = Case("temporal_join", "equality")

    def make(memory_bytes: int, spill: VirtualSpill) -> TemporalJoin:
        return TemporalJoin(2, Equality(), memory_bytes, spill, emission=emission)

    run = Run(case, LITTLE, make)
    randomness = random.Random(11)
    run.play(random_streams(case, randomness, [900, 900]), randomness)
    run.assert_equals_naive_join()
    assert run.spill.pages_written > 20
    assert run.spill.pages_read > 20


@both_ways
def test_a_silent_stream_sends_what_waits_to_disk(emission: Emission) -> None:
    join = made(memory=LITTLE, emission=emission)
    keys = np.arange(3000)
    waiting = Tuples(keys, keys % 50, None, keys, keys + 5000)
    for first in range(0, 3000, 500):
        assert join.arrive(0, waiting.part(slice(first, first + 500))).count == 0
        join.check()
    assert join.tuples_on_disk() > 2000
    found, unmatched = finished_all(join, 1, tuples((7, 0, 10_000)))
    assert len(found) == 3000 // 50
    assert [start for _, start, _ in found] == list(range(7, 3000, 50))
    assert len(unmatched) == 3000 - 3000 // 50


def finished_all(
    join: TemporalJoin, stream: int, arriving: Tuples
) -> tuple[list[tuple[tuple[int, ...], int, int]], list[tuple[int, ...]]]:
    results = join.arrive(stream, arriving)
    found, unmatched = finished(join)
    return rows_of(results) + found, list(zip(*results.unmatched.tolist(), strict=True)) + unmatched


def test_the_disk_is_read_for_many_waiting_tuples_at_once() -> None:
    """One by one they would each read all that lies there."""
    keys = np.arange(1000)
    pages = {}
    for batch in (1, 40):
        spill = VirtualSpill(page_bytes=256)
        join = TemporalJoin(2, Equality(), 60_000, spill, emission=InputOrdered())
        for stream in (0, 1):
            join.arrive(stream, Tuples(keys, keys, None, keys, keys + 10_000))
        before = spill.pages_read
        for first in range(1000, 1080, batch):
            ids = np.arange(first, first + batch)
            for stream in (0, 1):
                join.arrive(stream, Tuples(ids, ids, None, ids, ids + 10_000))
        assert before > 0
        pages[batch] = spill.pages_read - before
    assert 0 < pages[1] < 3 * pages[40]


def test_intermediate_results_need_memory_set_apart() -> None:
    with pytest.raises(ValueError, match="materialise=True"):
        made(3).materialise()


def test_tuples_need_validity() -> None:
    with pytest.raises(JoinStateError, match="need starts"):
        made().arrive(0, Tuples(np.array([0]), np.array([0])))


def test_as_found_takes_any_order_and_refuses_only_what_starts_before_it_was_told() -> None:
    join = made(emission=AsFound())
    join.arrive(0, tuples((1, 9, 50), (1, 5, 90), (2, 7, 30)))
    assert rows_of(join.arrive(1, tuples((1, 8, 40), (2, 1, 8), (1, 60, 70)))) == [
        ((1, 0), 8, 40),
        ((0, 0), 9, 40),
        ((2, 1), 7, 8),
        ((1, 2), 60, 70),
    ]
    join.reach(0, 6)
    results = join.arrive(0, ids_from(3, tuples((1, 6, 61), (1, 5, 61))))
    assert results.refused.tolist() == [4]
    assert {ids for ids, _, _ in rows_of(results)} == {(3, 0), (3, 2)}


def test_as_found_a_tuple_leaves_when_its_time_is_over_though_an_older_one_lives_on() -> None:
    join = made(emission=AsFound())
    join.arrive(0, tuples((1, 0, 1000), *((key, key, key + 5) for key in range(2, 300))))
    results = join.reach(1, 200)
    assert sorted(results.unmatched[1].tolist()) == list(range(1, 195))
    assert join.tuples_in_memory() == 299 - 194
    join.check()


def test_tuples_taken_over_meet_what_comes_and_not_each_other() -> None:
    join = made(emission=AsFound())
    join.hold(0, tuples((1, 0, 10), (2, 0, 10)), np.array([True, False]))
    join.hold(1, tuples((1, 0, 10)), np.array([True]))
    assert rows_of(join.arrive(1, ids_from(1, tuples((1, 5, 20))))) == [((0, 1), 5, 10)]
    join.reach(0, 30)
    assert join.reach(1, 30).unmatched.tolist() == [[0], [1]]


def test_what_is_forgotten_is_met_no_more_and_what_shares_its_key_still_is() -> None:
    join = made(memory=1 << 20, emission=AsFound())
    randomly = np.random.default_rng(3)
    keys = randomly.integers(0, 20, 600)
    held = Tuples(np.arange(600), keys, None, np.zeros(600, np.int64), np.full(600, 100))
    join.arrive(0, held)
    there = np.ones(600, np.bool_)
    asking = Tuples(np.arange(20), np.arange(20), None, np.full(20, 1), np.full(20, 90))
    for _ in range(6):
        gone = np.flatnonzero(randomly.random(600) < 0.3)
        join.forget(0, keys[gone], gone)  # Some of them have been forgotten before.
        there[gone] = False
        join.check()
        found = join.arrive(1, asking.part(slice(0, 20))).ids[0]
        assert sorted(found.tolist()) == np.flatnonzero(there).tolist()
        join.forget(1, asking.keys, asking.ids)
        assert join.tuples_in_memory() == there.sum()
    assert join.reach(1, 200).unmatched.shape[1] == 0
    with pytest.raises(ValueError, match="forgotten by equal keys"):
        TemporalJoin(2, Band(3), AMPLE, VirtualSpill(page_bytes=256)).forget(0, keys[:1], np.arange(1))
