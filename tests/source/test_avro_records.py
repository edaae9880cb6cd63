"""Avro records as tuples: compared with fastavro's writer, in Confluent's wire format, in Debezium's envelope."""

from __future__ import annotations

import io
import json
import logging
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from spark_jobs.definition import Source
from spark_jobs.errors import PipelineDefinitionError, SourceAwayError
from spark_jobs.source.records.avro import avro_records
from spark_jobs.source.records.record_decoder import RecordDecoder
from tests.schema_registry import Registry, confluent

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 15, "scale": 2}
ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string", {"type": "map", "values": "double"}]}},
        {"name": "total", "type": ["null", DECIMAL]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "buyer", "type": {"type": "record", "name": "Buyer", "fields": [{"name": "name", "type": "string"}]}},
        {"name": "seller", "type": ["null", "Buyer"]},
        {"name": "note", "type": ["string", "null"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "ratio", "type": "double"},
        {"name": "share", "type": ["null", "float"]},
        {"name": "paid", "type": "boolean"},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 3}},
    ],
}
COLUMNS = (
    "id bigint, total decimal(15,2), at timestamp, day date, note string, state string, ratio double, share float, "
    "paid boolean, code binary, absent int"
)


def written(schema: Any, record: dict[str, Any]) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), record)
    return content.getvalue()


def order(number: int) -> dict[str, Any]:
    draw = random.Random(number)
    return {
        "id": draw.choice([0, -1, 2**63 - 1, -(2**63), number]),
        "tags": [draw.choice([None, "red", {"a": 0.5, "b": 1.0}]) for _ in range(draw.randrange(4))],
        "total": draw.choice([None, Decimal("0.00"), Decimal("-0.01"), Decimal("9999999999999.99"), Decimal("1.28")]),
        "at": datetime(2026, 1, 2, 3, 4, 5, draw.randrange(10**6), tzinfo=UTC),
        "day": date(1969 + draw.randrange(100), 1, 1),
        "buyer": {"name": "Ann"},
        "seller": draw.choice([None, {"name": "Bob"}]),
        "note": draw.choice([None, "", "ä\n€" * draw.randrange(100)]),
        "state": draw.choice(["OPEN", "PAID"]),
        "ratio": draw.choice([0.1, -1e300, float("inf")]),
        "share": draw.choice([None, 0.25]),
        "paid": draw.random() < 0.5,
        "code": bytes([draw.randrange(256), 0, 255]),
    }


def decoder(
    tmp_path: Path, columns: str, schema: Any = None, registry: str | None = None, **more: Any
) -> RecordDecoder:
    avro: dict[str, Any] = {"registry": registry, **more.pop("avro", {})}
    if schema is not None:
        (tmp_path / "reader.avsc").write_text(json.dumps(schema))
        avro["schema_file"] = str(tmp_path / "reader.avsc")
    content = {"format": "avro", "avro": avro, "schema": columns, "event_time": "_timestamp", **more}
    return RecordDecoder.of(Source.model_validate({"kafka": {"servers": "h:1", "topic": "t"}, **content}))


def decoded(decoder: RecordDecoder, *records: bytes) -> list[dict[str, Any] | str]:
    found = decoder.decode(pa.array(records, pa.binary()))
    assert found.reasons.type == pa.string()
    pairs = zip(found.tuples.to_pylist(), found.reasons.to_pylist(), strict=True)
    for values, reason in pairs:
        assert reason is None or set(values.values()) == {None}
    return [
        reason or values for values, reason in zip(found.tuples.to_pylist(), found.reasons.to_pylist(), strict=True)
    ]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry().answering() as registry:
        yield registry


def test_values_are_those_that_were_written(tmp_path: Path) -> None:
    orders = [order(number) for number in range(500)]
    found = decoded(decoder(tmp_path, COLUMNS, ORDER), *(written(ORDER, each) for each in orders))
    columns = [column.split()[0] for column in COLUMNS.split(", ")]
    assert found == [{column: each.get(column) for column in columns} for each in orders]


def test_a_record_that_is_cut_anywhere_costs_itself_only(tmp_path: Path) -> None:
    whole = written(ORDER, order(7))
    parts = [whole[:length] for length in range(len(whole))]
    *cut, longer, sound = decoded(decoder(tmp_path, COLUMNS, ORDER), *parts, whole + b"\0", whole)
    assert all(isinstance(each, str) and each.startswith("malformed: no record of its Avro schema") for each in cut)
    assert longer == "malformed: no record of its Avro schema: bytes are left over"
    assert isinstance(sound, dict)


def test_any_bytes_are_sound_or_malformed_and_never_more(tmp_path: Path) -> None:
    draw = random.Random(1)
    decoded(decoder(tmp_path, COLUMNS, ORDER), *(draw.randbytes(draw.randrange(60)) for _ in range(5000)))


