"""What a stream's lineage names: sources, relations, the fact table, and the columns that its own are made of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from freshet_airflow import stream_lineage
from freshet_airflow.stream_job_operator import StreamJobOperator
from freshet_airflow.stream_lineage import PipelineDatasets

from spark_jobs.definition import load_definition
from spark_jobs.settings import PROJECT_ROOT, Home
from tests.definition.test_join import SALES

WAREHOUSE = "postgresql://loader:hidden@db:5433/shop"
VISITS = """
name: visits
source:
  format: json
  kafka: {servers: "kafka-1:9092,kafka-2:9092", topic: visits}
  schema: "article string, seen_at timestamp"
  event_time: seen_at
lookups:
  - relation: master.article
    on: {article: code}
    fetch: {article_sk: article_sk}
fact:
  table: warehouse.visits
  columns: {topic: _topic, partition: _partition, offset: _offset, article_sk: article_sk, batch_no: _batch_no}
"""


def datasets(folder: Path, text: str, url: str = WAREHOUSE) -> PipelineDatasets:
    name = text.strip().splitlines()[0].removeprefix("name: ")
    (folder / f"{name}.yaml").write_text(text)
    return PipelineDatasets(load_definition(str(folder / f"{name}.yaml")), url, Home(Path("/home")))


def columns(pipeline: PipelineDatasets) -> dict[str, list[tuple[str, str]]]:
    facet = pipeline.output().facets["columnLineage"]
    return {name: [(each.name, each.field) for each in made.inputFields] for name, made in facet.fields.items()}


def joined_by(pipeline: PipelineDatasets) -> set[tuple[str, str]]:
    return {(each.name, each.field) for each in pipeline.output().facets["columnLineage"].dataset}


def test_a_topic_and_what_is_looked_up(tmp_path: Path) -> None:
    visits = datasets(tmp_path, VISITS)
    topic, article = visits.inputs()
    assert (topic.namespace, topic.name) == ("kafka://kafka-1:9092", "visits")
    assert (article.namespace, article.name) == ("postgres://db:5433", "shop.master.article")
    assert columns(visits) == {
        "topic": [("visits", "_topic")],
        "partition": [("visits", "_partition")],
        "offset": [("visits", "_offset")],
        "article_sk": [("shop.master.article", "article_sk")],
    }
    assert joined_by(visits) == {("visits", "article"), ("shop.master.article", "code")}


def test_of_a_relation_with_versions_the_time_of_the_event_chooses(tmp_path: Path) -> None:
    versions = VISITS.replace("fetch:", "as_of: event_time\n    validity: [valid_from, valid_until]\n    fetch:")
    found = joined_by(datasets(tmp_path, versions))
    assert found == {("visits", "article"), ("visits", "seen_at")} | {
        ("shop.master.article", column) for column in ("code", "valid_from", "valid_until")
    }


def test_each_of_several_streams(tmp_path: Path) -> None:
    joined = datasets(tmp_path, SALES)
    assert {dataset.name for dataset in joined.inputs()} >= {name for name, _ in joined_by(joined)}
    assert all(made for made in columns(joined).values())


@pytest.mark.parametrize("url", ["postgresql:///shop?host=/run/postgres&port=5432", "postgresql://localhost/shop"])
def test_a_socket_and_a_default_are_named_as_the_local_server(tmp_path: Path, url: str) -> None:
    assert datasets(tmp_path, VISITS, url).output().namespace == "postgres://localhost:5432"


@pytest.mark.parametrize("name", [path.stem for path in (PROJECT_ROOT / "dags" / "pipelines").glob("**/*.yaml")])
def test_every_column_of_shipped_pipelines_has_an_origin_but_the_number_of_its_load(name: str) -> None:
    (path,) = (PROJECT_ROOT / "dags" / "pipelines").glob(f"**/{name}.yaml")
    definition = load_definition(str(path))
    made = columns(PipelineDatasets(definition, WAREHOUSE, Home(Path("/home"))))
    assert made.keys() == {column for column, origin in definition.fact.columns.items() if origin != "_batch_no"}


def test_a_stream_can_do_without_the_provider(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", None)
    StreamJobOperator(task_id="run", pipeline="orders")._tell_lineage("START", {})
    assert "lineage" not in caplog.text + "".join(capfd.readouterr())


def test_a_stream_can_do_without_its_lineage_being_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream_lineage, "is_openlineage_active", lambda: True)
    StreamJobOperator(task_id="run", pipeline="orders")._tell_lineage("START", {})
    assert "lineage could not be told (START)" in caplog.text + "".join(capfd.readouterr())
