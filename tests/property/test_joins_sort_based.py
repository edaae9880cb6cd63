"""What sort-based joins rest on: conditions (1) and (2) of 004 §3.1, and snapshot reducibility, (3) of §5.1."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.merge_strategies import Greedy, LoadFollowing, MaxFanIn
from spark_jobs.joins.stream_stream.predicates import Band, Equality, Overlap, Predicate, Values
from spark_jobs.joins.stream_stream.sweeps import sweep_for
from spark_jobs.joins.stream_stream.temporal_progressive_merge_join import TemporalProgressiveMergeJoin
from spark_jobs.joins.structures.sorted_runs import KEY, Layout, order_of
from tests.joins.stream_stream.naive_join import Row, tuples_of

ENDS = [-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1]
KEYS = st.integers(-5, 25) | st.sampled_from(ENDS)
LENGTHS = st.integers(1, 9)
PREDICATES = st.sampled_from([Equality(), Overlap(), Band(0), Band(3), Band(2**62 - 1)])


def values(predicate: Predicate, key: int, length: int) -> Values:
    high = np.array([min(key + length, 2**63 - 1)])
    return Values(np.array([key]), high if predicate.interval else None)


@given(PREDICATES, st.tuples(KEYS, LENGTHS), st.lists(st.tuples(KEYS, LENGTHS), min_size=2, max_size=2))
def test_what_is_removed_matches_nothing_from_there_on(
    predicate: Predicate, kept: tuple[int, int], others: list[tuple[int, int]]
) -> None:
    """004 (1) and (2): for all w >= v, P_rm(v, u) implies not P_join(u, w), and not P_join(w, u)."""
    reached, later = sorted(others, key=lambda other: (other[0], other[0] + other[1]))
    u, v, w = (values(predicate, *pair) for pair in (kept, reached, later))
    if predicate.removes(v, u)[0]:
        assert not predicate.joins(u, w)[0]
        assert not predicate.joins(w, u)[0]


@given(PREDICATES, st.lists(st.tuples(KEYS, LENGTHS), min_size=1, max_size=12), KEYS)
def test_a_sweep_is_done_with_what_the_predicate_removes_and_no_other(
    predicate: Predicate, kept: list[tuple[int, int]], reached: int
) -> None:
    layout = Layout(predicate.interval, validity=False)
    table = np.zeros((layout.table_rows, len(kept)), np.int64)
    for column, (key, length) in enumerate(kept):
        table[KEY, column], table[layout.high, column] = (
            key,
            min(key + length, 2**63 - 1) if predicate.interval else key,
        )
    at = np.zeros((layout.table_rows, 1), np.int64)
    at[KEY] = at[layout.high] = reached
    removed = predicate.removes(
        Values(at[KEY], at[layout.high]), Values(table[KEY], table[layout.high] if predicate.interval else None)
    )
    assert sweep_for(predicate, layout).done(table, at).tolist() == removed.tolist()


@given(st.lists(st.tuples(KEYS, LENGTHS), max_size=20))
def test_runs_are_ordered_by_key_then_by_high_end(rows: list[tuple[int, int]]) -> None:
    keys = np.array([key for key, _ in rows], np.int64)
    highs = np.array([length for _, length in rows], np.int64)
    order = order_of(keys, highs)
    assert [rows[place] for place in order] == sorted(rows)


TUPLE = st.tuples(st.integers(0, 8), st.integers(1, 4), st.integers(0, 3), st.integers(1, 12))


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([Equality(), Overlap(), Band(1)]),
    st.lists(st.lists(TUPLE, max_size=25), min_size=2, max_size=3),
    st.sampled_from([MaxFanIn(), Greedy(), LoadFollowing(5)]),
    st.integers(1, 9),
)
def test_at_every_instant_the_results_valid_then_are_the_join_of_what_is_valid_then(
    predicate: Predicate, streams: list[list[tuple[int, int, int, int]]], strategy: object, batch: int
) -> None:
    """004 (3): pi_t(Op_w(S_1, ..., S_n)) = Op(pi_t(S_1), ..., pi_t(S_n))."""
    rows: list[list[Row]] = []
    for stream in streams:
        clock, made = 0, []
        for key, length, pause, lasting in stream:
            clock += pause
            made.append((clock, clock + lasting, key, key + length))
        rows.append([Row(i, k, h, s, e) for i, (s, e, k, h) in enumerate(sorted(made))])
    join = TemporalProgressiveMergeJoin(len(rows), predicate, 40_000, VirtualSpill(page_bytes=200), strategy=strategy)
    found = []
    for first in range(0, 25, batch):
        for stream, held in enumerate(rows):
            part = tuples_of(held[first : first + batch], intervals=predicate.interval, validity=True)
            found.append(join.arrive(stream, part))
        found.append(join.advance())
    found += list(join.finish())
    results = []
    for part in found:
        assert part.starts is not None
        assert part.ends is not None
        results += list(zip(map(tuple, part.ids.T.tolist()), part.starts.tolist(), part.ends.tolist(), strict=True))

    def matching(a: Row, b: Row) -> bool:
        both = [values(predicate, row.key, row.high - row.key) for row in (a, b)]
        return bool(predicate.joins(*both)[0])

    for instant in range(max((row.end for held in rows for row in held), default=0) + 1):
        valid = [[row for row in held if row.start <= instant < row.end] for held in rows]
        expected = [
            tuple(row.id for row in chosen)
            for chosen in product(*valid)
            if all(matching(a, b) for number, a in enumerate(chosen) for b in chosen[:number])
        ]
        assert sorted(ids for ids, start, end in results if start <= instant < end) == sorted(expected)
