from __future__ import annotations

from itertools import count

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.columns.keys.values import KeyKind
from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.lookup.relation.back_stage_join import PagesWaitedFor, Settlement, ShedDeadline, run_back_stage
from spark_jobs.lookup.relation.relation_rows import RelationRows

PAGE_ROWS = 10


class NumberedRelation:
    """Keys 0 to 999, ten on a page; the fetched column is the key's square."""

    page_count = 100
    page_bytes = 1000

    def __init__(self) -> None:
        self.pages_read: list[int] = []

    def read_page(self, number: int) -> Page:
        self.pages_read.append(number)
        return self._page(np.arange(number * PAGE_ROWS, (number + 1) * PAGE_ROWS))

    def lookup(self, keys: np.ndarray, ids: np.ndarray) -> Page:
        return self._page(np.sort(keys[keys < self.page_count * PAGE_ROWS]))

    def _page(self, keys: np.ndarray) -> Page:
        columns = KeyColumns((KeyKind.INTEGER,), keys, None, np.ones(len(keys), bool))
        return Page(keys, RelationRows(columns, pa.table({"square": keys * keys})), 1000)


def settle(
    keys: np.ndarray, deadline: ShedDeadline | None = None, memory: int = 20_000
) -> tuple[Settlement, NumberedRelation]:
    relation = NumberedRelation()
    join = create("hybrid_join", relation, memory)
    pages = PagesWaitedFor.of(np.minimum(keys // PAGE_ROWS, 99))
    return run_back_stage(join, keys, pages, deadline), relation


def test_every_tuple_is_settled_with_its_own_tuple_of_r() -> None:
    keys = np.random.default_rng(1).integers(0, 1100, 5000)
    settlement, _ = settle(keys)
    assert settlement.relation is not None
    squares = settlement.relation.columns["square"].to_numpy()[settlement.rows]
    assert (squares == keys[settlement.matched] ** 2).all()
    assert sorted([*settlement.matched, *settlement.unmatched]) == list(range(5000))
    assert (keys[settlement.unmatched] >= 1000).all()
    assert settlement.frequencies.sum() == len(settlement.matched)


def test_each_page_is_read_once_however_small_the_queue_is() -> None:
    keys = np.random.default_rng(2).integers(0, 1000, 5000)
    _, relation = settle(keys)
    assert sorted(relation.pages_read) == list(range(100))


def test_what_is_shed_when_the_time_is_spent_is_the_costliest() -> None:
    lonely = np.arange(0, 1000, PAGE_ROWS)
    keys = np.concatenate([lonely, np.full(90, 35)])  # 90 more wait for page 3
    clock = count(step=0.4)  # asked before each step
    settlement, relation = settle(keys, ShedDeadline(1.0, clock=lambda: next(clock)))
    assert relation.pages_read == [3, 0]
    assert len(settlement.matched) == 92
    assert sorted([*settlement.matched, *settlement.shed]) == list(range(len(keys)))


def test_a_later_join_of_a_task_has_the_time_that_is_left() -> None:
    keys = np.arange(0, 1000, PAGE_ROWS)
    clock = count(step=0.4)
    settlement, _ = settle(keys, ShedDeadline(10.0, spent=9.0, clock=lambda: next(clock)))
    assert len(settlement.matched) == 2
    assert len(settlement.shed) == len(keys) - 2


@pytest.mark.parametrize("seconds", [None, 10.0])
def test_nothing_to_join_is_settled_at_once(seconds: float | None) -> None:
    settlement, relation = settle(np.empty(0, np.int64), None if seconds is None else ShedDeadline(seconds))
    assert settlement.relation is None
    assert not relation.pages_read
