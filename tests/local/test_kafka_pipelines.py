"""The pipelines of `freshet up --source kafka`: sound definitions that read topics, and are the same in all else."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.definition import load_definitions
from spark_jobs.local.kafka_pipelines import TOPICS, write_kafka_pipelines
from spark_jobs.settings import PROJECT_ROOT

SHIPPED = PROJECT_ROOT / "dags" / "pipelines"


def test_the_shipped_pipelines_read_topics_and_are_the_same_in_all_else(tmp_path: Path) -> None:
    write_kafka_pipelines(SHIPPED, tmp_path, "127.0.0.1:9092")
    shipped, written = load_definitions(SHIPPED), load_definitions(tmp_path)
    assert written.keys() == shipped.keys() - {"fulfilment"} == set(TOPICS)
    for name, definition in written.items():
        assert definition.source.kafka is not None
        assert (definition.source.kafka.topic, definition.source.kafka.servers) == (name, "127.0.0.1:9092")
        assert definition.source.record_columns == shipped[name].source.record_columns
        assert definition.model_copy(update={"source": shipped[name].source}) == shipped[name]


def test_pipelines_of_other_events_stay_as_they_are(tmp_path: Path) -> None:
    pipelines, folder = tmp_path / "pipelines", tmp_path / "kafka"
    pipelines.mkdir()
    text = (SHIPPED / "orders.yaml").read_text().replace("name: orders", "name: visits")
    (pipelines / "visits.yaml").write_text(text)
    write_kafka_pipelines(pipelines, folder, "127.0.0.1:9092")
    assert load_definitions(folder) == load_definitions(pipelines)
