"""What only HYBRIDJOIN promises: one read settles a page, and a policy decides which."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.lookup_position import LookupPosition
from spark_jobs.joins.structures.stream_tuples import StreamTuples
from tests.joins.memory_relation import MemoryRelation


class NewestTuple(LookupPosition):
    """Looks up the newest tuple, as a policy at the other end of the queue would."""

    def choose(self, waiting: StreamTuples) -> int:
        return waiting.page_of(waiting.newest)


def push(join: HybridJoin, relation: MemoryRelation, keys: list[int]) -> None:
    array = np.array(keys)
    first = join.statistics.pushed
    join.push(array, relation.pages_of(array), np.arange(first, first + len(keys)))


def test_one_read_settles_all_tuples_of_the_page_and_only_these() -> None:
    relation = MemoryRelation(range(100), page_rows=10)
    join = HybridJoin(relation, 10_000)
    push(join, relation, [5, 17, 5, 9, 93, 14, 0])
    step = join.advance()
    assert step.matches is not None
    assert sorted(step.matches.ids.tolist()) == [0, 2, 3, 6]
    assert join.pending == 3
    assert relation.page_reads == {0: 1}


def test_the_oldest_tuple_chooses_the_page() -> None:
    relation = MemoryRelation(range(100), page_rows=10)
    join = HybridJoin(relation, 10_000)
    push(join, relation, [35, 71, 35, 12])
    pages = [int(step.matches.page.keys[0]) // 10 for step in join.finish() if step.matches is not None]
    assert pages == [3, 7, 1]


def test_another_position_can_be_chosen() -> None:
    relation = MemoryRelation(range(100), page_rows=10)
    join = HybridJoin(relation, 10_000, NewestTuple())
    push(join, relation, [35, 71, 35, 12])
    pages = [int(step.matches.page.keys[0]) // 10 for step in join.finish() if step.matches is not None]
    assert pages == [1, 3, 7]


def test_the_oldest_are_shed() -> None:
    relation = MemoryRelation(range(100), page_rows=10)
    join = HybridJoin(relation, 10_000)
    push(join, relation, [35, 71, 35, 12])
    assert join.shed(2).tolist() == [0, 1]


def test_statistics_count_reads_and_probes() -> None:
    relation = MemoryRelation(range(95), page_rows=10)
    join = HybridJoin(relation, 10_000)
    push(join, relation, [94, 3, 4, 95])
    list(join.finish())
    counts = join.statistics
    assert (counts.pages_read, counts.probes, counts.bytes_read) == (2, 15, 15 * 40)
    assert (counts.matched, counts.unmatched, counts.lookups) == (3, 1, 0)


def test_memory_buys_room() -> None:
    relation = MemoryRelation(range(100), page_rows=10)
    roomy = HybridJoin(relation, 1_000_000)
    assert roomy.room == roomy.capacity > 22_000
    assert 999_000 < roomy.memory_used() + relation.page_bytes <= 1_000_000
