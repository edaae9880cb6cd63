"""Fact tables as sources of dbt."""

from __future__ import annotations

import yaml

from spark_jobs.authoring.dbt_sources import dbt_sources
from spark_jobs.definition import load_definitions
from spark_jobs.settings import PROJECT_ROOT


def test_shipped_pipelines_are_sources_with_their_keys_and_freshness() -> None:
    definitions = load_definitions(PROJECT_ROOT / "dags" / "pipelines")
    (source,) = yaml.safe_load(dbt_sources([definitions["orders"], definitions["order_lines"]]))["sources"]
    orders, lines = source["tables"]
    assert (source["schema"], orders["name"]) == ("warehouse", "fact_orders")
    assert orders["config"] == {
        "loaded_at_field": "ordered_at",
        "freshness": {
            "warn_after": {"count": 1, "period": "minute"},
            "error_after": {"count": 2, "period": "minute"},
        },
    }
    assert [column["name"] for column in orders["columns"] if column.get("data_tests") == ["not_null", "unique"]] == [
        "order_key"
    ]
    assert [column["name"] for column in lines["columns"] if column.get("data_tests") == ["not_null"]] == [
        "order_key",
        "line_number",
    ]
