"""The model of MJoin and AMJoin against counts."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.am_join import AMJoin
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.m_join import MJoin
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.stream_stream.probe_order import FixedOrder
from spark_jobs.joins.stream_stream.theory.multi_way_model import (
    am_join_probes,
    failing_probes,
    m_join_probes,
    mixed_entries,
)
from spark_jobs.joins.stream_stream.value_flushing import RandomValue
from spark_jobs.joins.structures.bit_vector_table import BitVectorTable

MEMORY = 1 << 22


def counted(join: MJoin | AMJoin, shares: tuple[float, ...]) -> float:
    """Probes of each of 20,000 tuples of stream 0, which find their keys in the others with these chances."""
    random, keys = np.random.default_rng(4), np.arange(20_000)
    for stream, share in enumerate(shares, start=1):
        there = keys[random.random(len(keys)) < share]
        join.arrive(stream, Tuples(there, there))
    before = join.statistics.probes
    join.arrive(0, Tuples(keys, keys))
    return (join.statistics.probes - before) / len(keys)


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.5, 0.5), (0.9, 0.1, 0.4), (0.1, 0.4, 0.9), (1.0,)])
def test_probes_are_those_of_the_model(shares: tuple[float, ...]) -> None:
    streams = len(shares) + 1
    m_join = MJoin(streams, Equality(), MEMORY, VirtualSpill(), order=FixedOrder())
    assert counted(m_join, shares) == pytest.approx(m_join_probes(shares), rel=0.02)
    am_join = AMJoin(streams, Equality(), MEMORY, VirtualSpill())
    expected = am_join_probes(streams, float(np.prod(shares)))
    assert counted(am_join, shares) == pytest.approx(expected, rel=0.03)


def test_no_order_beats_that_of_ascending_shares() -> None:
    shares = (0.7, 0.2, 0.9, 0.4)
    assert m_join_probes(sorted(shares)) == min(map(m_join_probes, permutations(shares)))


def test_a_failure_takes_the_papers_probes_where_two_thirds_are_found() -> None:
    assert failing_probes([2 / 3] * 4) == pytest.approx((5 - 1) / 2, rel=0.02)


def test_the_bit_vectors_of_the_papers_router_take_7_megabytes() -> None:
    """002 §3: 115,000 tuples a second that survive 10 seconds."""
    # Beside them, places that are left free.
    assert BitVectorTable.bytes_for(115_000 * 10) == pytest.approx(7e6 * 80 / 60, rel=0.03)


def test_keys_share_entries_as_rarely_as_reckoned() -> None:
    """Too rare to be counted with 32 bits: with 12, which leave the same place in the table, they are as many."""
    keys, lines = 200_000, 25_000
    codes = np.random.default_rng(1).integers(0, lines * 2**12, keys)
    pairs = keys - len(np.unique(codes))
    assert pairs == pytest.approx(mixed_entries(keys, lines) * 2**20, rel=0.1)


def test_a_random_value_frees_what_values_hold_on_average() -> None:
    join = MJoin(3, Equality(), 1 << 19, VirtualSpill(), flush=RandomValue(seed=2))
    keys = np.random.default_rng(3).permutation(join.capacity // 2)
    for stream in (0, 1):
        join.arrive(stream, Tuples(keys, keys))
    values = int(join._tables.heads.any(axis=1).sum())
    expected = len(join._tables) / values
    join.arrive(2, Tuples(keys[:10], keys[:10]))
    assert join.values_flushed
    assert join.tuples_freed / join.values_flushed == pytest.approx(expected, rel=0.1)
