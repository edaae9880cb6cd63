"""The key table against a dictionary."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from spark_jobs.columns.hashing import hash_int64
from spark_jobs.joins.structures.key_table import KeyTable


def test_keys_are_numbered_as_they_come_and_found_again() -> None:
    table = KeyTable(5)
    assert table.insert(np.array([70, -1, 70, 2**63 - 1, -(2**63)])).tolist() == [0, 1, 0, 2, 3]
    assert table.probe(np.array([-(2**63), 0, 70, 2**63 - 1])).tolist() == [3, -1, 0, 2]
    assert table.keys[: table.size].tolist() == [70, -1, 2**63 - 1, -(2**63)]
    table.check()


def test_it_stops_before_the_first_key_without_a_slot() -> None:
    table = KeyTable(3)
    assert table.insert(np.array([1, 2, 1, 3, 2, 4, 1])).tolist() == [0, 1, 0, 2, 1]
    assert table.insert(np.array([3, 4])).tolist() == [2]
    table.check()


def test_fewer_slots_can_be_asked_for() -> None:
    table = KeyTable(10)
    assert table.insert(np.array([1, 2, 1, 3]), most=2).tolist() == [0, 1, 0]
    assert table.insert(np.array([3, 4, 5]), most=3).tolist() == [2]
    assert table.insert(np.array([9]), most=1).size == 0


def test_it_forgets_everything_when_cleared() -> None:
    table = KeyTable(3)
    table.insert(np.array([1, 2, 3]))
    table.clear()
    assert table.probe(np.array([1, 2, 3])).tolist() == [-1, -1, -1]
    assert table.insert(np.array([3])).tolist() == [0]
    table.check()


@pytest.mark.parametrize("capacity", [1, 2, 3, 44, 45, 46, 1000])
def test_it_holds_what_it_says_in_the_memory_it_says(capacity: int) -> None:
    table = KeyTable(capacity)
    assert table.memory_used() == KeyTable.bytes_for(capacity)
    keys = np.random.default_rng(capacity).permutation(10 * capacity)[:capacity]
    assert table.insert(keys).tolist() == list(range(capacity))
    table.check()
    assert (table.probe(keys + 10 * capacity) == -1).all()


def unmixed(code: int) -> int:
    """The key with this hash code: splitmix64's finaliser backwards."""
    code ^= (code >> 31) ^ (code >> 62)
    code = code * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    code ^= (code >> 27) ^ (code >> 54)
    code = code * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    code ^= (code >> 30) ^ (code >> 60)
    key = (code - 0x9E3779B97F4A7C15) % 2**64
    return key - 2**64 if key >= 2**63 else key


def test_keys_that_agree_in_all_that_an_entry_holds_are_told_apart() -> None:
    keys = np.array([unmixed((0xABCD1234 << 32) | (number << 20) | 3) for number in range(8)])
    assert len({int(code) >> 32 for code in hash_int64(keys)}) == 1
    table = KeyTable(8)
    assert table.insert(keys[:7]).tolist() == list(range(7))
    table.check()
    assert table.probe(keys[7:]).tolist() == [-1]


def test_keys_that_crowd_in_one_place_are_told_apart() -> None:
    keys = np.arange(2_000_000)
    codes = hash_int64(keys)
    crowded = keys[(codes & 1023) == 5]
    table = KeyTable(len(crowded))
    table.insert(crowded)
    table.check()
    assert (table.probe(keys[(codes & 1023) == 6]) == -1).all()


def test_a_pickled_table_finds_the_same() -> None:
    table = KeyTable(10)
    table.insert(np.array([5, 6, 7]))
    copy = pickle.loads(pickle.dumps(table))
    copy.check()
    assert copy.probe(np.array([7, 8])).tolist() == [2, -1]


@pytest.mark.parametrize("capacity", [0, -1, 2**31])
def test_impossible_capacities_are_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match="takes from 1"):
        KeyTable(capacity)
