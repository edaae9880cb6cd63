from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.durations import format_duration, parse_duration, written_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("0.5s", 0.5), ("500ms", 0.5), ("2m", 120), ("1h30m", 5400), ("1d 2H", 93_600), (" 120s ", 120)],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "5s2m", "5s5s", "1h30", "5 weeks", "\u0665s", "1" * 40 + "d"])
def test_anything_else_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration|is too long"):
        parse_duration(text)


@given(st.integers(0, 999), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_parts_add_up(days: int, hours: int, minutes: int, seconds: int, milliseconds: int) -> None:
    text = f"{days}d{hours}h{minutes}m{seconds}s{milliseconds}ms"
    duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
    assert parse_duration(text) == duration
    assert parse_duration(written_duration(duration)) == duration


@pytest.mark.parametrize(
    ("seconds", "text"), [(5400, "1h30m"), (0.5, "500ms"), (0, "0s"), (86_400, "1d"), (1.0005, "1s0.5ms")]
)
def test_durations_are_written_as_they_are_read(seconds: float, text: str) -> None:
    assert written_duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.94, "940 ms"), (46, "46.0 s"), (720, "12 min"), (18_000, "5.0 h"), (259_200, "3.0 d")],
)
def test_durations_are_written_as_people_read_them(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text
