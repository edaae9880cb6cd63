"""The schema that editors check definitions by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from spark_jobs.authoring.yaml_schema import FIRST_LINE, SCHEMA_FILE, pipeline_schema
from spark_jobs.definition.problems import read_yaml
from spark_jobs.settings import PROJECT_ROOT
from tests.definition.test_join import SALES

SHIPPED = PROJECT_ROOT / "dags" / "pipelines"


def errors(content: Any) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(pipeline_schema()).iter_errors(content)]


def test_the_published_schema_is_that_of_the_models() -> None:
    published = json.loads((SHIPPED / SCHEMA_FILE).read_text())
    assert published == pipeline_schema(), "write_schema(dags/pipelines) writes it anew"


@pytest.mark.parametrize("name", [path.name for path in SHIPPED.glob("*.yaml")])
def test_shipped_pipelines_name_it_and_are_right_by_it(name: str) -> None:
    assert (SHIPPED / name).read_text().startswith(FIRST_LINE)
    assert errors(read_yaml(SHIPPED / name)) == []


def test_several_streams_are_right_by_it(tmp_path: Path) -> None:
    (tmp_path / "sales.yaml").write_text(SALES)
    assert errors(read_yaml(tmp_path / "sales.yaml")) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"freshness": {"target": "5 parsecs"}}, "does not match"),
        ({"freshness": {"targets": "5s"}}, "'targets' was unexpected"),
        ({"fact": {"table": "orders", "columns": {"a": "b"}}}, "does not match"),
        ({"streams": {}, "join": {"on": {}}}, "is valid under each of"),
        ({"source": {"format": "xml"}}, "'xml' is not one of"),
    ],
)
def test_mistakes_are_seen(change: dict[str, Any], told: str) -> None:
    content = read_yaml(SHIPPED / "orders.yaml") | change
    assert any(told in message for message in errors(content)), errors(content)


def test_keys_tell_what_they_are() -> None:
    keys = pipeline_schema()["$defs"]["Lookup"]["properties"]
    assert keys["read_limit"]["description"].startswith("Tuples of R that all tasks together may read in a second")
    assert keys["memory"]["examples"] == ["memory: 64MB"]
