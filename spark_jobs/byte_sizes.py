"""Sizes of memory as people write them: `64MB`, `1.5 GiB`, `4096`."""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}{ending}": 1024**power for power, letter in enumerate("kmgt", start=1) for ending in ("", "b", "ib")},
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.ASCII)


def parse_bytes(text: str) -> int:
    """Parse a size of memory such as `64MB`, `1.5GiB`, `512k` or `4096` (bytes).

    Units are powers of 1024, written either way: 1 MB = 1 MiB = 1,048,576 bytes, as PostgreSQL counts.

    Raises:
        ValueError: the text is no such size; the message says what is allowed.
    """
    match = _SIZE.fullmatch(text.lower())
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{text!r} is not a size. Write a number and a unit (B, KB, MB, GB, TB), for example 64MB.")
    return int(Decimal(match[1]) * _UNITS[match[2]])


def format_bytes(size: float) -> str:
    """A size as `parse_bytes` reads it, to three digits."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.3g} TB"
