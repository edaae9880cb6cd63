"""Extents in files come back as they were written, in whole or in parts, or are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spark_jobs.errors import StateDamagedError
from spark_jobs.join_state.spill_files import SpillFiles


@pytest.fixture
def columns() -> np.ndarray:
    return np.random.default_rng(1).integers(-(2**63), 2**63 - 1, (3, 1000))


@pytest.mark.parametrize("page_bytes", [1, 64, 100, 4096])
def test_any_part_of_an_extent_can_be_read(tmp_path: Path, columns: np.ndarray, page_bytes: int) -> None:
    store = SpillFiles(tmp_path, page_bytes)
    extent = store.write(columns)
    assert np.array_equal(store.read(extent), columns)
    for first, count in ((0, 1), (0, 1000), (999, 1), (17, 300), (500, 0)):
        assert np.array_equal(store.read(extent, first, count), columns[:, first : first + count])


def test_pages_are_counted_as_they_are_written_and_read(tmp_path: Path, columns: np.ndarray) -> None:
    store = SpillFiles(tmp_path, 8 + 3 * 8 * 10)  # ten tuples a page
    extent = store.write(columns)
    assert (store.pages_written, store.pages_read) == (100, 0)
    store.read(extent, 5, 10)
    assert store.pages_read == 2


def test_a_removed_extent_leaves_no_file_and_clearing_leaves_none(tmp_path: Path, columns: np.ndarray) -> None:
    store = SpillFiles(tmp_path)
    first, second = store.write(columns), store.write(columns)
    store.remove(first)
    assert len(list(tmp_path.iterdir())) == 1
    assert np.array_equal(store.read(second), columns)
    SpillFiles(tmp_path).clear()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("position", [0, 20, 40, 64, 2000, -1])
def test_a_flipped_bit_is_refused(tmp_path: Path, columns: np.ndarray, position: int) -> None:
    store = SpillFiles(tmp_path, 512)
    extent = store.write(columns)
    path = next(tmp_path.iterdir())
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with pytest.raises(StateDamagedError, match=f"{path.name} is refused"):
        store.read(extent)


def test_a_file_that_is_cut_or_missing_is_refused(tmp_path: Path, columns: np.ndarray) -> None:
    store = SpillFiles(tmp_path, 512)
    extent = store.write(columns)
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StateDamagedError, match="cut off"):
        store.read(extent)
    path.unlink()
    with pytest.raises(StateDamagedError, match="No such file"):
        store.read(extent)
