"""Stream tuples that leave when they are joined, and are found by sweeps when they never are."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.structures.keyed_tuples import KeyedTuples


def append(tuples: KeyedTuples, keys: list[int], ids: list[int]) -> None:
    tuples.append(np.array(keys), np.array(ids))
    tuples.check()


def take(tuples: KeyedTuples, page_keys: list[int]) -> list[int]:
    ids, rows = tuples.take(np.array(page_keys))
    tuples.check()
    assert len(ids) == len(rows)
    return sorted(ids.tolist())


def sweep(tuples: KeyedTuples, share: float) -> list[int]:
    ids = sorted(tuples.sweep(share).tolist())
    tuples.check()
    return ids


def test_the_place_of_a_joined_tuple_is_free_at_once() -> None:
    tuples = KeyedTuples(3)
    for round_ in range(5):
        append(tuples, [1, 2, 3], [10 * round_, 10 * round_ + 1, 10 * round_ + 2])
        assert take(tuples, [1, 3]) == [10 * round_, 10 * round_ + 2]
        append(tuples, [4, 4], [10 * round_ + 3, 10 * round_ + 4])
        assert len(tuples) == 3
        assert take(tuples, [2, 4]) == [10 * round_ + 1, 10 * round_ + 3, 10 * round_ + 4]


def test_the_second_sweep_over_a_tuple_takes_it_whole_or_in_parts() -> None:
    tuples = KeyedTuples(20)
    append(tuples, list(range(10)), list(range(10)))
    assert sweep(tuples, 0.3) == sweep(tuples, 0.3) == sweep(tuples, 0.7) == sweep(tuples, 1) == []
    append(tuples, list(range(10)), list(range(10, 20)))
    passed = sweep(tuples, 0.5) + sweep(tuples, 0.4) + sweep(tuples, 1)
    assert sorted(passed) == list(range(10))
    assert sweep(tuples, 1) == list(range(10, 20))


def test_a_tuple_that_a_sweep_has_passed_is_joined_or_shed_with_its_own_id() -> None:
    tuples = KeyedTuples(4)
    append(tuples, [1, 2], [0, 7])
    sweep(tuples, 1)
    assert take(tuples, [1]) == [0]
    assert tuples.take_some(5).tolist() == [7]
    tuples.check()


def test_memory_is_what_it_says() -> None:
    assert KeyedTuples(1000).memory_used() == KeyedTuples.bytes_for(1000) == 25 * 1000 + 20
