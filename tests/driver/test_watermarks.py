"""How far streams have come: by what they brought, never back, and with the others when they are silent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from spark_jobs.driver.watermarks import WatermarkRules, watermark_microseconds
from spark_jobs.ledger.batch_streams import StreamProgress

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
RULES = WatermarkRules(allowed_lateness=10 * MINUTE, idle_timeout=MINUTE)
LATEST = (2**63) - 1


def reached(
    *progress: StreamProgress, since: datetime = NOON - 60 * MINUTE, waiting: str = ""
) -> list[datetime | None]:
    return [each.watermark for each in RULES.next(progress, NOON, since, lambda stream: stream == waiting)]


def test_a_stream_reaches_its_newest_event_less_the_lateness_and_never_goes_back() -> None:
    orders = StreamProgress("orders", None, NOON, NOON)
    assert reached(orders, StreamProgress("payments", last_arrival=NOON)) == [NOON - 10 * MINUTE, None]
    assert reached(orders._replace(watermark=NOON), StreamProgress("payments", last_arrival=NOON)) == [NOON, None]


def test_a_silent_stream_follows_the_others_unless_it_has_files_to_read() -> None:
    orders = StreamProgress("orders", None, NOON, NOON)
    payments = StreamProgress("payments", None, NOON - 60 * MINUTE, NOON - 2 * MINUTE)
    assert reached(orders, payments) == [NOON - 10 * MINUTE, NOON - 10 * MINUTE]
    assert reached(orders, payments, waiting="payments") == [NOON - 10 * MINUTE, NOON - 70 * MINUTE]
    assert reached(orders, payments._replace(last_arrival=NOON - MINUTE)) == [NOON - 10 * MINUTE, NOON - 70 * MINUTE]
    assert reached(orders, payments, since=NOON - MINUTE) == [NOON - 10 * MINUTE, NOON - 70 * MINUTE]
    never = StreamProgress("payments")
    assert reached(orders, never) == [NOON - 10 * MINUTE, NOON - 10 * MINUTE]


def test_streams_that_are_all_silent_hold_each_other() -> None:
    orders = StreamProgress("orders", None, NOON, NOON - 60 * MINUTE)
    payments = StreamProgress("payments", None, NOON - 30 * MINUTE, NOON - 60 * MINUTE)
    assert reached(orders, payments) == [NOON - 10 * MINUTE, NOON - 40 * MINUTE]


def test_an_event_of_the_far_future_counts_as_what_the_clock_allows() -> None:
    assert RULES.newest(None, LATEST, NOON) == NOON + 10 * MINUTE
    assert RULES.newest(NOON + 20 * MINUTE, LATEST, NOON) == NOON + 20 * MINUTE
    assert RULES.newest(None, -LATEST, NOON) is None
    assert RULES.furthest(None, LATEST) == datetime.max.replace(tzinfo=UTC)
    assert RULES.furthest(NOON, 1_000_001) == RULES.furthest(NOON, None) == NOON
    assert RULES.newest(NOON, None, NOON) == NOON
    assert RULES.newest(None, 1_000_001, NOON) == datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)


def test_what_a_stream_has_reached_in_microseconds() -> None:
    assert watermark_microseconds(StreamProgress("orders")) == -(2**63)
    assert watermark_microseconds(StreamProgress("orders", datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC))) == 1_000_001
