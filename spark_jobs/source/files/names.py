"""What a landed file's name and status say, and how the ledger writes its name."""

from __future__ import annotations

import os
import re

_ESCAPED = re.compile(rb"\\(\\|x[0-9a-f]{2})")
_END_OF_TIME = (1 << 63) - 1


def modified_ns_of(status: os.stat_result) -> int:
    """When a file was changed last, in ns since 1970; a time beyond what 64 bits hold is the nearest that they do."""
    return min(max(status.st_mtime_ns, -_END_OF_TIME), _END_OF_TIME)


def unit_of(name: str) -> str:
    r"""A file's name as text that PostgreSQL takes: bytes that are no UTF-8 as `\xNN`, a backslash doubled.

    Args:
        name: as the operating system gives it, with Python's surrogate escapes.
    """
    if _is_plain(name):
        return name
    return os.fsencode(name).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def name_of(unit: str) -> str:
    """The file's name again."""
    if _is_plain(unit):
        return unit

    def byte(match: re.Match[bytes]) -> bytes:
        return b"\\" if match[1] == b"\\" else bytes([int(match[1][1:], 16)])

    return os.fsdecode(_ESCAPED.sub(byte, unit.encode()))


def _is_plain(name: str) -> bool:
    """Whether a name is written as it is; nearly all are, and there may be millions."""
    return name.isascii() and "\\" not in name


def is_landed(name: str) -> bool:
    """Whether a file of this name has landed: names of other files say that they are hidden, or still being written."""
    hidden = name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
    return not hidden


def compression_of(path: str) -> str | None:
    """How a file of lines is compressed, by the end of its name; None if it is not."""
    return next((name for end, name in ((".gz", "gzip"), (".zst", "zstd")) if path.lower().endswith(end)), None)
