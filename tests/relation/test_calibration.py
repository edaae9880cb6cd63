"""Measuring what reads of R cost, by a clock that the test winds."""

from collections.abc import Callable
from itertools import count

import pytest

from spark_jobs.relation.calibration import measure_access
from tests.relation.conftest import Open

Execute = Callable[..., None]


@pytest.mark.parametrize(("rows", "page_rows"), [(5_000, 2), (5_000, 100), (3, 10), (1, 10), (0, 10)])
def test_each_read_counts_once(execute: Execute, open_relation: Open, rows: int, page_rows: int) -> None:
    execute(f"CREATE TABLE r (k text PRIMARY KEY); INSERT INTO r SELECT 'k' || g FROM generate_series(1, {rows}) AS g")
    relation = open_relation("public.r", {"text": "k"}, {"k": "k"}, page_rows)
    ticks = count()
    costs = measure_access(relation, lambda: float(next(ticks)))
    assert costs.page_read_seconds == 1
    assert costs.lookup_overhead_seconds == 1
    assert costs.lookup_seconds_per_key == 0


def test_real_costs_are_positive(execute: Execute, open_relation: Open) -> None:
    execute("CREATE TABLE r (k bigint PRIMARY KEY); INSERT INTO r SELECT generate_series(1, 20000); ANALYZE r")
    costs = measure_access(open_relation("public.r", {"integer": "k"}, {"k": "k"}, page_rows=10))
    assert costs.page_read_seconds > 0
    assert costs.lookup_overhead_seconds > 0
    assert costs.lookup_seconds_per_key > 0
