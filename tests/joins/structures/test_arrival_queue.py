"""First in, first out, around the end of the ring."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.structures.arrival_queue import ArrivalQueue


def test_tuples_leave_in_the_order_of_arrival_round_and_round() -> None:
    queue = ArrivalQueue(5)
    came, left = 0, 0
    for count in [3, 2, 4, 1, 5, 3] * 3:
        arriving = np.arange(came, came + min(count, 5 - len(queue)))
        queue.append(arriving * 10, arriving)
        came += len(arriving)
        keys, ids = queue.oldest(count)
        assert ids.tolist() == list(range(left, min(left + count, came)))
        assert keys.tolist() == [10 * id_ for id_ in ids.tolist()]
        queue.drop_oldest(len(ids) - 1)
        left += len(ids) - 1
        queue.check()
        assert len(queue) == came - left


def test_memory_is_what_it_says() -> None:
    assert ArrivalQueue(7).memory_used() == ArrivalQueue.bytes_for(7) == 112
