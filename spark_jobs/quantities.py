"""Sizes, durations and times as people write them: `64MB`, `1h30m`, `2026-03-01T10:00:00Z`."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

_BYTES = {
    "": 1,
    "b": 1,
    **{f"{letter}{ending}": 1024**power for power, letter in enumerate("kmgt", start=1) for ending in ("", "b", "ib")},
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.ASCII)
_DURATIONS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_PART = r"(\d+(?:\.\d+)?)\s*(ms|[dhms])\s*"
_DURATION = re.compile(rf"\s*(?:{_PART})+", re.ASCII)
_PARTS = re.compile(_PART, re.ASCII)


def parse_bytes(text: str) -> int:
    """Parse a size of memory such as `64MB`, `1.5GiB`, `512k` or `4096` (bytes).

    Units are powers of 1024, written either way: 1 MB = 1 MiB = 1,048,576 bytes, as PostgreSQL counts.

    Raises:
        ValueError: the text is no such size; the message says what is allowed.
    """
    match = _SIZE.fullmatch(text.lower())
    if match is None or match[2] not in _BYTES:
        raise ValueError(f"{text!r} is not a size. Write a number and a unit (B, KB, MB, GB, TB), for example 64MB.")
    return int(Decimal(match[1]) * _BYTES[match[2]])


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as `5s`, `0.5s`, `500ms`, `2m`, `1h30m` or `1d`.

    Units run from the largest to the smallest, each at most once.

    Raises:
        ValueError: the text is no such duration; the message says what is allowed.
    """
    refusal = f"{text!r} is not a duration. Write a number and a unit (d, h, m, s, ms), for example 5s, 500ms or 1h30m."
    if not _DURATION.fullmatch(text.lower()):
        raise ValueError(refusal)
    parts = _PARTS.findall(text.lower())
    sizes = [_DURATIONS[unit] for _, unit in parts]
    if any(later >= earlier for earlier, later in itertools.pairwise(sizes)):
        raise ValueError(refusal)
    try:
        return sum((float(number) * _DURATIONS[unit] for number, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f"{text!r} is too long: the longest duration is {timedelta.max.days} days.") from None


def parse_moment(text: str) -> datetime:
    """Parse a date and time as ISO 8601 has it; without a zone it is UTC.

    Raises:
        ValueError: the text is no moment; the message says what is allowed.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a moment. Write date and time as ISO 8601 has it, for example 2026-03-01T10:00:00Z; "
            "without a zone it is UTC."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def check_window(start: datetime | None, end: datetime | None) -> None:
    """Check that there is time between two moments with a zone; None stands for an open end.

    Raises:
        ValueError: the window is empty; the message says how it is to be.
    """
    if start is not None and end is not None and start >= end:
        raise ValueError(
            f"from {start.isoformat(sep=' ')} until {end.isoformat(sep=' ')} there is no time. "
            "Let the window begin before it ends; the end does not belong to it."
        )
