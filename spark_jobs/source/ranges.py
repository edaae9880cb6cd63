"""Ranges of a source: what the driver plans, the ledger remembers, and tasks read."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime

_ESCAPED = re.compile(rb"\\(\\|x[0-9a-f]{2})")


@dataclass(frozen=True)
class SourceRange:
    """Some consecutive records of one unit of a source; of a landed file, bytes.

    Attributes:
        unit: the file's name within the landing folder, as `unit_of` writes it.
        first: offset of its first byte, which begins a record.
        last: offset after its last byte, which ends a record.
        size: bytes of the whole file, as it was planned; None where that is not known.
        modified_ns: when the file was changed last, as it was planned, in ns since 1970: that is when it landed.
    """

    unit: str
    first: int
    last: int
    size: int | None
    modified_ns: int | None

    @property
    def bytes(self) -> int:
        """Its length."""
        return self.last - self.first

    @property
    def landed_at(self) -> datetime | None:
        """When its records arrived; a time that PostgreSQL and Python don't share is the nearest one that they do."""
        if self.modified_ns is None:
            return None
        seconds = min(max(self.modified_ns / 1e9, 0.0), _LAST_SECOND)
        return datetime.fromtimestamp(seconds, UTC)


_LAST_SECOND = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


@dataclass(frozen=True)
class RangeEnd:
    """What became of a range.

    Attributes:
        records: records that were read of it, decoded or not; None if it was given up, and not read.
        reason: why it is set aside: its file can't be read; None if it was read.
    """

    records: int | None
    reason: str | None = None


def modified_ns_of(status: os.stat_result) -> int:
    """When a file was changed last, in ns since 1970; a time beyond what 64 bits hold is the nearest that they do."""
    return min(max(status.st_mtime_ns, -_END_OF_TIME), _END_OF_TIME)


_END_OF_TIME = (1 << 63) - 1


def unit_of(name: str) -> str:
    r"""A file's name as text that PostgreSQL takes: bytes that are no UTF-8 as `\xNN`, a backslash doubled.

    Args:
        name: as the operating system gives it, with Python's surrogate escapes.
    """
    return os.fsencode(name).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def name_of(unit: str) -> str:
    """The file's name again."""

    def byte(match: re.Match[bytes]) -> bytes:
        return b"\\" if match[1] == b"\\" else bytes([int(match[1][1:], 16)])

    return os.fsdecode(_ESCAPED.sub(byte, unit.encode()))


def is_landed(name: str) -> bool:
    """Whether a file of this name has landed: names of other files say that they are hidden, or still being written."""
    hidden = name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
    return not hidden