def test_a_value_that_does_not_fit_its_column_costs_its_record_only(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "d", "type": DECIMAL}]}
    records = [written(schema, {"id": id_, "d": Decimal(d)}) for id_, d in [(1, "1.25"), (2**31, "1.00"), (3, "1.50")]]
    found = decoded(decoder(tmp_path, "id int, d decimal(4,1)", schema), *records)
    assert found == [
        "malformed: d: 1.25 is no decimal(4,1)",
        "malformed: id: 2147483648 is no int (a whole number of 32 bits)",
        {"id": 3, "d": Decimal("1.5")},
    ]


def test_each_record_is_read_by_the_schema_that_it_names(tmp_path: Path, registry: Registry) -> None:
    """A field added, removed, renamed, widened: by name, with the reader's defaults and aliases."""
    first = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "id", "type": "int"}, {"name": "old", "type": "string"}],
    }
    second = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "new", "type": "string"}, {"name": "x", "type": "long"}, {"name": "id", "type": "long"}],
    }
    reader = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": "string", "aliases": ["old", "new"]},
            {"name": "x", "type": "long", "default": -7},
            {"name": "price", "type": DECIMAL, "default": "\u0001\u0000"},
            {"name": "gone", "type": ["null", "int"], "default": None},
        ],
    }
    registry.register(1, first)
    registry.register(258, second)
    columns = "id bigint, name string, x bigint, price decimal(15,2), gone int"
    records = [
        confluent(1, written(first, {"id": 1, "old": "a"})),
        confluent(258, written(second, {"id": 2**40, "new": "b", "x": 3})),
        confluent(1, written(first, {"id": 3, "old": "c"})),
    ]
    reading = decoder(tmp_path, columns, reader, registry.url)
    rest = {"price": Decimal("2.56"), "gone": None}
    assert decoded(reading, *records) == [
        {"id": 1, "name": "a", "x": -7, **rest},
        {"id": 2**40, "name": "b", "x": 3, **rest},
        {"id": 3, "name": "c", "x": -7, **rest},
    ]
    decoded(reading, *records)
    assert sorted(registry.asked) == ["/schemas/ids/1", "/schemas/ids/258"]
    assert decoded(decoder(tmp_path, "id bigint, old string", registry=registry.url), *records[:2]) == [
        {"id": 1, "old": "a"},
        {"id": 2**40, "old": None},
    ]


def test_a_bad_head_and_an_unknown_schema_id_cost_their_records_only(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}
    registry.register(1, schema)
    sound = written(schema, {"id": 5})
    reading = decoder(tmp_path, "id int", registry=registry.url)
    found = decoded(reading, b'{"id": 5}', confluent(9, sound), b"\0\0\0", b"", confluent(1, sound))
    no_head = "malformed: not of Confluent's wire format, which begins with a byte 0 and a schema id of four bytes"
    assert found == [no_head, "malformed: schema id 9 is unknown to the registry", no_head, no_head, {"id": 5}]
    registry.register(9, schema)
    asked = len(registry.asked)
    assert decoded(reading, confluent(9, sound)) == ["malformed: schema id 9 is unknown to the registry"]
    assert len(registry.asked) == asked, "not for each block"
    monkeypatch.setattr(avro_records, "_UNKNOWN_SECONDS", 0.0)
    assert decoded(reading, confluent(9, sound)) == [{"id": 5}]


def test_a_schema_that_does_not_fit_is_told_once(
    tmp_path: Path, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}
    registry.register(4, schema)
    registry.register(5, "int")
    reading = decoder(tmp_path, "id int", registry=registry.url)
    record = confluent(4, written(schema, {"id": "x"}))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            [unfit] = decoded(reading, record)
    assert unfit == "malformed: schema id 4 can't be read: id is of type string, and int takes an integer"
    assert len(caplog.records) == 1
    [no_record] = decoded(reading, confluent(5, b"\2"))
    assert str(no_record).startswith("malformed: schema id 5 can't be read: it is no record")


def test_schemas_may_refer_to_others_which_may_come_later(tmp_path: Path, registry: Registry) -> None:
    state = {"type": "enum", "name": "shop.State", "symbols": ["OPEN", "PAID"]}
    schema = {"type": "record", "name": "shop.Order", "fields": [{"name": "state", "type": "shop.State"}]}
    registry.register(3, schema, [{"name": "shop.State", "subject": "shop/state 1", "version": 2}])
    reading = decoder(tmp_path, "state string", registry=registry.url)
    with pytest.raises(SourceAwayError, match="lacks version 2 of subject shop/state 1"):
        decoded(reading, confluent(3, b"\2"))
    registry.register_subject("shop/state 1", 2, state)
    assert decoded(reading, confluent(3, b"\2")) == [{"state": "PAID"}]


