"""How a topic of Kafka is written in a definition."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from spark_jobs.definition import PipelineDefinition, Source

KAFKA: dict[str, Any] = {"servers": "localhost:9092", "topic": "clicks"}


def source(**changes: Any) -> Source:
    written = {"kafka": KAFKA, "format": "json", "schema": "id bigint, at timestamp", "event_time": "at"}
    return Source.model_validate({**written, **changes})


def pipeline(**changes: Any) -> PipelineDefinition:
    given = source(**changes)
    columns = {name.strip("_"): name for name in given.event_id}
    return PipelineDefinition.model_validate(
        {"name": "clicks", "source": given, "fact": {"table": "warehouse.fact_clicks", "columns": columns}}
    )


def test_the_event_id_is_where_the_record_lies_unless_columns_are_named() -> None:
    assert source().event_id == ("_topic", "_partition", "_offset")
    assert source(event_id=["id"]).event_id == ("id",)
    assert source().is_known_by_place
    assert not source(event_id=["id"]).is_known_by_place


def test_a_record_brings_its_place_and_its_time() -> None:
    assert list(source().record_columns) == ["id", "at"]
    assert list(source().columns) == ["id", "at", "_topic", "_partition", "_offset", "_timestamp"]
    assert pipeline(event_time="_timestamp").source.event_time == "_timestamp"


def test_a_definition_comes_back_as_it_was_written() -> None:
    written = pipeline()
    assert PipelineDefinition.model_validate_json(written.model_dump_json(by_alias=True)) == written


def test_a_source_that_went_along_to_a_task_is_the_same() -> None:
    written = source()
    there = pickle.loads(pickle.dumps(written))
    assert there == written
    assert {there.kind, there.record_format} == {written.kind, written.record_format}


def test_a_format_that_a_kind_has_not_is_asked_for_nothing() -> None:
    with pytest.raises(ValidationError, match="'avro' is a format of Kafka") as raised:
        pipeline(kafka=None, path="/landing", format="avro", event_id=["id"])
    assert "source.avro" not in str(raised.value)


def test_each_of_several_streams_may_be_a_topic() -> None:
    topics = {name: source(kafka={**KAFKA, "topic": name}) for name in ("clicks", "views")}
    columns = {f"{name}{place}": f"{name}.{place}" for name in topics for place in topics[name].event_id}
    written = {
        "name": "clicked",
        "streams": topics,
        "join": {"on": dict.fromkeys(topics, "id")},
        "fact": {"table": "warehouse.fact_clicked", "columns": columns},
    }
    assert PipelineDefinition.model_validate(written).tuples.event_id == tuple(columns.values())
    topics["views"] = source(kafka={**KAFKA, "made_anew": "read"})
    with pytest.raises(ValidationError, match=r"streams\.views\.kafka\.made_anew: can't be read"):
        PipelineDefinition.model_validate(written)


def test_a_time_may_stand_without_quotes() -> None:
    kafka = yaml.safe_load("{servers: 'localhost:9092', topic: clicks, start: 2024-12-31T00:00:00Z}")
    assert source(kafka=kafka).kafka.start == "2024-12-31T00:00:00+00:00"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": "/landing"}, "one of both"),
        ({"kafka": None, "event_id": ["id"]}, "one of both"),
        ({"kafka": {**KAFKA, "topic": "my clicks"}}, "'my clicks' is not a topic's name. Allowed: letters, digits"),
        ({"kafka": {**KAFKA, "servers": "localhost"}}, "'localhost' is not a server. Allowed: host:port"),
        ({"kafka": {**KAFKA, "servers": "user:secret@host:9092"}}, "is not a server"),
        ({"kafka": {**KAFKA, "start": "newest"}}, "'newest' is not allowed. Allowed: earliest, latest, or a time"),
        ({"kafka": {**KAFKA, "connection": "a b"}}, "'a b' is not the id of a connection"),
    ],
)
def test_what_is_wrong_with_a_topic_is_told(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        source(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "parquet"}, "'parquet' is a format of files. Allowed with kafka: json."),
        ({"options": {"most_unpacked": "1GB"}}, "most_unpacked: belongs to files only. json takes none."),
        ({"after_load": {"delete_after": "1d"}}, "means nothing with kafka"),
        ({"schema": "id bigint, _Offset bigint, at timestamp"}, "has the name of a column that each record of Kafka"),
        ({"kafka": {**KAFKA, "made_anew": "read"}}, "the new topic's would be taken for the old one's"),
    ],
)
def test_what_does_not_fit_together_is_told(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        pipeline(**changes)


@pytest.mark.parametrize("url", ["http://host:port", "http://host:99999", "http://host:0", "http://:8081", "host:8081"])
def test_a_registrys_address_has_a_host_and_a_port_that_is_one(url: str) -> None:
    with pytest.raises(ValidationError, match="is not a registry's address"):
        source(format="avro", avro={"registry": url})
    assert source(format="avro", avro={"registry": "https://[::1]:8081/path"}).avro is not None
