"""A task joins its own range of R, by whatever algorithm, and reads no page of another task's."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import numpy as np
import psycopg2
import pyarrow as pa
import pytest

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.lookup.planning.lookup_plan import OwnedPages
from spark_jobs.lookup.relation.back_stage_join import PagesWaitedFor, make_back_stage, pages_scanned, run_back_stage
from spark_jobs.lookup.relation.catalog.describe import describe_relation
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.stored_relation import RelationPart

PARTS = 4
PAGE_ROWS = 20
BACK_STAGES = [name for name, algorithm in ALGORITHMS.items() if not algorithm.cached]


@dataclass(frozen=True)
class LookupOfR:
    relation = "public.r"
    on = {"key": "k"}
    fetch = {"sk": "sk"}
    validity = None


class WatchedRelation(LiveRelation):
    """Remembers which pages of R were read."""

    read: set[int]

    def read_pages(self, first: int, count: int = 1) -> Page:
        assert 0 <= first < first + count <= self.page_count
        self.read |= set(range(first, first + count))
        return super().read_pages(first, count)


@pytest.fixture
def relation(empty_database_url: str) -> WatchedRelation:
    with closing(psycopg2.connect(empty_database_url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE r (k bigint PRIMARY KEY, sk bigint NOT NULL)")
            cursor.execute("INSERT INTO r SELECT 3 * g, -g FROM generate_series(1, 1000) AS g")
        spec = describe_relation(connection, LookupOfR(), {"key": pa.int64()})
    pages = LiveRelation.open(empty_database_url, spec, PAGE_ROWS).pages
    relation = WatchedRelation(empty_database_url, spec, pages)
    relation.read = set()
    return relation


@pytest.mark.parametrize("algorithm", BACK_STAGES)
def test_each_task_settles_its_tuples_with_its_own_pages(relation: WatchedRelation, algorithm: str) -> None:
    count = 60 if algorithm == "index_nested_loop" else 2000
    stream = np.random.default_rng(5).integers(0, 3100, count)
    keys = KeyColumns.encode([pa.array(stream)], relation.spec.key_kinds)
    numbers = relation.page_of(keys)
    owned = OwnedPages(relation.pages, relation.pages.ranges(PARTS))
    found = {}
    for part in range(PARTS):
        mine = np.flatnonzero(owned.ranges.owner_of(numbers) == part)
        part_of_r = RelationPart(relation, keys.take(mine), owned.range_around(numbers[mine]))
        relation.read.clear()
        pages = PagesWaitedFor.of(numbers[mine] - part_of_r.first_page)
        settlement = run_back_stage(make_back_stage(algorithm, part_of_r, 60_000), keys.codes[mine], pages, None)
        assert settlement.relation is not None
        sks = settlement.relation.columns["sk"].to_numpy()[settlement.rows]
        found |= dict(zip(mine[settlement.matched].tolist(), sks.tolist(), strict=True))
        assert sorted([*settlement.matched, *settlement.unmatched]) == list(range(len(mine)))
        assert relation.read <= set(range(*owned.ranges.boundaries[part : part + 2].tolist()))
    assert found == {i: -key // 3 for i, key in enumerate(stream.tolist()) if key % 3 == 0 and 0 < key <= 3000}


def test_a_task_without_tuples_has_all_pages_and_reads_none(relation: WatchedRelation) -> None:
    owned = OwnedPages(relation.pages, relation.pages.ranges(PARTS))
    nothing = np.empty(0, np.int64)
    assert owned.range_around(nothing) == range(relation.page_count)
    assert owned.range_around(np.array([relation.page_count - 1])).stop == relation.page_count
    assert PagesWaitedFor.of(nothing).count == 0


def test_tuples_of_pages_that_most_wait_for_come_first() -> None:
    pages = PagesWaitedFor.of(np.array([4, 2, 4, 9, 2, 4]))
    assert pages.count == 3
    assert pages.of_tuples[pages.cheapest_first].tolist() == [4, 4, 4, 2, 2, 9]


@pytest.mark.parametrize("count", [20, 2000, 10_000])
def test_the_pages_that_a_scan_takes_are_foretold(relation: WatchedRelation, count: int) -> None:
    keys = KeyColumns.encode([pa.array(np.random.default_rng(8).integers(0, 3100, count))], relation.spec.key_kinds)
    whole = RelationPart.whole(relation, keys)
    join = make_back_stage("mesh_join", whole, 60_000)
    run_back_stage(join, keys.codes, PagesWaitedFor.of(relation.page_of(keys)), None)
    runs = whole.in_runs(60_000).pages_at_once
    assert join.statistics.pages_read * runs == pytest.approx(pages_scanned(whole, count, 60_000), rel=0.15)
