"""Counters of pages: who is waited for most, and what was of use lately."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.structures.page_counters import PageCounters

NO_PAGES = np.empty(0, np.int64)


def test_the_page_most_wait_for_is_found_besides_others() -> None:
    counters = PageCounters(5)
    counters.wait(np.array([3, 1, 3, 3, 1, 4]))
    assert counters.most_waited_for(NO_PAGES) == (3, 3)
    assert counters.most_waited_for(np.array([3, 0])) == (1, 2)
    counters.wait(np.array([3, 3]), -1)
    assert counters.most_waited_for(NO_PAGES) == (1, 2)
    counters.check()


def test_a_settled_page_is_waited_for_no_more_and_its_use_ages() -> None:
    counters = PageCounters(3)
    counters.wait(np.array([2, 2]))
    counters.settle(2, 2)
    counters.settle(1, 3)
    assert counters.waiting.tolist() == [0, 0, 0]
    counters.age()
    assert counters.utility.tolist() == [0, 1.5, 1]


def test_pages_that_came_later_are_not_counted() -> None:
    counters = PageCounters(2)
    counters.wait(np.array([0, 2, 100]))
    counters.settle(2, 1)
    assert not counters.counts(2)
    assert counters.waiting.tolist() == [1, 0]
    assert counters.memory_used() == PageCounters.bytes_for(2) == 16
