"""A hot set finds each of its keys, and no other, wherever it is mapped."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.columns.hashing import hash_int64
from spark_jobs.joins.semi_stream.hot_set import HotSet

INT64 = st.integers(-(2**63), 2**63 - 1)
FEW_KEYS = st.integers(-3, 12) | st.sampled_from([-(2**63), 2**63 - 1])


def hot_set_of(*keys: int) -> HotSet:
    return HotSet.arranged(3, np.array(keys, np.int64))[0]


@settings(deadline=None)
@given(st.lists(INT64 | FEW_KEYS, unique=True, max_size=150), st.lists(INT64 | FEW_KEYS, max_size=70))
def test_it_finds_what_a_dictionary_finds(keys: list[int], probes: list[int]) -> None:
    hot, order = HotSet.arranged(1, np.array(keys, np.int64))
    hot.check()
    assert [keys[place] for place in order] == hot.keys.tolist()
    slots = {key: slot for slot, key in enumerate(hot.keys.tolist())}
    assert hot.probe(np.array(probes, np.int64)).tolist() == [slots.get(key, -1) for key in probes]


def test_keys_that_crowd_in_one_bucket_are_told_apart() -> None:
    keys = np.arange(1_000_000)
    codes = hash_int64(keys).view(np.uint64) >> np.uint64(54)
    crowded = keys[codes == 5]
    hot, _ = HotSet.arranged(1, np.concatenate([crowded, keys[:10]]))
    hot.check()
    assert (hot.probe(keys[codes == 6][10:]) == -1).all()


def test_tuples_are_parted_into_hits_and_misses() -> None:
    random = np.random.default_rng(4)
    hot, _ = HotSet.arranged(1, random.permutation(2000)[:500])
    for count in (0, 1, 63, 64, 65, 1000):
        keys, pages, ids = random.integers(0, 2000, (3, count))
        slots = hot.probe(keys)
        found, others = hot.part(keys, pages, ids)
        assert [column.tolist() for column in found] == [slots[slots >= 0].tolist(), ids[slots >= 0].tolist()]
        assert [column.tolist() for column in others] == [column[slots < 0].tolist() for column in (keys, pages, ids)]


@pytest.mark.parametrize("count", [1, 7, 1000, 100_001])
def test_it_takes_what_it_says_about_ten_bytes_a_key(count: int) -> None:
    hot, _ = HotSet.arranged(1, np.arange(count))
    assert hot.memory_used() == HotSet.bytes_for(count)
    assert HotSet.bytes_for(count) <= 10 * count + 48


def test_it_travels_to_workers_and_finds_the_same_there() -> None:
    hot = hot_set_of(5, -1, 2**63 - 1)
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(hot, protocol=5, buffer_callback=buffers.append)
    mapped = pickle.loads(pickled, buffers=[bytes(buffer) for buffer in buffers])
    codes = np.array([-1, 6, 2**63 - 1])
    codes.setflags(write=False)
    assert mapped.version == 3
    assert mapped.keys.tolist() == hot.keys.tolist()
    assert mapped.probe(codes).tolist() == hot.probe(codes).tolist()


def test_invalid_codes_miss() -> None:
    assert hot_set_of(0).probe(np.array([0, 0, 1]), np.array([True, False, True])).tolist() == [0, -1, -1]


def test_an_empty_one_misses() -> None:
    assert hot_set_of().probe(np.array([0, 1])).tolist() == [-1, -1]
