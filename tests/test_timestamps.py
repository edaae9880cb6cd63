"""Moments, and windows of time between two of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.timestamps import check_window, parse_timestamp

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-03-01T12:00:00Z", "2026-03-01 12:00", "2026-03-01T13:00:00+01:00"])
def test_a_moment_is_read_as_iso_8601_has_it_and_is_utc_without_a_zone(text: str) -> None:
    assert parse_timestamp(text) == NOON


@pytest.mark.parametrize("text", ["", "yesterday", "2026", "12:00", "2026-03-01T12:00:60Z", "2026-02-29"])
def test_anything_else_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match=f"{text!r} is not a moment. Write date and time as ISO 8601 has it"):
        parse_timestamp(text)


def test_a_window_has_time_in_it() -> None:
    for start, end in [(None, None), (NOON, None), (None, NOON), (NOON, NOON + timedelta(microseconds=1))]:
        check_window(start, end)
    for end in (NOON, NOON - timedelta(days=1)):
        with pytest.raises(ValueError, match="there is no time"):
            check_window(NOON, end)
