"""The n-way joins and their bit vectors against plain Python, by random operations."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.am_join import AMJoin
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.m_join import MJoin
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.structures.bit_vector_table import BitVectorTable

KEYS = st.integers(-3, 40) | st.sampled_from([-(2**63), 2**63 - 1])
ADD = st.tuples(st.integers(0, 3), st.lists(KEYS, max_size=30))
REMOVE = st.tuples(st.just(-1), st.lists(KEYS, max_size=30))


@settings(deadline=None, max_examples=50)
@given(st.booleans(), st.lists(ADD | REMOVE, max_size=20))
def test_bit_vectors_are_those_of_a_dictionary(exact: bool, operations: list[tuple[int, list[int]]]) -> None:
    table, bits = BitVectorTable(46, exact=exact), {}
    for stream, keys in operations:
        if stream < 0:
            table.remove(np.array(keys, np.int64))
            bits = {key: value for key, value in bits.items() if key not in keys}
        else:
            complete = table.add(stream, np.array(keys, np.int64), 0b1111).tolist()
            for key in keys:
                bits[key] = bits.get(key, 0) | 1 << stream
            assert complete == [row for row, key in enumerate(keys) if bits[key] == 0b1111]
        table.check()
        assert len(table) == len(bits)
        asked = list(range(-4, 42))
        assert table.bits_of(np.array(asked)).tolist() == [bits.get(key, 0) for key in asked]


@settings(deadline=None, max_examples=15)
@given(
    st.sampled_from([MJoin, AMJoin]),
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 12), min_size=1, max_size=60)), max_size=12),
    st.sets(st.integers(0, 11)),
)
def test_every_combination_comes_once_whatever_is_flushed_when(
    make: type[MJoin] | type[AMJoin], arriving: list[tuple[int, list[int]]], pauses: set[int]
) -> None:
    join = make(3, Equality(), 12_000, VirtualSpill(page_bytes=256))
    keys: list[list[int]] = [[], [], []]
    found: list[tuple[int, ...]] = []
    for number, (stream, batch) in enumerate(arriving):
        ids = np.arange(len(keys[stream]), len(keys[stream]) + len(batch))
        keys[stream] += batch
        found += zip(*join.arrive(stream, Tuples(ids, np.array(batch))).ids.tolist(), strict=True)
        while number in pauses and join.is_work:
            found += zip(*join.advance().ids.tolist(), strict=True)
        join.check()
    unmatched: list[tuple[int, int]] = []
    for results in join.finish():
        found += zip(*results.ids.tolist(), strict=True)
        unmatched += zip(*results.unmatched.tolist(), strict=True)
    everywhere = set(keys[0]) & set(keys[1]) & set(keys[2])
    expected = [
        ids
        for key in everywhere
        for ids in product(*([id_ for id_, other in enumerate(of) if other == key] for of in keys))
    ]
    assert sorted(found) == sorted(expected)
    assert sorted(unmatched) == [
        (stream, id_) for stream in range(3) for id_, key in enumerate(keys[stream]) if key not in everywhere
    ]
