"""How many order records a second are read from a topic of Kafka, as JSON and as Avro, from its partition to arrivals.

By processor time, that of the client's own threads included; and what share that is of a JSON file's.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import fastavro
from confluent_kafka import Producer

from spark_jobs.definition import Source
from spark_jobs.experiments.kernels import record_decoding
from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure, interleaved, seconds
from spark_jobs.local.embedded_kafka.broker import KafkaBroker
from spark_jobs.source.kafka.client import KafkaClient
from spark_jobs.source.kafka.partition import OffsetSlice, Partition
from spark_jobs.source.kafka.reading import read_offsets
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.workload.order_events import OrderFiles
from spark_jobs.workload.topics import make_topics

_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 15, "scale": 2}
TARGET = 0.8
_TYPES = {
    "o_orderkey": "long",
    "o_custkey": "long",
    "o_totalprice": _DECIMAL,
    "o_orderdate": {"type": "int", "logicalType": "date"},
    "o_shippriority": "int",
    "ordered_at": {"type": "long", "logicalType": "timestamp-micros"},
}


def measure(repeats: int) -> list[MeasuredFigure]:
    """Records per second of each format. Fetches Kafka's jars where they are not there yet."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = OrderFiles().next_file(record_decoding.orders(), record_decoding.moments())
        assert content is not None
        schema = folder / "order.avsc"
        source = record_decoding.orders_source()
        fields = [{"name": column, "type": _TYPES.get(column, "string")} for column in source.columns]
        schema.write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))
        records = {"JSON": content.splitlines(), "Avro": list(_avro(schema))}
        with KafkaBroker(folder / "kafka", folder / "kafka.log").use() as broker:
            make_topics(broker.servers, list(records), 1)
            for topic, values in records.items():
                _write(broker.servers, topic, values)
            cases = {}
            for topic in records:
                kafka = {"servers": broker.servers, "topic": topic}
                of_format = {
                    "format": topic.lower(),
                    **({"avro": {"schema_file": str(schema)}} if topic == "Avro" else {}),
                }
                written = source.model_dump(by_alias=True) | {"path": None, "kafka": kafka} | of_format
                cases[topic] = partial(seconds, partial(_read, Source.model_validate(written)))
            (folder / "orders.json").write_bytes(content)
            cases["file"] = partial(seconds, partial(record_decoding.read, folder / "orders.json", source))
            times = interleaved(cases, repeats)
            of_file = times.pop("file")
            return [
                figure
                for topic, taken in times.items()
                for figure in _figures(f"orders from a topic, {topic}", taken, of_file)
            ]


def _figures(what: str, taken: list[float], of_file: list[float]) -> Iterator[MeasuredFigure]:
    rates = [record_decoding.RECORDS / each for each in taken]
    yield MeasuredFigure.of(f"reading {what}", rates, "records/s", None, "least")
    shares = [file / topic for file, topic in zip(of_file, taken, strict=True)]
    yield MeasuredFigure.of(f"{what}, beside a JSON file", shares, "of its rate", TARGET, "least")


def _avro(schema: Path) -> Iterator[bytes]:
    parsed = fastavro.schema.load_schema(str(schema))
    for row in record_decoding.events().to_pylist():
        content = io.BytesIO()
        fastavro.schemaless_writer(content, parsed, row)
        yield content.getvalue()


def _write(servers: str, topic: str, values: Iterable[bytes]) -> None:
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 0, "linger.ms": 20})
    for value in values:
        producer.produce(topic, value)
    producer.flush()


def _read(source: Source) -> int:
    topic = source.settings
    piece = OffsetSlice(0, Partition(topic.topic, 0, "A" * 22), 0, record_decoding.RECORDS)
    reading = read_offsets(piece, RecordDecoder.of(source), KafkaClient.of(topic, "bench"))
    records = sum(arrivals.tuples.num_rows for arrivals in reading)
    assert records == record_decoding.RECORDS
    return records
