"""The capacity is told by the lookup that reaches its limit first."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.definition import PipelineDefinition, load_definitions
from spark_jobs.ledger.period import LedgerPeriod, RelationReads
from spark_jobs.local.bad_day_figures import capacity
from spark_jobs.local.bad_day_plan import LOOKUPS, write_overload_pipelines
from spark_jobs.settings import PROJECT_ROOT


def span(*reads: RelationReads) -> LedgerPeriod:
    return LedgerPeriod(10.0, 1000, 0, 0, 0, 1.0, 2.0, reads)


@pytest.fixture
def definitions(tmp_path: Path) -> dict[str, PipelineDefinition]:
    write_overload_pipelines(PROJECT_ROOT / "dags" / "pipelines", tmp_path, scale=0.1)
    return load_definitions(tmp_path)


def test_the_first_lookup_at_its_limit_counts(definitions: dict[str, PipelineDefinition]) -> None:
    parts = LOOKUPS["master.part"].read_limit
    lines = span(RelationReads("master.part", parts * 5, 0), RelationReads("master.supplier", 10, 0))
    orders = span(RelationReads("master.customer", 100, 0))
    found = capacity(200.0, [(definitions["orders"], orders), (definitions["order_lines"], lines)])
    assert found is not None
    assert found.relation == "master.part"
    assert found.demand == parts / 2
    assert found.orders_per_second == 400.0  # in ten seconds half of what might have been read was


def test_a_shed_tuple_would_have_cost_a_key(definitions: dict[str, PipelineDefinition]) -> None:
    limit = LOOKUPS["master.customer"].read_limit
    orders = span(RelationReads("master.customer", limit * 10, limit * 10))
    found = capacity(200.0, [(definitions["orders"], orders)])
    assert found is not None
    assert found.orders_per_second == 100.0


def test_a_pipeline_that_reads_nothing_limits_nothing(definitions: dict[str, PipelineDefinition]) -> None:
    assert capacity(200.0, [(definitions["orders"], span())]) is None
    assert capacity(200.0, [(definitions["orders"], span(RelationReads("master.customer", 0, 0)))]) is None
