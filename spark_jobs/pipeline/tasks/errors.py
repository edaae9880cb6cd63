"""Errors of Spark tasks as the driver sees them."""

from __future__ import annotations

import re

_LONGEST_REASON = 500
# The line of a traceback that tells the error, inside what Spark says about the task that raised it.
_ERROR_LINE = re.compile(r"^((?:\w+\.)*\w+(?:Error|Exception|Exit)|psycopg2\.errors\.\w+)\b.*$", re.MULTILINE)


def cause_of(error: BaseException) -> str:
    """What went wrong in the task, without Spark's traces around it, short enough for a reason."""
    text = str(error)
    _, traceback, trace = text.partition("Traceback (most recent call last):")
    found = _ERROR_LINE.search(trace) if traceback else None
    line = found.group(0) if found else next((line for line in text.splitlines() if line.strip()), "")
    return (line if found else f"{type(error).__name__}: {line}")[:_LONGEST_REASON].strip()
