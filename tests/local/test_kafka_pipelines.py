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
    assert written.keys() == shipped.keys() == {*TOPICS, "fulfilment"}
    for name in TOPICS:
        definition = written[name]
        assert definition.source.kafka is not None
        assert (definition.source.kafka.topic, definition.source.kafka.servers) == (name, "127.0.0.1:9092")
        assert definition.source.record_columns == shipped[name].source.record_columns
        assert definition.model_copy(update={"source": shipped[name].source}) == shipped[name]


def test_of_several_streams_those_read_topics_that_are_written_to_them(tmp_path: Path) -> None:
    write_kafka_pipelines(SHIPPED, tmp_path, "127.0.0.1:9092")
    shipped, written = (load_definitions(folder)["fulfilment"] for folder in (SHIPPED, tmp_path))
    orders = written.streams["orders"]
    assert orders.kafka is not None
    assert orders.kafka.topic == "orders"
    assert orders.record_columns == shipped.streams["orders"].record_columns
    assert {**written.streams, "orders": shipped.streams["orders"]} == shipped.streams


def test_pipelines_of_the_user_stay_as_they_are_whatever_they_are_called_and_read(tmp_path: Path) -> None:
    pipelines, folder = tmp_path / "pipelines", tmp_path / "kafka"
    pipelines.mkdir()
    (pipelines / "orders.yaml").write_text((SHIPPED / "orders.yaml").read_text())
    (pipelines / "clickorders.yaml").write_text(
        (SHIPPED / "fulfilment.yaml").read_text().replace("fulfilment", "clickorders")
    )
    write_kafka_pipelines(pipelines, folder, "127.0.0.1:9092")
    assert load_definitions(folder) == load_definitions(pipelines)
