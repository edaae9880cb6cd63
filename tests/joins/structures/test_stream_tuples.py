"""The multimap and queue of waiting stream tuples, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.structures.stream_tuples import RING, StreamTuples


def append(tuples: StreamTuples, keys: list[int], pages: list[int], ids: list[int]) -> None:
    tuples.append(np.array(keys), np.array(pages), np.array(ids))
    tuples.check()


def take_page(tuples: StreamTuples, page: int) -> dict[int, int]:
    """Keys by id."""
    keys, ids = tuples.take_page(page)
    tuples.check()
    return dict(zip(ids.tolist(), keys.tolist(), strict=True))


def queue(tuples: StreamTuples) -> list[int]:
    ids, place = [], tuples.oldest
    while place != RING:
        ids.append(int(tuples.tuples["id"][place]))
        place = tuples.newer_than(place)
    return ids


def test_a_page_takes_all_its_tuples_with_it() -> None:
    tuples = StreamTuples(10)
    append(tuples, [11, 12, 21, 11, 19], [1, 1, 2, 1, 1], [0, 1, 2, 3, 4])
    assert take_page(tuples, 1) == {0: 11, 1: 12, 3: 11, 4: 19}
    assert queue(tuples) == [2]
    assert take_page(tuples, 1) == {}


def test_the_queue_keeps_the_order_of_arrival_when_tuples_leave_from_its_middle() -> None:
    tuples = StreamTuples(10)
    append(tuples, [1, 2, 3, 4, 5], [1, 2, 1, 2, 3], [10, 20, 30, 40, 50])
    take_page(tuples, 2)
    append(tuples, [6], [3], [60])
    assert queue(tuples) == [10, 30, 50, 60]
    assert tuples.page_of(tuples.oldest) == 1
    assert tuples.page_of(tuples.newest) == 3
    assert tuples.newer_than(tuples.newest) == RING


def test_the_oldest_are_taken_first() -> None:
    tuples = StreamTuples(10)
    append(tuples, [1, 2, 3], [1, 2, 1], [7, 8, 9])
    assert [column.tolist() for column in tuples.take_oldest(2)] == [[1, 2], [7, 8]]
    tuples.check()
    assert [column.tolist() for column in tuples.take_oldest(5)] == [[1], [9]]
    assert tuples.take_oldest(5)[1].size == 0
    assert tuples.oldest == RING
    tuples.check()


def test_pages_that_share_a_bucket_are_kept_apart() -> None:
    tuples = StreamTuples(40)
    for page in range(40):
        append(tuples, [page], [page], [page])
    for page in range(0, 40, 3):
        assert take_page(tuples, page) == {page: page}
    assert queue(tuples) == [page for page in range(40) if page % 3]


def test_places_are_used_again() -> None:
    tuples = StreamTuples(3)
    for round_ in range(20):
        append(tuples, [1, 2, 3], [1, 2, 1], [3 * round_, 3 * round_ + 1, 3 * round_ + 2])
        take_page(tuples, 1)
        assert len(tuples) == 1
        tuples.take_oldest(1)


def test_many_tuples_of_one_page_leave_at_once() -> None:
    count = 5000
    tuples = StreamTuples(count)
    append(tuples, [id_ * 3 for id_ in range(count)], [3] * count, list(range(count)))
    assert take_page(tuples, 3) == {id_: id_ * 3 for id_ in range(count)}
    assert len(tuples) == 0


def test_a_ranked_queue_finds_the_tuple_at_any_position() -> None:
    tuples = StreamTuples(8, ranked=True)
    append(tuples, [1, 2, 3, 4, 5], [1, 2, 1, 2, 3], [10, 20, 30, 40, 50])
    assert [int(tuples.tuples["id"][tuples.at(newer)]) for newer in (0, 4, 2)] == [50, 10, 30]
    take_page(tuples, 1)  # The one found last leaves as well.
    append(tuples, [6], [3], [60])
    assert [int(tuples.tuples["id"][tuples.at(newer)]) for newer in (3, 2, 1, 0)] == [20, 40, 50, 60]
    tuples.check()


@pytest.mark.parametrize("ranked", [False, True])
@pytest.mark.parametrize("capacity", [1, 2, 7, 1000])
def test_memory_is_what_it_says(capacity: int, ranked: bool) -> None:
    assert StreamTuples(capacity, ranked=ranked).memory_used() == StreamTuples.bytes_for(capacity, ranked=ranked)


def test_only_a_ranked_queue_takes_a_byte_more_for_a_tuple() -> None:
    assert StreamTuples.bytes_for(1000, ranked=True) - StreamTuples.bytes_for(1000) == 1001


@pytest.mark.parametrize("capacity", [0, 2**31])
def test_impossible_capacities_are_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match="from 1 to"):
        StreamTuples(capacity)
