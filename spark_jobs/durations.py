"""Durations as people write them, `5s`, `500ms`, `2m`, `1h30m`, and as they read them."""

from __future__ import annotations

import itertools
import re
from datetime import timedelta

_UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_PART = r"(\d+(?:\.\d+)?)\s*(ms|[dhms])\s*"
_DURATION = re.compile(rf"\s*(?:{_PART})+", re.ASCII)
_PARTS = re.compile(_PART, re.ASCII)


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
    sizes = [_UNITS[unit] for _, unit in parts]
    if any(later >= earlier for earlier, later in itertools.pairwise(sizes)):
        raise ValueError(refusal)
    try:
        return sum((float(number) * _UNITS[unit] for number, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f"{text!r} is too long: the longest duration is {timedelta.max.days} days.") from None


def written_duration(duration: timedelta) -> str:
    """A duration as `parse_duration` reads it: `1h30m`, `1s0.5ms`."""
    left, parts = duration, []
    for name, unit in _UNITS.items():
        count, rest = divmod(left, unit)
        number = f"{left / unit:g}" if name == "ms" else str(count)
        parts += [number + name] if number != "0" else []
        left = rest
    return "".join(parts) or "0s"


def format_duration(duration: timedelta) -> str:
    """A duration as people read it, to two or three digits: `940 ms`, `46.0 s`, `12 min`, `5.0 h`, `3.0 d`."""
    seconds = duration.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} d"
