"""A scan of R in PostgreSQL by runs of pages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from spark_jobs.lookup.relation.access_costs import measure_access
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.stored_relation import RelationPart
from tests.lookup.conftest import Open, keys_for

Execute = Callable[..., None]

ROWS = 1_037


@pytest.fixture
def relation(execute: Execute, open_relation: Open) -> LiveRelation:
    execute(f"CREATE TABLE r (k int PRIMARY KEY, v int); INSERT INTO r SELECT g, -g FROM generate_series(1, {ROWS}) g")
    return open_relation("public.r", {"integer": "k"}, {"v": "v"}, page_rows=10)


@pytest.mark.parametrize("pages_at_once", [1, 7, 8, 104, 200])
def test_runs_hold_the_pages_that_they_are_made_of(relation: LiveRelation, pages_at_once: int) -> None:
    runs = RelationPart.whole(relation).in_runs_of(pages_at_once)
    assert runs.page_count == -(-104 // pages_at_once)
    read = [runs.read_page(number) for number in range(runs.page_count)]
    assert np.concatenate([page.keys for page in read]).tolist() == list(range(1, ROWS + 1))
    assert all(page.size <= runs.page_bytes for page in read)
    assert len(read[0].keys) == min(ROWS, 10 * pages_at_once)


def test_a_run_takes_a_quarter_of_the_memory_at_most(relation: LiveRelation) -> None:
    page = relation.page_bytes
    part = RelationPart.whole(relation)
    sizes = {memory: part.in_runs(memory).pages_at_once for memory in (page, 12 * page, 1000 * page)}
    assert sizes == {page: 1, 12 * page: 3, 1000 * page: 8}


def test_mesh_join_reads_fewer_and_larger_pages(relation: LiveRelation) -> None:
    keys = np.random.default_rng(5).integers(1, ROWS + 50, size=300)
    columns = keys_for(relation, keys.tolist())
    runs = RelationPart.whole(relation, columns).in_runs_of(8)
    join = MeshJoin(runs, 100_000, blocking=False)
    found: dict[int, int] = {}
    unmatched: list[int] = []
    join.push(keys, relation.page_of(columns), np.arange(len(keys)))
    for step in join.finish():
        assert join.memory_used() <= 100_000
        unmatched.extend(step.unmatched.tolist())
        if step.matches is not None:
            values = step.matches.page.rows.columns["v"].to_numpy()[step.matches.rows]
            found |= dict(zip(step.matches.ids.tolist(), values.tolist(), strict=True))
    assert found == {i: -key for i, key in enumerate(keys.tolist()) if key <= ROWS}
    assert sorted(unmatched) == np.flatnonzero(keys > ROWS).tolist()
    assert join.statistics.pages_read <= 2 * runs.page_count


def test_a_page_in_a_run_costs_less(relation: LiveRelation) -> None:
    costs = measure_access(relation, pages_at_once=8)
    assert costs.scan_seconds_per_page is not None
    assert 0 < costs.scan_seconds_per_page < costs.page_read_seconds
