"""Sorted runs: kept in extents with a directory, read page by page, merged in order."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.structures.sorted_runs import Layout, Run, RunMerge, Source, whole

LAYOUT = Layout(interval=False, validity=False)
PAGE_BYTES = 64
PAGE_TUPLES = 4


def written(store: VirtualSpill, keys: np.ndarray, extent: int) -> Run:
    run = Run(store)
    columns = np.stack((keys, np.arange(len(keys))))
    for first in range(0, len(keys), extent):
        run.append(columns[:, first : first + extent])
    return run


def merged(merge: RunMerge, step: int, *, pausing: bool = False) -> list[tuple[int, ...]]:
    table = np.empty((LAYOUT.table_rows, step), np.int64)
    found = []
    while merge.left:
        reached = merge.take(table, 0, step)
        found += [tuple(column) for column in table[: LAYOUT.link, :reached].T.tolist()]
        if pausing:
            merge.pause()
    return found


@pytest.mark.parametrize("pausing", [False, True])
@pytest.mark.parametrize("memory", [0, 5000])
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_a_merge_takes_the_tuples_of_all_runs_in_order(step: int, memory: int, pausing: bool) -> None:
    store, randomness = VirtualSpill(page_bytes=PAGE_BYTES), np.random.default_rng(1)
    keys = [np.sort(randomness.integers(-5, 30, count)) for count in (0, 1, 40, 37, 4)]
    sources = [Source(written(store, part, 9), number % 2, number) for number, part in enumerate(keys)]
    found = merged(RunMerge(store, LAYOUT, sources, memory), step, pausing=pausing)
    expected = sorted(
        (key, id_, number % 2, number) for number, part in enumerate(keys) for id_, key in enumerate(part.tolist())
    )
    assert sorted(found) == expected
    assert [row[0] for row in found] == [row[0] for row in sorted(found)]


def test_the_least_and_the_greatest_integers_are_keys_like_others() -> None:
    store = VirtualSpill(page_bytes=PAGE_BYTES)
    keys = np.array([-(2**63), -1, 2**63 - 1, 2**63 - 1])
    found = merged(RunMerge(store, LAYOUT, [Source(written(store, keys, 2), s) for s in range(3)], 0), 5)
    assert [row[0] for row in found] == sorted(3 * keys.tolist())


def test_each_page_is_read_once_unless_the_merge_is_paused() -> None:
    store = VirtualSpill(page_bytes=PAGE_BYTES)
    runs = [written(store, np.arange(40), 40) for _ in range(3)]
    merged(RunMerge(store, LAYOUT, [Source(run, 0) for run in runs], 0), 7)
    assert store.pages_read == 3 * 40 / PAGE_TUPLES
    merge = RunMerge(store, LAYOUT, [Source(run, 0) for run in runs], 0)
    merged(merge, 7, pausing=True)
    assert 30 < store.pages_read - 30 <= 30 + 3 * (120 // 7 + 1)


def test_a_paused_merge_holds_no_page() -> None:
    store = VirtualSpill(page_bytes=PAGE_BYTES)
    merge = RunMerge(store, LAYOUT, [Source(written(store, np.arange(40), 40), 0) for _ in range(3)], 0)
    before = merge.memory_used()
    merge.take(np.empty((LAYOUT.table_rows, 10), np.int64), 0, 10)
    assert merge.memory_used() == before + 3 * PAGE_BYTES
    merge.pause()
    assert merge.memory_used() == before


def test_a_directory_goes_to_disk_page_by_page() -> None:
    store = VirtualSpill(page_bytes=PAGE_BYTES)
    run = written(store, np.arange(4000), PAGE_TUPLES)
    assert run.extents == 1000
    # 4 extents to a page of at least 4: 8 bytes in memory for each page.
    assert run.memory_used() <= 8 * 250 + 4 * 32
    assert np.concatenate(list(whole(run)), axis=1)[0].tolist() == list(range(4000))
    run.check(LAYOUT)
    run.remove()
    assert not store.extents
