"""JSON texts of arrow columns, built column by column instead of tuple by tuple."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.columns.arrow_buffers import binary_parts, plain_values
from spark_jobs.columns.copy_encoding.column_encoder import Bytes, Integer, Offsets
from spark_jobs.columns.jit import kernel

_ASCII_TEXT = np.zeros(256, np.bool_)
_ASCII_TEXT[0x20:0x7F] = True
_ASCII_TEXT[[ord('"'), ord("\\")]] = False
# Bytes that stand for themselves in a JSON string; those of longer UTF-8 characters do.
_UNESCAPED = _ASCII_TEXT.copy()
_UNESCAPED[0x7F:] = True


def joined(*parts: str | pa.Array) -> pa.Array:
    """Texts put together part by part, large_string, shape (n,); null where a part is null."""
    wide = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else _wide(part) for part in parts]
    return pc.binary_join_element_wise(*wide, pa.scalar("", pa.large_string()))


def json_values(values: pa.Array) -> pa.Array:
    """Each value as JSON text; nulls stay null.

    Numbers are plain, without exponent where they are decimals; NaN and infinities are the strings that Spark
    reads; dates and timestamps are ISO 8601 strings, in UTC; binary is base64. Invalid UTF-8 stays what it is.

    Args:
        values: plain array of a type that a stream column can have, shape (n,).
    """
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(escaped(values))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _quoted(_each(values, lambda value: base64.b64encode(value).decode()))
    if pa.types.is_date(kind):
        return _quoted(_date_texts(values))
    if pa.types.is_timestamp(kind):
        return _quoted(_timestamp_texts(values))
    if pa.types.is_decimal(kind):
        return decimal_texts(values)
    texts = pc.cast(values, pa.string())
    return _float_words(values, texts) if pa.types.is_floating(kind) else texts


def ascii_json_strings(values: pa.Array) -> pa.Array:
    r"""Each string as `json.dumps` writes it, ASCII only; nulls stay null.

    A byte that is not UTF-8 becomes the lone surrogate that Python's surrogateescape makes of it, as in "\udcff":
    different byte strings stay different.
    """
    offsets, data = binary_parts(values)
    if _ASCII_TEXT[data[offsets[0] : offsets[-1]]].all():
        return _quoted(values)
    texts = [_ascii_json(text.as_buffer().to_pybytes()) if text.is_valid else None for text in values]
    return pa.array(texts, pa.large_string())


def _date_texts(values: pa.Array) -> pa.Array:
    """Dates as 2024-12-31; years of more or less than four digits are written out."""
    return _readable(pc.cast(values, pa.string()), values, "i4", "datetime64[D]")


def _timestamp_texts(values: pa.Array) -> pa.Array:
    """Timestamps of microseconds as 2024-12-31T23:59:59.123456Z."""
    local = pc.cast(pc.cast(values, pa.int64()), pa.timestamp("us"))  # arrow formats these many times faster
    texts = _readable(pc.cast(local, pa.string()), values, "i8", "datetime64[us]")
    return joined(pc.replace_substring(texts, " ", "T"), "Z")


def decimal_texts(values: pa.Array) -> pa.Array:
    """Decimals with all digits of their scale, never with an exponent."""
    texts = pc.cast(values, pa.string())
    exponential = pc.fill_null(pc.match_substring(texts, "E"), False)
    if not pc.any(exponential).as_py():
        return texts
    return pc.replace_with_mask(texts, exponential, _each(values.filter(exponential), lambda value: format(value, "f")))


def escaped(values: pa.Array) -> pa.Array:
    """Strings with all that JSON needs escaped, without the quotation marks."""
    offsets, data = binary_parts(values)
    if _UNESCAPED[data[offsets[0] : offsets[-1]]].all():
        return values
    lengths = np.zeros(len(values) + 1, np.int64)
    _escaped_lengths(offsets, data, _UNESCAPED, lengths[1:])
    ends = np.cumsum(lengths)
    out = np.empty(ends[-1], np.uint8)
    _escape(offsets, data, _UNESCAPED, out)
    texts = pa.Array.from_buffers(pa.large_string(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(out)])
    return pc.if_else(values.is_valid(), texts, None) if values.null_count else texts


def _quoted(texts: pa.Array) -> pa.Array:
    return joined('"', texts, '"')


def _wide(texts: pa.Array) -> pa.Array:
    return texts if pa.types.is_large_string(texts.type) else pc.cast(texts, pa.large_string())


def _each(values: pa.Array, convert: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else convert(value) for value in values.to_pylist()], pa.string())


def _ascii_json(raw: bytes) -> str:
    return json.dumps(raw.decode("utf-8", "surrogateescape"))


def _float_words(values: pa.Array, texts: pa.Array) -> pa.Array:
    for special, word in (
        (pc.equal(texts, "-0"), "-0.0"),  # Spark would read an integer, which has no negative zero
        (pc.is_nan(values), '"NaN"'),
        (pc.equal(values, float("inf")), '"Infinity"'),
        (pc.equal(values, float("-inf")), '"-Infinity"'),
    ):
        texts = pc.if_else(special, word, texts)
    return texts


def _readable(texts: pa.Array, values: pa.Array, dtype: str, numpy_type: str) -> pa.Array:
    """Replace what arrow can't format (years beyond 32767) by numpy's text of it."""
    beyond = pc.fill_null(pc.starts_with(texts, "<"), False)
    if not pc.any(beyond).as_py():
        return texts
    numbers = plain_values(values, dtype)[beyond.to_numpy(zero_copy_only=False)]
    return pc.replace_with_mask(texts, beyond, pa.array(numbers.astype(numpy_type).astype(str).tolist(), pa.string()))


@kernel
def _escaped_lengths(offsets: Offsets, data: Bytes, unescaped: Any, lengths: Any) -> None:
    for i in range(len(lengths)):
        length = 0
        for k in range(offsets[i], offsets[i + 1]):
            byte = data[k]
            length += 1 if unescaped[byte] else (2 if byte in (34, 92) else 6)
        lengths[i] = length


@kernel
def _hexadecimal(digit: Integer) -> Integer:
    return 48 + digit if digit < 10 else 87 + digit


@kernel
def _escape(offsets: Offsets, data: Bytes, unescaped: Any, out: Bytes) -> None:
    position = 0
    for k in range(offsets[0], offsets[-1]):
        byte = data[k]
        if unescaped[byte]:
            out[position] = byte
            position += 1
            continue
        out[position] = 92
        if byte in (34, 92):
            out[position + 1] = byte
            position += 2
            continue
        out[position + 1], out[position + 2], out[position + 3] = 117, 48, 48
        out[position + 4] = _hexadecimal(byte >> 4)
        out[position + 5] = _hexadecimal(byte & 15)
        position += 6


def json_objects(columns: Mapping[str, pa.Array]) -> pa.Array:
    """Values of the same rows as JSON objects, large_string, shape (n,); nulls are written as null.

    Strings that are not valid UTF-8 make texts that are not either.

    Args:
        columns: arrays that `json_values` takes, shape (n,), by name; at least one.
    """
    names = ascii_json_strings(pa.array(list(columns), pa.string())).to_pylist()
    parts: list[str | pa.Array] = []
    for name, values in zip(names, columns.values(), strict=True):
        parts += [f"{',' if parts else '{'}{name}:", pc.fill_null(json_values(values), "null")]
    return joined(*parts, "}")
