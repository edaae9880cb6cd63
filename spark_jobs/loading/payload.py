"""The payload of a held tuple: its record as the source gave it, so that it can be loaded later."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_parts, plain_array
from spark_jobs.columns.copy_encoding.characters import is_sound_text, text_faults
from spark_jobs.columns.json_text import json_objects
from spark_jobs.definition.stream_tuple import ARRIVED_AT, RECORD, EventColumns

HELD_ID, PAYLOAD, PAYLOAD_ENCODING = "_held_id", "_payload", "_payload_encoding"
SOURCE_UNIT, SOURCE_POSITION = "_source_unit", "_source_position"
"""Columns of tuples that are read back: the event id as freshet.held_tuple has it, and what holds the record."""
_HELD_COLUMNS = {
    HELD_ID: pa.string(),
    PAYLOAD: pa.string(),
    PAYLOAD_ENCODING: pa.string(),
    ARRIVED_AT: pa.timestamp("us", tz="UTC"),
    SOURCE_UNIT: pa.string(),
    SOURCE_POSITION: pa.int64(),
}
IN_BASE64 = ".base64"
"""Ends the encoding of a payload that is a record's bytes in base64; the encoding of any other record is its format."""


class Payloads(NamedTuple):
    """Payloads of n tuples.

    Attributes:
        texts: string array, shape (n,), valid UTF-8 without NUL.
        encodings: string array, shape (n,): how to read each text: the format of the record, with
            `IN_BASE64` behind it where the record is no such text.
        records: large_binary array, shape (n,): the records themselves.
    """

    texts: pa.Array
    encodings: pa.Array
    records: pa.Array


def payloads(tuples: pa.Table, event: EventColumns) -> Payloads:
    """Payloads of stream tuples: the record as it arrived; all source columns as JSON where it was none of bytes.

    Args:
        tuples: shape (n,).
        event: names the source columns, and the format of records.
    """
    records, encodings = _records(tuples, event)
    offsets, data = binary_parts(records)
    texts = records
    if not is_sound_text(records, data[offsets[0] : offsets[-1]]):
        unsound = pa.array(text_faults(records) != 0)
        bytes_of = records.filter(unsound).view(pa.large_binary()).to_pylist()
        coded = pa.array([base64.b64encode(record).decode() for record in bytes_of], pa.large_string())
        texts = pc.replace_with_mask(records, unsound, coded)
        encodings = pc.if_else(unsound, pc.binary_join_element_wise(encodings, IN_BASE64, ""), encodings)
    return Payloads(texts, encodings, records.view(pa.large_binary()))


def held_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Held tuples as they are read back, shape (n,).

    Args:
        rows: of freshet.held_tuple: event_id, payload, payload_encoding, arrived_at, source_unit, source_position.
    """
    columns = enumerate(_HELD_COLUMNS.items())
    return pa.table({name: pa.array([row[k] for row in rows], kind) for k, (name, kind) in columns})


def payload_bytes(texts: pa.Array, encodings: pa.Array) -> pa.Array:
    """The records that payloads hold, of any encoding there was; large_binary, shape (n,).

    A text that is no base64 where it should be stands for itself.

    Args:
        texts: string array, shape (n,).
        encodings: string array, shape (n,).
    """
    records = pc.cast(texts, pa.large_string()).view(pa.large_binary())
    coded = pc.ends_with(encodings, "base64")
    if not pc.any(coded).as_py():
        return records
    decoded = [_decoded(text) for text in records.filter(coded).to_pylist()]
    return pc.replace_with_mask(records, coded, pa.array(decoded, pa.large_binary()))


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return text


def _records(tuples: pa.Table, event: EventColumns) -> tuple[pa.Array, pa.Array]:
    """Records as strings, unchecked, and their formats."""
    count = tuples.num_rows
    if RECORD not in tuples.column_names or tuples[RECORD].null_count == count:
        return tuple_objects(tuples, event.source_columns), pa.repeat("json", count)
    records = plain_array(tuples[RECORD]).cast(pa.large_binary()).view(pa.large_string())
    formats = pa.repeat(event.format, count)
    if not records.null_count:
        return records, formats
    made = tuple_objects(tuples, event.source_columns)
    return pc.if_else(records.is_valid(), records, made), pc.if_else(records.is_valid(), formats, "json")


def tuple_objects(tuples: pa.Table, columns: tuple[str, ...]) -> pa.Array:
    """Each tuple as a JSON object of these columns, shape (n,)."""
    return json_objects({column: plain_array(tuples[column]) for column in columns})


def digests(records: pa.Array) -> list[str]:
    """SHA-256 of each record, in hexadecimal: stands for the event id of a tuple that has none."""
    return [hashlib.sha256(record.as_buffer()).hexdigest() for record in records]


def digest_hashes(digests: list[str]) -> NDArray[np.int64]:
    """Hash codes of tuples that have a digest instead of an event id: its first eight bytes."""
    return np.array([int.from_bytes(bytes.fromhex(digest[:16]), "big", signed=True) for digest in digests], np.int64)
