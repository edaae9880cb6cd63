"""Dates and timestamps. PostgreSQL counts from 2000, arrow from 1970."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_jobs.warehouse.copy_encoding.encoder import ColumnEncoder
from spark_jobs.warehouse.copy_encoding.field import Bools, Bytes, Field, FixedWidthField, plain_values, validity

_EPOCH_DAYS = 10_957
_EPOCH_MICROSECONDS = _EPOCH_DAYS * 86_400_000_000

# IS_VALID_DATE and IS_VALID_TIMESTAMP of PostgreSQL (4713 BC to 5874897 and 294276), counted from 1970.
_FIRST_DAY, _LAST_DAY = -2_451_545 + _EPOCH_DAYS, 2_145_031_948 + _EPOCH_DAYS
_FIRST_MICROSECOND = -211_813_488_000_000_000 + _EPOCH_MICROSECONDS


class DateEncoder(ColumnEncoder):
    """date, from date32."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return pa.types.is_date32(source)

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder."""
        days = plain_values(values, "i4")
        return _non_null((days < _FIRST_DAY) | (days > _LAST_DAY), values)

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
        outside = times < _FIRST_MICROSECOND
        if self._tick > 1:
            outside |= times % self._tick != 0
        return _non_null(outside, values)

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
        return f"4713 BC to 294276{fraction}"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        times = plain_values(values, "i8")

        def render(start: int, stop: int) -> Bytes:
            return (times[start:stop] - _EPOCH_MICROSECONDS).astype(">i8").view(np.uint8).reshape(stop - start, 8)

        return FixedWidthField(8, validity(values), render)


def _non_null(outside: Bools, values: pa.Array) -> Bools | None:
    if not outside.any():
        return None
    if values.null_count:
        outside &= validity(values)
    return outside if outside.any() else None
