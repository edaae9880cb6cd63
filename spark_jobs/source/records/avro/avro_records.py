"""Avro records to tuples: of one schema, or of those that a registry has for the ids in Confluent's wire format."""

from __future__ import annotations

import io
import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_parts
from spark_jobs.definition.ddl import StreamType
from spark_jobs.source.records.avro import kernels
from spark_jobs.source.records.avro.programs import WRONG, Program, UnfitSchemaError, Wanted, compiled
from spark_jobs.source.records.avro.registry import SchemaRegistry
from spark_jobs.source.records.debezium import INSERTS, not_inserted
from spark_jobs.source.records.decoded import Decoded, merged
from spark_jobs.source.records.typed_values import as_tuples, misfit

# Tomorrow the registry may know an id; each block need not ask.
_UNKNOWN_SECONDS = 30.0
_MOST_UNKNOWN = 10_000
_HEAD_BYTES = 5  # a zero and the schema's id, highest byte first
_OPERATION, _AFTER = "op", "after"
# Names of values that are no columns': these can't be called so.
_OPERATION_VALUE, _AFTER_VALUE = "<op>", "<after>"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AvroDecoder:
    """Decodes Avro records; pickled into the tasks.

    What a column is depends on its name alone: the writer's field of that name, or of an alias that the reader's schema
    has for it; else the default of the reader's schema; else null.

    Attributes:
        columns: the source's schema.
        schema: the reader's Avro schema, and without a registry the writer's; None: the writer's.
        registry: has the writer's schemas; None: records are of `schema`, and have no head.
        in_envelope: records are Debezium's, and the columns are in what they call `after`.
    """

    columns: tuple[tuple[str, StreamType], ...]
    schema: str | None
    registry: SchemaRegistry | None
    in_envelope: bool

    def check(self) -> None:
        """See whether the schema that was given can be read.

        Raises:
            UnfitSchemaError: it can't; the message says why.
        """
        if self.schema is not None:
            _plan_for(self, self.schema, ())

    def decode(self, records: pa.Array) -> Decoded:
        """The tuples of records; some tenths of a microsecond each.

        Args:
            records: binary array without nulls, shape (n,).

        Raises:
            SourceAwayError: the registry does not answer.
        """
        offsets, data = binary_parts(records)
        starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
        if self.registry is None:
            return self._decoded(_known(self, None), data, starts, ends)
        has_head = ends - starts >= _HEAD_BYTES
        has_head[has_head] = data[starts[has_head]] == 0
        ids = np.full(len(starts), -1, np.int64)
        ids[has_head] = _ids(data, starts[has_head])
        parts = []
        for schema_id in np.unique(ids).tolist():
            numbers = np.flatnonzero(ids == schema_id)
            plan = _NO_HEAD if schema_id < 0 else _known(self, schema_id)
            parts.append((numbers, self._decoded(plan, data, starts[numbers] + _HEAD_BYTES, ends[numbers])))
        return merged(parts) if parts else as_tuples({}, dict(self.columns), 0, {})

    def _decoded(
        self, plan: _Plan | str, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Decoded:
        columns, count = dict(self.columns), len(starts)
        if isinstance(plan, str):
            return as_tuples({}, columns, count, dict.fromkeys(range(count), f"malformed: {plan}"))
        values, states = plan.program.read(data, starts, ends)
        faults = {
            number: f"malformed: no record of its Avro schema: {WRONG[states[number]]}"
            for number in np.flatnonzero(states != kernels.SOUND).tolist()
        }
        if self.in_envelope:
            operations, present = values.pop(_OPERATION_VALUE), values.pop(_AFTER_VALUE).is_valid()
            for number, (operation, there) in enumerate(zip(_texts(operations), present.to_pylist(), strict=True)):
                if operation not in INSERTS or not there:
                    faults.setdefault(number, not_inserted(operation))
        given = {name: pa.repeat(value, count) for name, value in plan.defaults.items()}
        return as_tuples({**values, **given}, columns, count, faults)


@dataclass(frozen=True)
class _Plan:
    """How records of a schema are read.

    Attributes:
        program: reads them.
        defaults: column -> what it is in all of them.
    """

    program: Program
    defaults: Mapping[str, pa.Scalar]


_NO_HEAD = "not of Confluent's wire format, which begins with a byte 0 and a schema id of four bytes"

_plans: dict[tuple[AvroDecoder, int | None], _Plan | str] = {}
"""Plans of this process, or why there is none, by decoder and schema id."""
_unknown_since: dict[tuple[AvroDecoder, int | None], float] = {}
"""When the registry did not know a schema id, by this process' clock."""


def _known(decoder: AvroDecoder, schema_id: int | None) -> _Plan | str:
    """The plan for records of a schema, or what is wrong with it. What can't be read is told once."""
    key = decoder, schema_id
    if key not in _plans:
        schema: tuple[str, Sequence[str]] | None = (decoder.schema or "", ())
        if decoder.registry is not None and schema_id is not None:
            unknown_for = time.monotonic() - _unknown_since.get(key, -math.inf)
            schema = None if unknown_for < _UNKNOWN_SECONDS else decoder.registry.schema(schema_id)
            if schema is None and unknown_for >= _UNKNOWN_SECONDS:
                _remember_unknown(key)
        if schema is None:
            return f"schema id {schema_id} is unknown to the registry"
        try:
            _plans[key] = _plan_for(decoder, *schema)
        except UnfitSchemaError as error:
            name = "the schema" if schema_id is None else f"schema id {schema_id}"
            _plans[key] = f"{name} can't be read: {error}"
            _log.warning("Avro records are rejected: %s", _plans[key])
    return _plans[key]


def _remember_unknown(key: tuple[AvroDecoder, int | None]) -> None:
    if len(_unknown_since) >= _MOST_UNKNOWN:  # damaged records name any
        _unknown_since.clear()
    _unknown_since[key] = time.monotonic()


def _plan_for(decoder: AvroDecoder, written: str, referred: Sequence[str]) -> _Plan:
    try:
        return _plan(decoder, written, referred)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        # Not all that may be wrong with a schema is seen by the parser.
        raise UnfitSchemaError(f"it is no Avro schema: {type(error).__name__}: {error}") from None


def _plan(decoder: AvroDecoder, written: str, referred: Sequence[str]) -> _Plan:
    writer = _parsed(written, referred)
    reader = writer if decoder.schema is None else _parsed(decoder.schema, ())
    columns = dict(decoder.columns)
    there = {each["name"] for each in _row(writer, decoder.in_envelope)["fields"]}
    read = {each["name"]: each for each in _row(reader, decoder.in_envelope)["fields"]}
    wanted, defaults = {}, {}
    for column in columns:
        names = [name for name in (column, *read.get(column, {}).get("aliases", ())) if name in there]
        if names:
            wanted[names[0]] = column
        elif "default" in read.get(column, {}):
            defaults[column] = _default(read[column])
    fields: Wanted = wanted
    if decoder.in_envelope:
        fields = {_OPERATION: _OPERATION_VALUE, _AFTER: {"": _AFTER_VALUE, **wanted}}
    program = compiled(writer, fields)
    kinds = {name: leaf.kind for name, leaf in program.leaves.items()} | {
        name: value.type for name, value in defaults.items()
    }
    for column, kind in columns.items():
        told = misfit(kinds[column], kind) if column in kinds else None
        if told is not None:
            raise UnfitSchemaError(f"{column} {told}")
    return _Plan(program, defaults)


def _parsed(text: str, referred: Sequence[str]) -> Any:
    named: dict[str, Any] = {}
    try:
        for each in referred:
            fastavro.parse_schema(json.loads(each), named)
        return fastavro.parse_schema(json.loads(text), named, expand=True)
    except fastavro.schema.SchemaParseException as error:
        raise UnfitSchemaError(f"it is no Avro schema: {type(error).__name__}: {error}") from None


def _row(schema: Any, in_envelope: bool) -> Any:
    """The record that has the columns."""
    if not _is_record(schema):
        raise UnfitSchemaError("it is no record, and only a record's fields can be columns")
    if not in_envelope:
        return schema
    fields = {each["name"]: each["type"] for each in schema["fields"]}
    after = fields.get(_AFTER)
    rows = [branch for branch in (after if isinstance(after, list) else [after]) if _is_record(branch)]
    if _OPERATION not in fields or not rows:
        raise UnfitSchemaError("it is not Debezium's envelope, a record with the fields `op` and `after`")
    return rows[0]


def _is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") in {"record", "error"}


def _texts(operations: pa.Array) -> list[Any]:
    """What `op` is in each record. What a damaged one calls a string need not be UTF-8."""
    if not pa.types.is_string(operations.type):
        return operations.to_pylist()
    found = operations.cast(pa.binary()).to_pylist()
    return [None if each is None else each.decode(errors="replace") for each in found]


def _default(field: Mapping[str, Any]) -> pa.Scalar:
    """The default of a field, read as if it had been written."""
    kind, value = field["type"], field["default"]
    if value is None:
        return pa.scalar(None)
    kind = kind[0] if isinstance(kind, list) else kind  # the default of a union is one of its first type
    schema = fastavro.parse_schema({"type": "record", "name": "_default", "fields": [{"name": "value", "type": kind}]})
    if isinstance(value, str) and _type_of(kind) in {"bytes", "fixed"}:
        value = value.encode("latin-1")
    record = io.BytesIO()
    fastavro.schemaless_writer(record, schema, {"value": value})
    data = np.frombuffer(record.getvalue(), np.uint8)
    values, _ = compiled(schema, {"value": "value"}).read(data, np.zeros(1, np.int64), np.array([len(data)], np.int64))
    return values["value"][0]


def _type_of(kind: Any) -> Any:
    return _type_of(kind["type"]) if isinstance(kind, dict) else kind


def _ids(data: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The schema ids in the heads of records, int64, shape (n,)."""
    head = data[starts[:, None] + np.arange(1, _HEAD_BYTES)]
    return np.ascontiguousarray(head).view(">u4").astype(np.int64).ravel()
