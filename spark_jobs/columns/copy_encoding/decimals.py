"""numeric, from decimals and integers.

PostgreSQL sends a numeric as int16 words: how many base-10000 digits follow, the weight of the first one
(its power of 10000), the sign, how many decimal digits are shown behind the point, and the digits. Leading
zero digits are allowed, so all values of a chunk get as many digits as its widest value needs.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import plain_values
from spark_jobs.columns.copy_encoding.column_encoder import (
    Bools,
    Bytes,
    ColumnEncoder,
    Field,
    FixedWidthField,
    Integer,
    non_null,
    validity,
)
from spark_jobs.columns.jit import kernel

Words = NDArray[np.int64]

_HEADER_BYTES = 8
_GROUP = 4  # decimal digits in a digit to base 10000
_INT64_DIGITS = 18  # decimals of up to this many digits fit an int64
_WIDEST_INTEGER = 19  # digits of 2**63


class NumericEncoder(ColumnEncoder):
    """numeric and numeric(p,s). Digits behind the point that the column has no room for are not rounded off."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return pa.types.is_decimal128(source) or pa.types.is_signed_integer(source)

    @property
    def _source_digits(self) -> tuple[int, int]:
        """Digits before and behind the point that the source may have."""
        if pa.types.is_decimal128(self.source):
            return self.source.precision - self.source.scale, self.source.scale
        return _WIDEST_INTEGER, 0

    @property
    def _allowed_digits(self) -> tuple[int, int] | None:
        """Digits before and behind the point that the column takes; None without limit."""
        if self.type.precision is None or self.type.scale is None:
            return None
        return self.type.precision - self.type.scale, self.type.scale

    @property
    def _is_small(self) -> bool:
        return not pa.types.is_decimal128(self.source) or self.source.precision <= _INT64_DIGITS

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder. Free where the column is at least as wide as the source."""
        if self._allowed_digits is None:
            return None
        whole, behind = self._allowed_digits
        if self._source_digits[0] <= whole and self._source_digits[1] <= behind:
            return None
        unfit = self._unfit_small(values) if self._is_small else self._unfit_large(values)
        return None if unfit is None else non_null(unfit, values)

    def _unfit_small(self, values: pa.Array) -> Bools:
        assert self._allowed_digits is not None
        whole, behind = self._allowed_digits
        scale = self._source_digits[1]
        numbers = _small_integers(values)
        unfit = np.zeros(len(values), np.bool_)
        if whole + scale <= _INT64_DIGITS:
            bound = 10 ** (whole + scale)
            unfit |= (numbers >= bound) | (numbers <= -bound)
        if scale > behind:
            unfit |= numbers % 10 ** (scale - behind) != 0
        return unfit

    def _unfit_large(self, values: pa.Array) -> Bools | None:
        assert self._allowed_digits is not None
        whole, behind = self._allowed_digits
        if 0 < whole + behind <= 38:
            try:
                values.cast(pa.decimal128(whole + behind, behind))
            except pa.ArrowInvalid:
                pass  # at least one does not fit: look at each
            else:
                return None
        bound = Decimal(10) ** whole
        return np.array(
            [
                value is not None and (value.copy_abs() >= bound or _places(value) > behind)
                for value in values.to_pylist()
            ],
            np.bool_,
        )

    def allowed(self) -> str:
        """See ColumnEncoder."""
        assert self._allowed_digits is not None
        whole, behind = self._allowed_digits
        return f"{whole} digits before the point and {behind} behind it"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        whole, scale = self._source_digits
        if self._is_small:
            low, high = _small_integers(values), np.empty(0, np.int64)
            if low.size:
                widest = max(int(low.max()), -int(low.min())) // 10**scale
                whole = min(whole, len(str(widest)))
        else:
            words = _decimal_words(values)
            low, high = words[:, 0], words[:, 1]
        groups, behind = -(-whole // _GROUP), -(-scale // _GROUP)
        width = _HEADER_BYTES + 2 * (groups + behind)

        def render(start: int, stop: int) -> Bytes:
            out = np.empty((stop - start, width), np.uint8)
            if self._is_small:
                _render_small(low[start:stop], scale, groups, behind, out)
            else:
                _render_large(low[start:stop], high[start:stop], scale, groups, behind, out)
            return out

        return FixedWidthField(width, validity(values), render)


def _decimal_words(values: pa.Array) -> Words:
    """Decimals as pairs of 64-bit words, low word first, shape (n, 2). No copy."""
    data = values.buffers()[1]
    if data is None:
        return np.zeros((len(values), 2), np.int64)
    return np.frombuffer(data, np.int64).reshape(-1, 2)[values.offset : values.offset + len(values)]


def _small_integers(values: pa.Array) -> Words:
    """Integers, or the digits of decimals that fit an int64, shape (n,)."""
    if pa.types.is_decimal128(values.type):
        return np.ascontiguousarray(_decimal_words(values)[:, 0])
    return plain_values(values, f"i{values.type.bit_width // 8}").astype(np.int64, copy=False)


def _places(value: Decimal) -> int:
    """Digits behind the point that a decimal needs. (Decimal.normalize would round to 28 digits.)"""
    behind = format(value, "f").partition(".")[2]
    return len(behind.rstrip("0"))


@kernel
def _put_word(out: Bytes, row: int, column: int, word: Integer) -> None:
    out[row, column] = np.uint8((word >> 8) & 0xFF)
    out[row, column + 1] = np.uint8(word & 0xFF)


@kernel
def _render_small(numbers: Words, scale: int, groups: int, behind: int, out: Bytes) -> None:
    """Digits of int64 numbers * 10**-scale: `groups` base-10000 digits before the point, `behind` behind it."""
    point = np.uint64(1)
    for _ in range(scale):
        point *= np.uint64(10)
    loose = scale % 4  # decimal digits in the last group
    cut = np.uint64(1)
    for _ in range(loose):
        cut *= np.uint64(10)
    shift = np.uint64(10000) // cut
    base = np.uint64(10000)
    for i in range(len(numbers)):
        number = numbers[i]
        negative = number < 0
        magnitude = np.uint64(-(number + 1)) + np.uint64(1) if negative else np.uint64(number)
        _put_word(out, i, 0, groups + behind)
        _put_word(out, i, 2, groups - 1)
        _put_word(out, i, 4, 0x4000 if negative else 0)
        _put_word(out, i, 6, scale)
        whole = magnitude // point
        part = magnitude - whole * point
        column = 8 + 2 * (groups + behind)
        left = behind
        if loose:
            column -= 2
            left -= 1
            rest = part // cut
            _put_word(out, i, column, np.int64((part - rest * cut) * shift))
            part = rest
        for _ in range(left):
            column -= 2
            rest = part // base
            _put_word(out, i, column, np.int64(part - rest * base))
            part = rest
        for _ in range(groups):
            column -= 2
            rest = whole // base
            _put_word(out, i, column, np.int64(whole - rest * base))
            whole = rest


@kernel
def _divide(limbs: NDArray[np.uint64], divisor: np.uint64) -> np.int64:
    """Divide a 128-bit number, as four 32-bit limbs from the highest, by a small one in place; the remainder."""
    remainder = np.uint64(0)
    for k in range(4):
        dividend = (remainder << np.uint64(32)) | limbs[k]
        limbs[k] = dividend // divisor
        remainder = dividend - limbs[k] * divisor
    return np.int64(remainder)


@kernel
def _render_large(low: Words, high: Words, scale: int, groups: int, behind: int, out: Bytes) -> None:
    """As `_render_small`, for 128-bit numbers high * 2**64 + low."""
    loose = scale % 4
    cut = np.uint64(1)
    for _ in range(loose):
        cut *= np.uint64(10)
    limbs = np.empty(4, np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    for i in range(len(low)):
        bottom, top = np.uint64(low[i]), np.uint64(high[i])
        negative = high[i] < 0
        if negative:
            bottom = ~bottom + np.uint64(1)
            top = ~top + (np.uint64(1) if bottom == 0 else np.uint64(0))
        limbs[0], limbs[1] = top >> np.uint64(32), top & mask
        limbs[2], limbs[3] = bottom >> np.uint64(32), bottom & mask
        _put_word(out, i, 0, groups + behind)
        _put_word(out, i, 2, groups - 1)
        _put_word(out, i, 4, 0x4000 if negative else 0)
        _put_word(out, i, 6, scale)
        column = 8 + 2 * (groups + behind)
        left = groups + behind
        if loose:
            column -= 2
            left -= 1
            _put_word(out, i, column, _divide(limbs, cut) * np.int64(np.uint64(10000) // cut))
        for _ in range(left):
            column -= 2
            _put_word(out, i, column, _divide(limbs, np.uint64(10000)))
