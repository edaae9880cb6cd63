"""The payload of a held tuple: the stream tuple as the source gave it, so that it can be loaded later."""

from __future__ import annotations

import base64
import hashlib
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.loading.copy_encoding.characters import is_sound_text, text_faults
from spark_jobs.loading.copy_encoding.field import byte_strings
from spark_jobs.loading.copy_encoding.rows import plain_array
from spark_jobs.loading.json_text import ascii_json_strings, joined, json_values
from spark_jobs.warehouse.event_columns import RAW, EventColumns


class Payloads(NamedTuple):
    """Payloads of n tuples.

    Attributes:
        texts: string array, shape (n,), valid UTF-8 without NUL.
        encodings: string array, shape (n,): how to read each text.
            json: an object of the source's columns, for Spark's from_json with the source's schema.
            text: the raw record, as it is.
            base64: the bytes of a raw record, or of such a JSON object, that are no text. Such an object can't be
                read by from_json without losing them: its tuple is for people to look at.
        records: large_binary array, shape (n,): the raw record or the JSON object itself.
    """

    texts: pa.Array
    encodings: pa.Array
    records: pa.Array


def payloads(tuples: pa.Table, event: EventColumns) -> Payloads:
    """Payloads of stream tuples: the raw record where the source could not read it, else all source columns as JSON.

    Args:
        tuples: shape (n,).
        event: names the source columns.
    """
    records = json_objects(tuples, event.source_columns)
    encodings = pa.repeat(pa.scalar("json"), len(records))
    if RAW in tuples.column_names and tuples[RAW].null_count < tuples.num_rows:
        raw = _as_text(plain_array(tuples[RAW]))
        records = pc.if_else(raw.is_valid(), raw, records)
        encodings = pc.if_else(raw.is_valid(), "text", encodings)
    offsets, data = byte_strings(records)
    texts = records
    if not is_sound_text(records, data[offsets[0] : offsets[-1]]):
        unsound = pa.array(text_faults(records) != 0)
        bytes_of = records.filter(unsound).view(pa.large_binary()).to_pylist()
        coded = pa.array([base64.b64encode(record).decode() for record in bytes_of], pa.large_string())
        texts = pc.replace_with_mask(records, unsound, coded)
        encodings = pc.if_else(unsound, "base64", encodings)
    return Payloads(texts, encodings, records.view(pa.large_binary()))


def json_objects(tuples: pa.Table, columns: tuple[str, ...]) -> pa.Array:
    """Each tuple as a JSON object of these columns, shape (n,); nulls are written as null.

    Strings that are not valid UTF-8 make texts that are not either.
    """
    names = ascii_json_strings(pa.array(columns, pa.string())).to_pylist()
    parts: list[str | pa.Array] = []
    for name, column in zip(names, columns, strict=True):
        values = pc.fill_null(json_values(plain_array(tuples[column])), "null")
        parts += [f"{',' if parts else '{'}{name}:", values]
    return joined(*parts, "}")


def digests(records: pa.Array) -> list[str]:
    """SHA-256 of each record, in hexadecimal: stands for the event id of a tuple that has none."""
    return [hashlib.sha256(record.as_buffer()).hexdigest() for record in records]


def digest_hashes(digests: list[str]) -> NDArray[np.int64]:
    """Hash codes of tuples that have a digest instead of an event id: its first eight bytes."""
    return np.array([int.from_bytes(bytes.fromhex(digest[:16]), "big", signed=True) for digest in digests], np.int64)


def _as_text(raw: pa.Array) -> pa.Array:
    """Raw records as strings, unchecked."""
    if pa.types.is_string(raw.type) or pa.types.is_large_string(raw.type):
        return pc.cast(raw, pa.large_string())
    return pc.cast(raw, pa.large_binary()).view(pa.large_string())
