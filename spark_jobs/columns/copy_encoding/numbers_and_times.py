"""Integers, floating point numbers, booleans, dates and timestamps. PostgreSQL counts from 2000, arrow from 1970."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.columns.arrow_buffers import plain_values
from spark_jobs.columns.copy_encoding.column_encoder import (
    Bools,
    Bytes,
    ColumnEncoder,
    Field,
    FixedWidthField,
    PostgresType,
    non_null,
    validity,
)

_INTEGERS: dict[str, np.dtype] = {"int2": np.dtype(">i2"), "int4": np.dtype(">i4"), "int8": np.dtype(">i8")}
_EPOCH_DAYS = 10_957
_EPOCH_MICROSECONDS = _EPOCH_DAYS * 86_400_000_000
# IS_VALID_DATE and IS_VALID_TIMESTAMP of PostgreSQL (4713 BC to 5874897 and 294276), counted from 1970.
_FIRST_DAY, _LAST_DAY = -2_451_545 + _EPOCH_DAYS, 2_145_031_948 + _EPOCH_DAYS
_FIRST_MICROSECOND = -211_813_488_000_000_000 + _EPOCH_MICROSECONDS
TIMESTAMPTZ = PostgresType("timestamptz", "timestamp with time zone", fraction=6)
_MICROSECONDS = pa.timestamp("us", tz="UTC")


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
        return non_null(outside, values)

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


class DateEncoder(ColumnEncoder):
    """date, from date32."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return pa.types.is_date32(source)

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder."""
        days = plain_values(values, "i4")
        return non_null((days < _FIRST_DAY) | (days > _LAST_DAY), values)

    def complaint(self, value: pa.Scalar) -> str:
        """See ColumnEncoder."""
        return f"{np.datetime64(value.value, 'D')} does not fit {self.type.sql}, which takes {self.allowed()}"

    def allowed(self) -> str:
        """See ColumnEncoder."""
        return "4713 BC to 5874897"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        days = plain_values(values, "i4")

        def render(start: int, stop: int) -> Bytes:
            return (days[start:stop] - _EPOCH_DAYS).astype(">i4").view(np.uint8).reshape(stop - start, 4)

        return FixedWidthField(4, validity(values), render)


class TimestampEncoder(ColumnEncoder):
    """timestamp and timestamptz, from timestamps in microseconds. Without a zone, UTC is meant on either side."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return pa.types.is_timestamp(source) and source.unit == "us"

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder."""
        times = plain_values(values, "i8")
        # The last one stands for infinity, and for what a relation may hold that lies beyond it.
        outside = (times < _FIRST_MICROSECOND) | (times == np.iinfo(np.int64).max)
        if self._tick > 1:
            outside |= times % self._tick != 0
        return non_null(outside, values)

    @property
    def _tick(self) -> int:
        """Microseconds that the column can tell apart."""
        return int(10 ** (6 - (6 if self.type.fraction is None else self.type.fraction)))

    def complaint(self, value: pa.Scalar) -> str:
        """See ColumnEncoder."""
        return f"{np.datetime64(value.value, 'us')} does not fit {self.type.sql}, which takes {self.allowed()}"

    def allowed(self) -> str:
        """See ColumnEncoder."""
        fraction = f", {self.type.fraction} digits of a second" if self._tick > 1 else ""
        return f"4713 BC to 294246{fraction}"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        times = plain_values(values, "i8")

        def render(start: int, stop: int) -> Bytes:
            return (times[start:stop] - _EPOCH_MICROSECONDS).astype(">i8").view(np.uint8).reshape(stop - start, 8)

        return FixedWidthField(8, validity(values), render)


def utc_times(values: pa.Array) -> pa.Array:
    """Times as UTC timestamps in microseconds; null where there is none that PostgreSQL could keep.

    A date is taken as its midnight, a time without a zone as UTC.
    """
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("s"))
    if not pa.types.is_timestamp(values.type):
        return pa.nulls(len(values), _MICROSECONDS)
    if values.type.unit != "us":
        values = values.cast(pa.timestamp("us", tz=values.type.tz), safe=False)
    times = values.cast(pa.int64()).cast(_MICROSECONDS)
    unfit = TimestampEncoder(TIMESTAMPTZ, _MICROSECONDS).unfit(times)
    return times if unfit is None else pc.if_else(pa.array(unfit), None, times)
