"""Moments as people and forms write them, and the windows of time between two of them."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_timestamp(text: str) -> datetime:
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
