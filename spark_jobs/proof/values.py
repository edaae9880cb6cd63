"""Reads the values of landed events as Spark's readers do, without Spark.

Dates become days and timestamps microseconds since 1970-01-01 UTC: Python's own know the years 1 to 9999
only. A value that does not fit its type raises `UnreadableValueError`.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from spark_jobs.definition.ddl import MAX_DECIMAL_PRECISION, StreamType

DAY_SECONDS = 86_400
SECOND = 1_000_000  # microseconds

# Spark trims more than spaces; what it trims is what Java's Character.isWhitespace and control characters are.
_BLANK = "".join(map(chr, range(33))) + "\x7f"

_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(.*))?)?)?)?)?",
    re.ASCII | re.DOTALL,
)
# Nearly all of them are written in this way, which Python reads faster.
_PLAIN_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?Z?", re.ASCII)
_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?:(?::?(\d{2})(?::?(\d{2}))?)|:(\d))?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_WIDE = Context(prec=4 * MAX_DECIMAL_PRECISION, rounding=ROUND_HALF_UP)
_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MICROSECONDS_END = 2**63  # a timestamp is a 64-bit number

# Java's short names of zones that the zone database does not have, or not as Java means them.
_SHORT_ZONES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip


class UnreadableValueError(ValueError):
    """A value does not fit the type of its column."""


def integer(text: str, bits: int) -> int:
    """A whole number of so many bits; the caller has checked that these are digits."""
    if len(text.lstrip("+-0")) > 20:  # too long to be worth reading
        raise UnreadableValueError(text)
    number = int(text)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise UnreadableValueError(text)
    return number


def decimal(text: str, kind: StreamType) -> Decimal:
    """A decimal number, rounded half up to the scale of its column; it must fit the precision."""
    if not _DECIMAL.fullmatch(text):
        text = text.replace(",", "")
        if not _DECIMAL.fullmatch(text):
            raise UnreadableValueError(text)
    unit, end = _decimal_range(kind)
    try:
        rounded = Decimal(text).quantize(unit, context=_WIDE)
    except InvalidOperation:  # far too large
        raise UnreadableValueError(text) from None
    if abs(rounded) >= end:
        raise UnreadableValueError(text)
    return rounded


@lru_cache
def _decimal_range(kind: StreamType) -> tuple[Decimal, Decimal]:
    """The unit of the last digit, and the first number that is too large."""
    return Decimal(1).scaleb(-kind.scale), Decimal(1).scaleb(kind.precision - kind.scale)


@lru_cache(maxsize=4096)
def date(text: str) -> int:
    """A date as days since 1970-01-01: year, year-month or year-month-day; a time after it is ignored."""
    match = _fullmatch(_DATE, text)
    if match is None:
        raise UnreadableValueError(text)
    return _days(int(match[1]), int(match[2] or 1), int(match[3] or 1))


def timestamp(text: str) -> int:
    """A timestamp as microseconds since 1970-01-01 UTC; UTC where it names no zone.

    A time without a date, which Spark takes for one of the day of reading, counts as unreadable.
    """
    if _PLAIN_TIMESTAMP.fullmatch(text):
        try:
            return (datetime.fromisoformat(text.removesuffix("Z")) - _EPOCH) // _MICROSECOND
        except ValueError:
            pass
    match = _fullmatch(_TIMESTAMP, text)
    if match is None:
        raise UnreadableValueError(text)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise UnreadableValueError(text)
    local = _days(int(year), int(month or 1), int(day or 1)) * DAY_SECONDS + hours * 3600 + minutes * 60 + seconds
    microseconds = int((fraction or "")[:6].ljust(6, "0"))
    instant = (local - _zone_offset((zone or "").strip(_BLANK), local)) * SECOND + microseconds
    if not -_MICROSECONDS_END <= instant < _MICROSECONDS_END:
        raise UnreadableValueError(text)
    return instant


def timestamp_of_seconds(seconds: int) -> int:
    """A timestamp given as seconds since 1970-01-01 UTC. Where 64 bits are too few it wraps around, as in Spark."""
    return (seconds * SECOND + _MICROSECONDS_END) % (2 * _MICROSECONDS_END) - _MICROSECONDS_END


def _fullmatch(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    text = text.strip(_BLANK)
    # What does not match is tried again as 2000-01-01T00:00GMT+01:00 used to be written.
    return pattern.fullmatch(text) or pattern.fullmatch(text.replace("GMT", "", 1))


@lru_cache(maxsize=4096)
def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a day of the proleptic Gregorian calendar."""
    if not (1 <= month <= 12 and 1 <= day <= _month_length(year, month)):
        raise UnreadableValueError(f"{year}-{month}-{day}")
    # Counted from March, so that the leap day comes last: eras of 400 years have 146,097 days.
    shifted = year - (month <= 2)
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _month_length(year: int, month: int) -> int:
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _MONTH_LENGTHS[month - 1] + leap


def _zone_offset(zone: str, local_seconds: int) -> int:
    """Seconds east of UTC."""
    if zone in {"", "Z", "UTC", "GMT", "UT"}:
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is not None:
        hours, minutes, seconds = int(match[2]), int(match[3] or match[5] or 0), int(match[4] or 0)
        if minutes > 59 or seconds > 59 or hours * 3600 + minutes * 60 + seconds > 18 * 3600:
            raise UnreadableValueError(zone)
        return (-1 if match[1] == "-" else 1) * (hours * 3600 + minutes * 60 + seconds)
    return _region_offset(zone, local_seconds)


def _region_offset(zone: str, local_seconds: int) -> int:
    try:
        region = ZoneInfo(_SHORT_ZONES.get(zone, zone))
        offset = (datetime(1970, 1, 1) + timedelta(seconds=local_seconds)).replace(tzinfo=region).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OverflowError, OSError) as error:
        raise UnreadableValueError(zone) from error
    assert offset is not None
    return int(offset.total_seconds())
