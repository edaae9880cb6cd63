"""R in a direct file: what was written is read, by pages of any size and by keys."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.errors import DirectFileError
from spark_jobs.experiments.direct_file.direct_relation import DirectRelation, open_direct_file
from spark_jobs.experiments.direct_file.writer import DirectFileWriter, write_direct_file
from spark_jobs.joins.semi_stream.base import Page
from tests.experiments.direct_file.files import payload_of, write

LONGEST = 2**63 - 1


def assert_holds(page: Page, keys: list[int], relation: DirectRelation) -> None:
    assert page.keys.dtype == np.int64
    assert page.keys.flags.c_contiguous
    assert page.keys.tolist() == keys
    assert page.rows["key"].tolist() == keys
    assert np.array_equal(page.rows["payload"], payload_of(page.keys, relation.tuple_bytes - 8))


@settings(max_examples=60, deadline=None)
@given(
    keys=st.sets(st.integers(-LONGEST - 1, LONGEST) | st.integers(0, 300), max_size=150),
    asked=st.sets(st.integers(-LONGEST - 1, LONGEST) | st.integers(-5, 305), max_size=40),
    tuple_bytes=st.integers(8, 300),
    page_rows=st.integers(1, 200),
    index_rows=st.integers(1, 40),
    chunk_rows=st.integers(1, 200),
    direct=st.sampled_from([None, False]),
)
def test_pages_and_lookups_give_what_a_dictionary_gives(
    keys: set[int],
    asked: set[int],
    tuple_bytes: int,
    page_rows: int,
    index_rows: int,
    chunk_rows: int,
    direct: bool | None,
) -> None:
    ordered = sorted(keys)
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "r", ordered, tuple_bytes, index_rows, chunk_rows)
        relation = open_direct_file(path, page_rows, direct=direct)
        assert (relation.row_count, relation.tuple_bytes, relation.page_rows) == (len(keys), tuple_bytes, page_rows)
        assert relation.page_count == max(1, -(-len(keys) // page_rows))
        for number in range(relation.page_count):
            page = relation.read_page(number)
            assert_holds(page, ordered[number * page_rows : (number + 1) * page_rows], relation)
            assert page.size <= relation.page_bytes
            assert (relation.pages_of(page.keys) == number).all()
        wanted = np.array([*asked, *ordered[::3]], np.int64)
        wanted = np.unique(wanted)[::-1]
        assert_holds(relation.lookup(wanted, wanted), sorted(keys & set(wanted.tolist())), relation)
        relation.verify()


def test_a_key_between_two_pages_belongs_to_the_one_before(tmp_path: Path) -> None:
    relation = open_direct_file(write(tmp_path / "r", range(0, 100, 10)), page_rows=3)
    asked = np.array([-1, 0, 25, 30, 59, 60, 1000])
    assert relation.pages_of(asked).tolist() == [0, 0, 0, 1, 1, 2, 3]


def test_pages_of_another_size_need_no_second_opening(tmp_path: Path) -> None:
    relation = open_direct_file(write(tmp_path / "r", range(100), index_rows=4), page_rows=8)
    for page_rows in (4, 5, 100, 1000):
        other = relation.with_page_rows(page_rows)
        assert other.page_count == -(-100 // page_rows)
        assert_holds(other.read_page(0), list(range(min(page_rows, 100))), other)
    with pytest.raises(DirectFileError, match="a page has one at least"):
        relation.with_page_rows(0)


def test_tuples_are_copied_out_of_pages(tmp_path: Path) -> None:
    relation = open_direct_file(write(tmp_path / "r", range(50)), page_rows=10)
    first, third = relation.read_page(0), relation.read_page(2)
    rows = relation.gather([(third.rows, np.array([9, 0])), (first.rows, np.array([3]))])
    assert rows["key"].tolist() == [29, 20, 3]
    assert np.array_equal(rows["payload"], payload_of(np.array([29, 20, 3]), 16))


def test_a_page_that_was_read_stays_as_it_is(tmp_path: Path) -> None:
    relation = open_direct_file(write(tmp_path / "r", range(50)), page_rows=10)
    first = relation.read_page(0)
    relation.read_page(1)
    assert_holds(first, list(range(10)), relation)


def test_the_disk_is_read_past_the_cache_where_the_file_system_lets_it(tmp_path: Path) -> None:
    path = write(tmp_path / "r", range(1000))
    assert not open_direct_file(path, 10, direct=False).direct
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        assert not open_direct_file(path, 10).direct
        with pytest.raises(DirectFileError, match="O_DIRECT"):
            open_direct_file(path, 10, direct=True)
    else:
        assert open_direct_file(path, 10).direct
        assert open_direct_file(path, 10, direct=True).direct


def test_a_new_file_takes_the_old_ones_place_and_readers_keep_theirs(tmp_path: Path) -> None:
    path = write(tmp_path / "r", range(100))
    reader = open_direct_file(path, 10)
    write(path, range(1000, 1100))
    assert_holds(reader.read_page(3), list(range(30, 40)), reader)
    assert_holds(open_direct_file(path, 10).read_page(0), list(range(1000, 1010)), reader)
    assert [file.name for file in tmp_path.iterdir()] == ["r"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "r", range(100))
    with pytest.raises(DirectFileError, match="Key 4 comes after key 9"):
        write(path, [*range(10), 4])
    with pytest.raises(ZeroDivisionError), DirectFileWriter(path, 24, 10):
        _ = 1 // 0
    assert open_direct_file(path, 10).row_count == 100
    assert [file.name for file in tmp_path.iterdir()] == ["r"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ([1, 1], "Key 1 comes after key 1"),
        ([5, 6, 2], "Key 2 comes after key 6"),
        ([*range(7), 6], "Key 6 comes after"),
    ],
)
def test_tuples_out_of_order_are_refused(tmp_path: Path, keys: list[int], said: str) -> None:
    with pytest.raises(DirectFileError, match=said):
        write(tmp_path / "r", keys)


def test_tuples_of_another_shape_are_refused(tmp_path: Path) -> None:
    keys = np.arange(3)
    for payload in (np.zeros((3, 15), np.uint8), np.zeros((2, 16), np.uint8), np.zeros((3, 16), np.int8)):
        with pytest.raises(DirectFileError, match=r"need a payload of uint8 in shape \(3, 16\)"):
            write_direct_file(tmp_path / "r", [(keys, payload)], 24, 3)


@pytest.mark.parametrize("tuple_bytes", [0, 7, 1 << 21])
def test_tuples_of_a_size_without_sense_are_refused(tmp_path: Path, tuple_bytes: int) -> None:
    with pytest.raises(DirectFileError, match="can't be stored"):
        write_direct_file(tmp_path / "r", [], tuple_bytes, 3)


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(DirectFileError, match=r"needs 120,\d{3},\d{3}\.\d GB, but"):
        write_direct_file(tmp_path / "r", iter([]), 120, 10**15)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DirectFileError, match="could not be written: No such file"):
        write_direct_file(tmp_path / "missing" / "r", [], 24, 1)
