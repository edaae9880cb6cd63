"""The same events in other forms than Parquet files: as JSON files, and as JSON and Avro in topics of Kafka."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.columns.arrow_buffers import plain_array
from spark_jobs.columns.json_text import json_objects
from spark_jobs.experiments.load.data import EVENT_SCHEMA
from spark_jobs.workload.topics import TopicWriter, make_topics

Form = Literal["parquet", "json", "topic-json", "topic-avro"]
"""Files of Parquet or JSON, or records of a topic."""

SERVERS_VARIABLE = "FRESHET_BENCH_KAFKA"
"""Environment variable by which a contender learns where the broker is."""

_PARTITIONS = 4
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 15, "scale": 2}
_MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
_TYPES = {"id": "long", "key": "long", "quantity": "int", "amount": _DECIMAL, "at": _MOMENT}
AVRO_SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": name, "type": kind} for name, kind in _TYPES.items()],
}


def is_topic(form: Form) -> bool:
    """Whether it is one that a broker keeps."""
    return form.startswith("topic")


def place_of(events: Path, form: Form) -> Path:
    """Where events of a form are: the folder of the files; of a topic, one that has its name."""
    return events if form == "parquet" else events.with_name(f"{events.name}-{form}")


def make_place(place: Path, form: Form) -> TopicWriter | None:
    """Make where events of a form go; of a topic, what writes to it."""
    place.mkdir(parents=True)
    if not is_topic(form):
        return None
    if form == "topic-avro":
        _schema_file(place).write_text(json.dumps(AVRO_SCHEMA))
    servers = os.environ[SERVERS_VARIABLE]
    make_topics(servers, [place.name], _PARTITIONS)
    return TopicWriter(servers)


def write_form(events: Path, form: Form) -> None:
    """Write what lies in Parquet files in another form, once; each file as one of JSON, or record by record."""
    place = place_of(events, form)
    if form == "parquet" or place.exists():
        return
    writer = make_place(place, form)
    for file in sorted(events.iterdir()):
        found = records(pq.read_table(file), form)
        if writer is not None:
            writer.send(place.name, found)
        else:
            (place / f"{file.stem}.json").write_bytes(b"".join(record + b"\n" for record in found))
    if writer is not None:
        writer.finish()


def records(table: pa.Table, form: Form) -> Iterator[bytes]:
    """Events, each as its record."""
    if form != "topic-avro":
        yield from json_objects({name: plain_array(table[name]) for name in _TYPES}).cast(pa.binary()).to_pylist()
        return
    schema = fastavro.parse_schema(AVRO_SCHEMA)
    for row in table.to_pylist():
        content = io.BytesIO()
        fastavro.schemaless_writer(content, schema, row)
        yield content.getvalue()


def source_of(place: Path, form: Form) -> dict[str, Any]:
    """The pipeline's source, as its definition has it."""
    source = {"schema": EVENT_SCHEMA, "event_id": ["id"], "event_time": "at"}
    if not is_topic(form):
        return source | {"format": form, "path": str(place)}
    avro = {"avro": {"schema_file": str(_schema_file(place))}} if form == "topic-avro" else {}
    kafka = {"servers": os.environ[SERVERS_VARIABLE], "topic": place.name}
    return source | {"format": form.removeprefix("topic-"), "kafka": kafka} | avro


def _schema_file(place: Path) -> Path:
    return place / "event.avsc"
