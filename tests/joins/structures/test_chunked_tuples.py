"""MESHJOIN's stream tuples: joined wherever they are, expired chunk by chunk."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.structures.chunked_tuples import ChunkedTuples


def append(tuples: ChunkedTuples, keys: list[int], ids: list[int], first_page: int = 0) -> None:
    tuples.append(np.array(keys), np.array(ids), first_page)
    tuples.check()


def join(tuples: ChunkedTuples, page_keys: list[int]) -> dict[int, int]:
    """Keys by id."""
    ids, rows = tuples.join(np.array(page_keys))
    tuples.check()
    return {id_: page_keys[row] for id_, row in zip(ids.tolist(), rows.tolist(), strict=True)}


def expire(tuples: ChunkedTuples) -> list[int]:
    ids = tuples.expire_oldest().tolist()
    tuples.check()
    return ids


def test_a_joined_tuple_keeps_its_place_until_its_chunk_expires() -> None:
    tuples = ChunkedTuples(4, 3)
    append(tuples, [1, 2], [10, 11])
    assert join(tuples, [1, 2]) == {10: 1, 11: 2}
    assert (tuples.unsettled, tuples.room) == (0, 2)
    assert expire(tuples) == []
    assert tuples.room == 4


def test_a_tuple_is_joined_once() -> None:
    tuples = ChunkedTuples(4, 3)
    append(tuples, [1, 1, 2], [10, 11, 12])
    assert join(tuples, [1]) == {10: 1, 11: 1}
    assert join(tuples, [1]) == {}
    assert expire(tuples) == [12]


def test_chunks_expire_in_order_of_arrival_round_and_round() -> None:
    tuples = ChunkedTuples(5, 3)
    for round_ in range(10):
        append(tuples, [1, 2], [100 * round_, 100 * round_ + 1], first_page=0)
        append(tuples, [1, 1, 3], [100 * round_ + 2, 100 * round_ + 3, 100 * round_ + 4], first_page=1)
        assert tuples.room == 0
        assert set(join(tuples, [2])) == {100 * round_ + 1}
        assert tuples.oldest_first_page == 0
        assert expire(tuples) == [100 * round_]
        assert tuples.oldest_first_page == 1
        assert expire(tuples) == [100 * round_ + 2, 100 * round_ + 3, 100 * round_ + 4]
        assert tuples.oldest_first_page is None


def test_chunks_beyond_the_most_are_one_that_began_last() -> None:
    tuples = ChunkedTuples(6, 2)
    for page in range(3):
        append(tuples, [page], [page], first_page=page)
    assert (tuples.oldest_first_page, expire(tuples)) == (0, [0])
    assert (tuples.oldest_first_page, expire(tuples)) == (2, [1, 2])


def test_given_up_are_the_newest_that_wait_and_they_are_not_joined_any_more() -> None:
    tuples = ChunkedTuples(6, 3)
    append(tuples, [1, 2, 3], [10, 11, 12])
    append(tuples, [1, 2, 3], [13, 14, 15], first_page=1)
    join(tuples, [3])
    assert tuples.give_up_newest(3).tolist() == [14, 13, 11]
    tuples.check()
    assert (tuples.unsettled, tuples.room) == (1, 0)
    assert join(tuples, [1, 2]) == {10: 1}
    assert (expire(tuples), expire(tuples)) == ([], [])


def test_memory_is_what_it_says() -> None:
    assert ChunkedTuples(1000, 30).memory_used() == ChunkedTuples.bytes_for(1000, 30) == 25 * 1000 + 20 + 8 * 30
