"""Texts to values, whole columns at a time: what a value of each type may look like in text.

Every format comes here with what it writes as text, be it a block of records or a single one: what is a value of a
column is decided in one place. The contract is in this room's README.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.definition.ddl import StreamType

Bools = NDArray[np.bool_]

# The years 1 to 9999, in days and in microseconds since 1970.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
FIRST_MICROSECOND, LAST_MICROSECOND = FIRST_DAY * 86_400_000_000, (LAST_DAY + 1) * 86_400_000_000 - 1

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_WHOLE = r"-?[0-9]+"
_PATTERNS = {
    "bigint": _WHOLE, "int": _WHOLE, "smallint": _WHOLE, "tinyint": _WHOLE,
    "float": rf"{_NUMBER}|NaN|-?Infinity", "double": rf"{_NUMBER}|NaN|-?Infinity", "decimal": _NUMBER,
    "boolean": "true|false",
    "date": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "timestamp": (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6}0*)?"
        "(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
    ),
    "binary": "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
}  # fmt: skip
_ZONE = "(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"
# Values that tell how others are probably written.
_SAMPLE = 100
# What arrow counts digits in holds no more than these; longer texts are read digit by digit.
DECIMAL_CHARACTERS = 38
# Arrow looks up the power of ten of an exponent without looking whether it has one: far enough below zero that ends the
# process, or gives a wrong number. It is shown exponents of one digit alone, behind few enough others.
_ARROWS_DECIMAL = rf"^(?:[^eE]*|[^eE]{{1,{DECIMAL_CHARACTERS - 9}}}[eE][+-]?[0-9])$"
# Arrow's numbers of 128 bits overflow beyond 1.7e38, and it does not notice all of that. What overflows is beyond its
# type by as much; so that doubles, which are near enough, tell.
_ARROWS_MOST, _SURELY_BEYOND = 38, 1.5


class Converted(NamedTuple):
    """Values of a column.

    Attributes:
        values: shape (n,), of the column's type; null where the text was null or is at fault.
        faults: bool, shape (n,), whether the text is no value of the type; None if all are sound.
    """

    values: pa.Array
    faults: Bools | None


def from_texts(texts: pa.Array, kind: StreamType) -> Converted:
    """The values that texts stand for. O(n); O(n log n) where values are at fault.

    Args:
        texts: string array of valid UTF-8, shape (n,); null stays null.
        kind: type of the column.
    """
    if kind.name == "string":
        return Converted(texts, None)
    alike = pc.fill_null(pc.match_substring_regex(texts, f"^(?:{_PATTERNS[kind.name]})$"), True)
    if pc.all(alike).as_py() is False:
        read = _read(pc.if_else(alike, texts, None), kind)
        unlike = ~alike.to_numpy(zero_copy_only=False)
        return Converted(read.values, unlike if read.faults is None else unlike | read.faults)
    return _read(texts, kind)


def convert_or_fault(values: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> Converted:
    """Convert values of which some can't be: those become null.

    Args:
        values: shape (n,).
        convert: converts an array value by value, and raises ArrowInvalid if one can't be converted.
    """
    try:
        return Converted(convert(values), None)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return Converted(convert(pa.nulls(1, values.type)), np.ones(1, np.bool_))
    half = len(values) // 2
    parts = [convert_or_fault(part, convert) for part in (values.slice(0, half), values.slice(half))]
    faults = [np.zeros(len(part.values), np.bool_) if part.faults is None else part.faults for part in parts]
    return Converted(pa.concat_arrays([part.values for part in parts]), np.concatenate(faults))


def within(converted: Converted, kind: StreamType) -> Converted:
    """The same, with dates and timestamps outside the years 1 to 9999 at fault. O(n)."""
    values, faults = converted
    if kind.name not in {"date", "timestamp"}:
        return converted
    first, last, plain = (
        (FIRST_DAY, LAST_DAY, pa.int32()) if kind.name == "date" else (FIRST_MICROSECOND, LAST_MICROSECOND, pa.int64())
    )
    numbers = values.view(plain)
    lowest, highest = pc.min_max(numbers).as_py().values()
    if lowest is None or (lowest >= first and highest <= last):
        return converted
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    outside = ~pc.fill_null(inside, True).to_numpy(zero_copy_only=False)
    return Converted(pc.if_else(inside, values, None), outside if faults is None else outside | faults)


def _read(texts: pa.Array, kind: StreamType) -> Converted:
    """The values of texts that have the right characters in the right places."""
    if kind.name == "decimal":
        return _decimals(texts, kind)
    if kind.name == "timestamp":
        return within(convert_or_fault(texts, _timestamps), kind)
    if kind.name == "binary":
        return convert_or_fault(texts, _binaries)
    converted = convert_or_fault(texts, lambda some: pc.cast(some, kind.arrow()))
    return _finite(converted, texts) if kind.name in {"float", "double"} else within(converted, kind)


def _finite(converted: Converted, texts: pa.Array) -> Converted:
    """The same, with numbers at fault that are too large for the type, which arrow takes for infinite."""
    values, faults = converted
    infinite = pc.is_inf(values)
    if not pc.any(infinite).as_py():
        return converted
    overflown = pc.fill_null(pc.and_not(infinite, pc.match_substring(texts, "Infinity")), False)
    too_large = overflown.to_numpy(zero_copy_only=False)
    return Converted(pc.if_else(overflown, None, values), too_large if faults is None else too_large | faults)


def _timestamps(texts: pa.Array) -> pa.Array:
    zoned, zoneless = pa.timestamp("us", "UTC"), pa.timestamp("us")
    # Most columns are written in one way. An attempt that fails costs twenty times one that does not.
    first = pc.drop_null(texts.slice(0, _SAMPLE))[:1]
    one_way = zoned if pc.any(pc.match_substring_regex(first, _ZONE)).as_py() else zoneless
    try:
        return pc.cast(texts, one_way).view(zoned)
    except pa.ArrowInvalid:
        pass
    short = pc.replace_substring_regex(texts, r"(\.[0-9]{6})0+", r"\1")
    has_zone = pc.match_substring_regex(short, _ZONE)
    with_zone = pc.cast(pc.if_else(has_zone, short, None), zoned)
    return pc.coalesce(with_zone, pc.cast(pc.if_else(has_zone, None, short), zoneless).view(zoned))


def _binaries(texts: pa.Array) -> pa.Array:
    try:
        values = [None if text is None else binascii.a2b_base64(text, strict_mode=True) for text in texts.to_pylist()]
    except binascii.Error as error:
        raise pa.ArrowInvalid(str(error)) from None
    return pa.array(values, pa.binary())


def may_overflow(kind: StreamType) -> bool:
    """Whether arrow may take a number that is too large for a type of decimals for another one."""
    return kind.name == "decimal" and kind.precision + kind.scale > _ARROWS_MOST


def _decimals(texts: pa.Array, kind: StreamType) -> Converted:
    arrow = kind.arrow()
    short = (pc.max(pc.binary_length(texts)).as_py() or 0) <= DECIMAL_CHARACTERS
    if short and pc.all(pc.match_substring_regex(texts, _ARROWS_DECIMAL)).as_py() is not False:
        try:
            values = pc.cast(texts, arrow)
            if not may_overflow(kind) or not _has_overflown(texts, kind):
                return Converted(values, None)
        except pa.ArrowInvalid:
            pass
    values = [None if text is None else _exact(text, kind) for text in texts.to_pylist()]
    faults = np.array([value is _INEXACT for value in values], np.bool_)
    found = pa.array([None if value is _INEXACT else value for value in values], arrow)
    return Converted(found, faults if faults.any() else None)


def _has_overflown(texts: pa.Array, kind: StreamType) -> bool:
    largest = pc.max(pc.abs(pc.cast(texts, pa.float64()))).as_py() or 0.0
    return bool(largest > _SURELY_BEYOND * 10.0 ** (kind.precision - kind.scale))


_INEXACT = Decimal("NaN")


def _exact(text: str, kind: StreamType) -> Decimal:
    """The number, if the type holds exactly this one, else `_INEXACT`."""
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent beyond all numbers
        return _INEXACT
    if not number:
        return Decimal((0, (0,), -kind.scale))
    written = "".join(map(str, number.as_tuple().digits))
    digits = written.rstrip("0")
    exponent = number.adjusted() - len(digits) + 1
    if exponent < -kind.scale or number.adjusted() >= kind.precision - kind.scale:
        return _INEXACT
    padded = digits + "0" * (exponent + kind.scale)
    return Decimal((int(number.is_signed()), tuple(map(int, padded)), -kind.scale))