def test_a_registry_that_is_away_or_asks_for_a_password_is_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}
    guarded = Registry(("reader", "secret%1"))
    guarded.register(1, schema)
    record = confluent(1, b"\2")
    with guarded.answering():
        without = decoder(tmp_path, "id int", registry=guarded.url)
        with pytest.raises(SourceAwayError, match="can't be asked for schema 1: it answers with status 401"):
            decoded(without, record)
        with pytest.raises(PipelineDefinitionError, match="AIRFLOW_CONN_REGISTRY"):
            decoder(tmp_path, "id int", registry=guarded.url, avro={"connection": "registry"})
        monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", '{"conn_type": "http", "login": "reader", "password": "secret%1"}')
        knowing = decoder(tmp_path, "id int", registry=guarded.url, avro={"connection": "registry"})
        assert decoded(knowing, record) == [{"id": 1}]
        assert "secret" not in repr(knowing)
    with pytest.raises(SourceAwayError, match="The stream waits until it can"):
        decoded(without, record)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "record", "name": "r", "fields": [{"name": "id", "type": "wrong"}]}, "it is no Avro schema"),
        ("int", "it is no record"),
        ({"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}, "id is of type string"),
        (
            {"type": "record", "name": "r", "fields": [{"name": "id", "type": ["int", "string"]}]},
            "id is of type union of several types there, which no column takes",
        ),
        (
            {
                "type": "record",
                "name": "r",
                "fields": [{"name": "id", "type": "int"}, {"name": "r", "type": ["null", "r"]}],
            },
            "holds itself",
        ),
    ],
)
def test_a_schema_file_that_cannot_be_read_is_told_before_the_stream_starts(
    tmp_path: Path, schema: Any, told: str
) -> None:
    with pytest.raises(PipelineDefinitionError, match=told):
        decoder(tmp_path, "id int", schema)


def change(operation: str, row: dict[str, Any] | None) -> dict[str, Any]:
    return {"before": None, "after": row, "source": {"lsn": 5}, "op": operation, "ts_ms": 1}


def envelope() -> dict[str, Any]:
    row = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}},
        ],
    }
    source = {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": ["null", "long"]}]}
    types = {"before": ["null", row], "after": ["null", "Value"], "source": source, "op": "string", "ts_ms": "long"}
    return {"type": "record", "name": "Envelope", "fields": [{"name": name, "type": of} for name, of in types.items()]}


def test_rows_that_debezium_saw_inserted_are_tuples_in_avro_and_in_json(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    microseconds = int(moment.timestamp() * 1e6)
    changes = [change(operation, {"id": 1, "at": microseconds}) for operation in "cru"] + [change("d", None)]
    avro = decoder(tmp_path, "id bigint, at timestamp", envelope(), envelope="debezium")
    no_insert = "no insert: Debezium's op is {!r}, and facts are made of inserts only: 'c' and 'r'"
    rest = [no_insert.format("u"), no_insert.format("d")]
    found = decoded(avro, *(written(envelope(), each) for each in changes))
    assert found == [{"id": 1, "at": moment}] * 2 + rest
    assert decoded(avro, written(envelope(), change("c", None))) == ["no insert: the envelope holds no row"]
    sound = written(envelope(), changes[0])
    damaged = sound.replace(b"\2c", b"\2\xff")
    assert decoded(avro, damaged, sound) == [no_insert.format("\ufffd"), {"id": 1, "at": moment}]

    kafka = {"servers": "h:1", "topic": "t"}
    content = {"kafka": kafka, "format": "json", "schema": "id bigint", "event_time": "_timestamp"}
    in_json = RecordDecoder.of(Source.model_validate({**content, "envelope": "debezium"}))
    plain = [json.dumps(each).encode() for each in changes]
    with_schema = [json.dumps({"schema": {}, "payload": each}).encode() for each in changes]
    for records in (plain, with_schema):
        assert decoded(in_json, *records) == [{"id": 1}] * 2 + rest
    deep = b'{"op": "c", "after": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    hostile = [b"[1]", b'{"op": "c"}', b'{"op": "c", "after": {"id": "x"}}', deep, plain[0]]
    unlike, no_row, malformed, nested, sound_row = decoded(in_json, *hostile)
    assert str(nested).startswith("malformed: not Debezium's envelope")
    assert sound_row == {"id": 1}
    assert str(unlike).startswith("malformed: not Debezium's envelope")
    assert no_row == "no insert: the envelope holds no row"
    assert malformed == "malformed: id: 'x' is no bigint (a whole number of 64 bits)"
