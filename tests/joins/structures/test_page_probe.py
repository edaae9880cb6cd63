"""Waiting tuples against the keys of their page."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.structures.page_probe import PageProbe


def join(probe: PageProbe, waiting: dict[int, int], page_keys: list[int]) -> tuple[dict[int, int], set[int]]:
    """Rows by id, and unmatched ids, of waiting tuples given as keys by id."""
    ids, keys = np.array(list(waiting), np.int64), np.array(list(waiting.values()), np.int64)
    joined = probe.join(keys, ids, np.array(page_keys, np.int64))
    return dict(zip(joined.ids.tolist(), joined.rows.tolist(), strict=True)), set(joined.unmatched.tolist())


def test_each_tuple_finds_the_row_of_its_key_or_none() -> None:
    assert join(PageProbe(64), {0: 11, 1: 12, 3: 11, 4: 19}, [10, 12, 11]) == ({0: 2, 3: 2, 1: 1}, {4})


def test_nothing_is_found_on_an_empty_page_and_by_nobody() -> None:
    assert join(PageProbe(64), {7: 1}, []) == ({}, {7})
    assert join(PageProbe(64), {}, [1, 2]) == ({}, set())


def test_one_page_leaves_nothing_behind_for_the_next() -> None:
    probe = PageProbe(64)
    assert join(probe, {0: 1, 1: 2}, [1, 2, 3, 4]) == ({0: 0, 1: 1}, set())
    assert join(probe, {2: 1, 3: 5}, [5]) == ({3: 0}, {2})


@pytest.mark.parametrize("memory", [0, 16, 100, 10_000])
def test_a_page_larger_than_the_index_is_probed_piece_by_piece(memory: int) -> None:
    page = list(range(99, 20, -1))
    matched, unmatched = join(PageProbe(memory), {1000 + key: key for key in range(100)}, page)
    assert matched == {1000 + key: 99 - key for key in range(21, 100)}
    assert unmatched == set(range(1000, 1021))


@pytest.mark.parametrize(("memory", "taken"), [(0, 8), (8, 8), (1000, 512), (1024, 1024)])
def test_memory_is_what_it_says(memory: int, taken: int) -> None:
    assert PageProbe(memory).memory_used() == PageProbe.bytes_for(memory) == taken
