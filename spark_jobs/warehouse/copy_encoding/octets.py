"""bytea, json and jsonb: bytes that are sent as they are."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from spark_jobs.warehouse.copy_encoding.characters import TextEncoder, shown_text
from spark_jobs.warehouse.copy_encoding.encoder import ColumnEncoder
from spark_jobs.warehouse.copy_encoding.field import Bools, Field, VariableWidthField, byte_strings, validity

_JSONB_VERSION = b"\x01"


class ByteaEncoder(ColumnEncoder):
    """bytea, from binary."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return pa.types.is_binary(source) or pa.types.is_large_binary(source)

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder."""
        return None

    def allowed(self) -> str:
        """See ColumnEncoder."""
        return "any bytes"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        offsets, data = byte_strings(values)
        return VariableWidthField(offsets, data, validity(values))


class JsonEncoder(ColumnEncoder):
    """json and jsonb, from JSON text. Every value is parsed: about a microsecond each."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return TextEncoder.accepts(source)

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder."""
        unfit = np.array([value.is_valid and not _is_json(value) for value in values], np.bool_)
        return unfit if unfit.any() else None

    def complaint(self, value: pa.Scalar) -> str:
        """See ColumnEncoder."""
        return f"{shown_text(value)} is no JSON text, which {self.type.sql} must be"

    def allowed(self) -> str:
        """See ColumnEncoder."""
        return "JSON text"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        offsets, data = byte_strings(values)
        prefix = _JSONB_VERSION if self.type.name == "jsonb" else b""
        return VariableWidthField(offsets, data, validity(values), prefix)


def _is_json(value: pa.Scalar) -> bool:
    raw = value.as_buffer().to_pybytes()
    try:
        json.loads(raw.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is Python's, not JSON's")
