"""Integers, floating point numbers and booleans."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_jobs.warehouse.copy_encoding.encoder import ColumnEncoder
from spark_jobs.warehouse.copy_encoding.field import Bools, Bytes, Field, FixedWidthField, plain_values, validity

_INTEGERS: dict[str, np.dtype] = {"int2": np.dtype(">i2"), "int4": np.dtype(">i4"), "int8": np.dtype(">i8")}


class IntegerEncoder(ColumnEncoder):
    """smallint, integer and bigint, from signed integers of any width; narrowing is checked value by value."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return pa.types.is_signed_integer(source)

    @property
    def _bounds(self) -> np.iinfo:
        return np.iinfo(_INTEGERS[self.type.name])

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder."""
        if self.source.bit_width <= self._bounds.bits:
            return None
        numbers = plain_values(values, f"i{self.source.bit_width // 8}")
        outside = (numbers < self._bounds.min) | (numbers > self._bounds.max)
        if values.null_count:
            outside &= validity(values)
        return outside if outside.any() else None

    def allowed(self) -> str:
        """See ColumnEncoder."""
        return f"{self._bounds.min} to {self._bounds.max}"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        numbers, wire = plain_values(values, f"i{self.source.bit_width // 8}"), _INTEGERS[self.type.name]
        return _number_field(numbers, wire, validity(values))


class FloatEncoder(ColumnEncoder):
    """real and double precision, from everything that they hold exactly; NaN and infinity included."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder. The catalogue narrows this down for real."""
        return source in (pa.float32(), pa.float64(), pa.int8(), pa.int16(), pa.int32())

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder."""
        return None

    def allowed(self) -> str:
        """See ColumnEncoder."""
        return "any number of its type"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        wire = np.dtype(">f4" if self.type.name == "float4" else ">f8")
        kind = "f" if pa.types.is_floating(self.source) else "i"
        return _number_field(plain_values(values, f"{kind}{self.source.bit_width // 8}"), wire, validity(values))


class RealEncoder(FloatEncoder):
    """real: double precision would be rounded, so it is not accepted."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return source in (pa.float32(), pa.int8(), pa.int16())


class BooleanEncoder(ColumnEncoder):
    """boolean."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return pa.types.is_boolean(source)

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder."""
        return None

    def allowed(self) -> str:
        """See ColumnEncoder."""
        return "true and false"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        bits = values.fill_null(False).to_numpy(zero_copy_only=False)
        return _number_field(bits, np.dtype(np.uint8), validity(values))


def _number_field(numbers: np.ndarray, wire: np.dtype, valid: Bools) -> Field:
    def render(start: int, stop: int) -> Bytes:
        return numbers[start:stop].astype(wire).view(np.uint8).reshape(stop - start, wire.itemsize)

    return FixedWidthField(wire.itemsize, valid, render)
