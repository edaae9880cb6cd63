"""Names as one would write them in SQL; for statements that error messages propose."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def sql_name(*parts: str) -> str:
    """A name of these parts, such as master."Customer"."""
    return ".".join(part if _PLAIN.fullmatch(part) else '"' + part.replace('"', '""') + '"' for part in parts)
