"""Hash chains of several streams: what is put in is found, met and forgotten, however many buckets there are."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from spark_jobs.joins.structures import hashed_streams
from spark_jobs.joins.structures.hashed_streams import ARRIVAL, ID, KEY, HashedStreams


@pytest.fixture
def _few_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashed_streams, "_LEAST_BUCKETS", 8)


@pytest.mark.usefixtures("_few_buckets")
@pytest.mark.parametrize("partitions", [1, 4, 16])
def test_tables_that_grow_hold_what_dictionaries_hold(partitions: int) -> None:
    randomness = np.random.default_rng(partitions)
    tables = HashedStreams(4_000, 2, partitions, growing=True)
    held: list[dict[int, list[int]]] = [defaultdict(list), defaultdict(list)]
    buckets = [tables.buckets]
    for step in range(60):
        stream, keys = step % 2, randomness.integers(-300, 300, int(randomness.integers(1, 120)))
        ids = step * 1_000 + np.arange(len(keys))
        found = tables.meet(stream, keys, ids, ids)
        pairs = {(own, other) for key, own in zip(keys, ids, strict=True) for other in held[1 - stream][int(key)]}
        assert len(found.rows) == len(pairs)
        assert set(zip(ids[found.rows], found.ids, strict=True)) == pairs
        for key, own in zip(keys.tolist(), ids.tolist(), strict=True):
            held[stream][key].append(own)
        if step % 7 == 6:
            forgotten = randomness.integers(-300, 300, 40)
            counts, _ = tables.forget_keys(stream, forgotten)
            assert counts.tolist() == [len(held[stream].pop(key, ())) for key in forgotten.tolist()]
        tables.check()
        buckets.append(tables.buckets)
    assert len(set(buckets)) > 2


def test_only_those_that_probe_meet_and_only_those_that_are_stored_stay() -> None:
    tables = HashedStreams(100, 2)
    tables.insert(1, np.array([5, 6, 7]), np.array([50, 60, 70]), np.arange(3))
    all_but_first, all_but_last = np.array([False, True, True]), np.array([True, True, False])
    found = tables.meet(
        0, np.array([5, 6, 7]), np.array([0, 1, 2]), np.array([3, 4, 5]), probing=all_but_first, storing=all_but_last
    )
    assert sorted(zip(found.rows, found.ids, strict=True)) == [(1, 60), (2, 70)]
    assert tables.counts[:, 0].tolist() == [2, 3]
    stored = np.concatenate(list(tables.pieces(0, 0, 10)), axis=1)
    assert sorted(stored[[KEY, ID, ARRIVAL]].T.tolist()) == [[5, 0, 3], [6, 1, 4]]
    assert tables.forget_keys(1, np.array([5, 6]))[1].tolist() == [50]  # The other has a partner.


def test_a_key_with_many_tuples_is_forgotten_in_place() -> None:
    """What a purge takes beside the tables is the ids of the unmatched, which are results: here none."""
    tables = HashedStreams(50_000, 2)
    ids = np.arange(40_000)
    tables.insert(0, np.full(40_000, 7), ids, ids)
    tables.meet(1, np.array([7]), np.array([0]), np.array([40_000]))
    assert [held.shape for held in tables.pieces(0, 0, 10)] == [(4, 1)]
    assert tables.count(0, np.array([7, 8])).tolist() == [40_000, 0]
    counts, unmatched = tables.forget_keys(0, np.array([7]))
    assert (counts.tolist(), unmatched.size, len(tables)) == ([40_000], 0, 1)
    tables.check()


def test_a_key_with_many_unmatched_tuples_is_forgotten_whole() -> None:
    tables = HashedStreams(2_000, 2)
    ids = np.arange(1_000)
    tables.insert(0, np.where(ids % 10 == 0, 8, 7), ids, ids)
    counts, unmatched = tables.forget_keys(0, np.array([8, 7, 9]))
    assert counts.tolist() == [100, 900, 0]
    assert sorted(unmatched.tolist()) == ids.tolist()
    assert not len(tables)
    tables.check()


def test_tuples_are_counted_by_ranges_of_keys() -> None:
    lowest, highest = -(2**63), 2**63 - 1
    tables = HashedStreams(1_000, 2)
    keys = np.array([lowest, lowest, 0, 1, 1, 199, 200, 500, highest])
    tables.insert(1, keys, np.arange(len(keys)), np.arange(len(keys)))
    firsts, lasts = np.array([lowest, 1, 201, 500, highest - 70]), np.array([lowest + 100, 200, 499, 500, highest])
    assert tables.count_within(1, firsts, lasts).tolist() == [2, 4, 0, 1, 1]
    assert tables.count_within(0, firsts, lasts).tolist() == [0] * 5
