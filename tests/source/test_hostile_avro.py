"""Avro whose lengths, counts and schemas lie: read in a child process, which has to end, with a reason for each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_jobs.source.records.avro.avro_records import AvroDecoder
from spark_jobs.source.records.avro.programs import UnfitSchemaError
from tests.limited_memory import in_limited_memory

MEMORY = 256 << 20
DECODE = """
import base64, pyarrow as pa
from spark_jobs.definition.ddl import parse_columns
from spark_jobs.source.records.avro.avro_records import AvroDecoder
result = []
for schema, records in given:
    decoder = AvroDecoder(tuple(parse_columns("id bigint").items()), json.dumps(schema), None, False)
    decoded = decoder.decode(pa.array([bytes.fromhex(record) for record in records], pa.binary()))
    result.append(list(zip(decoded.tuples["id"].to_pylist(), decoded.reasons.to_pylist())))
"""


def record(**fields: Any) -> dict[str, Any]:
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "r", "fields": [*named, {"name": "id", "type": "int"}]}


def number(value: int) -> bytes:
    """A long as Avro writes it."""
    zigzag = (value << 1) ^ (value >> 63)
    parts = []
    while zigzag > 0x7F:
        parts.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*parts, zigzag])


def array(of: Any) -> dict[str, Any]:
    return {"type": "array", "items": of}


ID = number(7)
NULLS, NESTED = record(a=array("null")), record(a=array(array("null")))
EMPTY = record(a=array({"type": "record", "name": "nothing", "fields": []}))
BLOCKS_OF_NULLS = number(1 << 24) * 20_000
LYING = [
    (record(a="string"), number(1 << 60) + b"x" + ID, "it ends too early"),
    (record(a="bytes"), number((1 << 63) - 1) + ID, "it ends too early"),
    (record(a="bytes"), number(-1) + ID, "a length is negative"),
    (record(a=array("int")), number(1 << 62) + ID, "more items than the record has bytes"),
    (record(a=array("int")), number(-(1 << 63)) + number(1) + ID, "it ends too early, or holds no number"),
    (record(a={"type": "map", "values": "int"}), number(1 << 24) + ID, "more items than the record has bytes"),
    (NULLS, BLOCKS_OF_NULLS + number(0) + ID, "more items than the record has bytes"),
    (NULLS, number(-(1 << 24)) + number(0) + number(0) + ID, "more items than the record has bytes"),
    (EMPTY, BLOCKS_OF_NULLS + number(0) + ID, "more items than the record has bytes"),
    (NESTED, number(1 << 20) + BLOCKS_OF_NULLS, "more items than the record has bytes"),
    (record(a=["null", "int"]), number(1 << 62) + ID, "a union has no such branch"),
    (record(a=["null", "int"]), number(-1) + ID, "a union has no such branch"),
    (record(a={"type": "fixed", "name": "f", "size": (1 << 31) - 1}), ID, "it ends too early"),
    (record(), b"\xff" * 20, "it ends too early, or holds no number"),
]


def test_lengths_and_counts_that_lie_cost_their_record_only() -> None:
    sound = [
        (record(a=array("int")), number(2) + number(1) * 2 + number(-2) + number(2) + number(1) * 2 + number(0) + ID),
        (NULLS, number(900) + number(0) + ID),
        (record(a=array(array("int"))), number(3) + (number(1) + number(5) + number(0)) * 3 + number(0) + ID),
    ]
    given = [[schema, [content.hex()]] for schema, content, _ in LYING]
    given += [[schema, [content.hex(), b"".hex(), content.hex()]] for schema, content in sound]
    found = in_limited_memory(DECODE, given, MEMORY)
    for (_, content, told), [(_, reason)] in zip(LYING, found, strict=False):
        assert told in (reason or "no reason"), content[:20]
    for first, second, third in found[len(LYING) :]:
        assert first == third == [7, None]
        assert second[0] is None


def laughs(levels: int) -> dict[str, Any]:
    """Records that hold two of the one below each: 2 to the power of `levels` values."""
    schema: dict[str, Any] = {"type": "record", "name": "r0", "fields": []}
    for level in range(1, levels):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"r{level - 1}"}]
        schema = {"type": "record", "name": f"r{level}", "fields": fields}
    return schema


def nested(levels: int) -> str:
    kind = '{"type": "array", "items": ' * levels + '"int"' + "}" * levels
    return json.dumps(record(a="?")).replace('"?"', kind)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (record(a=laughs(40)), "it has more than 65536 values"),
        (nested(5000), "it is no Avro schema"),
        (record(a={"type": "fixed", "name": "f", "size": -5}), "size -5, which can't be"),
        (record(a={"type": "fixed", "name": "f", "size": 1 << 40}), "which can't be"),
        (record(a={"type": "fixed", "name": "f", "size": "8"}), "it is no Avro schema|which can't be"),
        (record(a={"type": "array"}), "it is no Avro schema"),
        (record(a={"type": "enum", "name": "e", "symbols": 5}), "it is no Avro schema"),
        ({"type": "record", "name": "r", "fields": [5]}, "it is no Avro schema"),
        ([], "it is no record"),
        (None, "it is no Avro schema"),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_a_schema_that_is_none_or_without_end_is_told(schema: Any, told: str) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with pytest.raises(UnfitSchemaError, match=told):
        AvroDecoder((), text, None, in_envelope=False).check()
