"""The file of shed stream tuples."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.joins.semi_stream.load_shedding import Destination
from spark_jobs.joins.structures.stream_buffer import TupleColumns
from spark_jobs.warehouse.shed_file import ShedFile


def tuples(first: int, count: int) -> TupleColumns:
    ids = np.arange(first, first + count)
    return TupleColumns(ids * 3 - 2**62, ids // 7, ids)


def test_what_was_put_first_comes_back_first_and_whole(tmp_path: Path) -> None:
    with ShedFile(tmp_path / "shed") as shed:
        destination: Destination = shed
        destination.put(tuples(0, 10))
        destination.put(tuples(10, 5))
        for first, count in ((0, 4), (4, 9), (13, 2)):
            for column, expected in zip(destination.take(count), tuples(first, count), strict=True):
                assert column.tolist() == expected.tolist()
        assert len(destination) == 0


def test_it_gives_no_more_than_it_has(tmp_path: Path) -> None:
    with ShedFile(tmp_path / "shed") as shed:
        assert shed.take(3).ids.size == 0
        shed.put(tuples(0, 2))
        assert shed.take(3).ids.tolist() == [0, 1]


def test_the_file_is_emptied_when_all_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "shed"
    with ShedFile(path) as shed:
        for round_ in range(5):
            shed.put(tuples(100 * round_, 100))
            assert path.stat().st_size == 100 * 24
            assert shed.take(100).ids.tolist() == list(range(100 * round_, 100 * round_ + 100))
            assert path.stat().st_size == 0


def test_a_file_that_somebody_has_cut_off_is_told(tmp_path: Path) -> None:
    path = tmp_path / "shed"
    with ShedFile(path) as shed:
        shed.put(tuples(0, 5))
        os.truncate(path, 30)
        with pytest.raises(OSError, match="5 tuples are missing"):
            shed.take(5)
