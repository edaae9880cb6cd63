"""What only the index nested loops promise: how many lookups they take."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.semi_stream.base import Page, SemiStreamJoin
from spark_jobs.joins.semi_stream.batched_index_nested_loop import BatchedIndexNestedLoop
from spark_jobs.joins.semi_stream.index_nested_loop import IndexNestedLoop
from tests.joins.memory_relation import TUPLE_BYTES, MemoryRelation


class LookupLog(MemoryRelation):
    """Remembers the keys of each lookup, and that each came with the id of a tuple that asks for it."""

    def __init__(self, keys: range) -> None:
        super().__init__(keys, page_rows=50)
        self.stream: list[int] = []
        self.lookups: list[list[int]] = []

    def lookup(self, keys: np.ndarray, ids: np.ndarray) -> Page:
        assert [self.stream[id_] for id_ in ids] == keys.tolist()
        self.lookups.append(keys.tolist())
        return super().lookup(keys, ids)


def push(join: SemiStreamJoin, relation: LookupLog, keys: list[int]) -> None:
    first = len(relation.stream)
    relation.stream += keys
    join.push(np.array(keys), np.zeros(len(keys), np.int64), np.arange(first, len(relation.stream)))


def test_index_nested_loop_looks_up_every_tuple_even_of_the_same_key() -> None:
    relation = LookupLog(range(50))
    join = IndexNestedLoop(relation, 10_000)
    push(join, relation, [7, 7, 99, 8])
    list(join.finish())
    assert relation.lookups == [[7], [7], [99], [8]]
    assert join.statistics.lookups == join.statistics.probes == 4
    assert join.statistics.bytes_read == 3 * TUPLE_BYTES


def test_a_batch_asks_for_each_key_once() -> None:
    relation = LookupLog(range(50))
    join = BatchedIndexNestedLoop(relation, 100_000)
    push(join, relation, [7, 8, 7, 99, 8, 7])
    step = join.advance()
    assert relation.lookups == [[7, 8, 99]]
    assert step.unmatched.tolist() == [3]
    assert join.statistics.lookups == 1
    assert join.statistics.probes == 3


def test_the_first_batch_is_small_and_the_next_as_large_as_memory_allows() -> None:
    relation = LookupLog(range(100_000))
    join = BatchedIndexNestedLoop(relation, 40_000)
    half = 20_000
    push(join, relation, list(range(600)))
    list(join.finish())
    sizes = [len(keys) for keys in relation.lookups]
    assert sum(sizes) == 600
    assert sizes[0] == half // relation.page_bytes
    assert sizes[1] == sizes[2] > sizes[0]
    assert sizes[1] * TUPLE_BYTES <= half


def test_a_batch_has_a_largest_size_however_much_memory_there_is() -> None:
    relation = LookupLog(range(20_000))
    join = BatchedIndexNestedLoop(relation, 50_000_000)
    push(join, relation, list(range(20_000)))
    list(join.finish())
    assert max(len(keys) for keys in relation.lookups) == 8192


def test_the_oldest_are_shed() -> None:
    relation = LookupLog(range(50))
    for join in (IndexNestedLoop(relation, 10_000), BatchedIndexNestedLoop(relation, 10_000)):
        relation.stream.clear()
        push(join, relation, [7, 8, 9])
        assert join.shed(2).tolist() == [0, 1]
        assert join.pending == 1
