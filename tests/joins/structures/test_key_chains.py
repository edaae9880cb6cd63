"""The multimap by join key: chains that keep the order of arrival, and a filter before them."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.structures.key_chains import KeyChains

FAR = -(2**63)


def append(chains: KeyChains, places: list[int], keys: list[int]) -> None:
    chains.append(np.array(places), np.array(keys), np.array(places) * 10)
    chains.check()


def take(chains: KeyChains, page_keys: list[int]) -> list[tuple[int, int]]:
    """(place, key) of each tuple taken."""
    places, rows = chains.take(np.array(page_keys, np.int64))
    chains.check()
    return [(place, page_keys[row]) for place, row in zip(places.tolist(), rows.tolist(), strict=True)]


def test_all_tuples_of_a_key_are_taken_oldest_first_and_once() -> None:
    chains = KeyChains(8)
    append(chains, [5, 1, 3, 2], [70, FAR, 70, 71])
    assert take(chains, [69, 70, 72]) == [(5, 70), (3, 70)]
    assert take(chains, [69, 70, 72]) == []
    assert take(chains, [71, FAR]) == [(2, 71), (1, FAR)]


@pytest.mark.parametrize("capacity", [1, 2, 3, 100])
def test_keys_that_share_a_bucket_are_told_apart(capacity: int) -> None:
    chains = KeyChains(capacity)
    keys = list(range(capacity))
    append(chains, [key + 1 for key in keys], keys)
    for key in keys[::2]:
        assert take(chains, [key, key + 1000]) == [(key + 1, key)]
    assert sorted(take(chains, keys)) == [(key + 1, key) for key in keys[1::2]]


def test_more_tuples_of_a_page_than_were_reckoned_with_are_taken() -> None:
    chains = KeyChains(1000)
    append(chains, list(range(1, 1001)), [7] * 999 + [8])
    assert len(take(chains, list(range(5, 300)))) == 1000


def test_the_oldest_of_a_bucket_leaves_without_a_walk() -> None:
    chains = KeyChains(4)
    append(chains, [1, 2, 3, 4], [5, 5, 6, 5])
    for place in (1, 2, 3):
        chains.drop_oldest(np.array([place]))
        chains.check()
    assert take(chains, [5, 6]) == [(4, 5)]


def test_a_sweep_takes_what_one_before_has_passed() -> None:
    chains = KeyChains(6)
    append(chains, [1, 2], [5, 6])
    assert chains.sweep(0, 6).size == 0
    append(chains, [3], [5])
    assert sorted(chains.sweep(0, 6).tolist()) == [1, 2]
    chains.check()
    assert chains.sweep(0, 6).tolist() == [3]


def test_some_are_taken_whatever_their_keys() -> None:
    chains = KeyChains(6)
    append(chains, [1, 2, 3, 4], [5, 6, 7, 5])
    some = chains.take_some(3).tolist()
    chains.check()
    assert sorted(some + chains.take_some(3).tolist()) == [1, 2, 3, 4]


def test_memory_is_what_it_says() -> None:
    chains = KeyChains(1000)
    assert chains.memory_used() == KeyChains.bytes_for(1000) == 25 * 1000 + 20
    with pytest.raises(ValueError, match="from 1 to"):
        KeyChains(0)
