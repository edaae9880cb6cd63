"""The ledger of correlated streams: what arrived is in a place, or waits; also when it is old."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from spark_jobs.control import drivers
from spark_jobs.definition.fates import FATES
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.batch_streams import StreamCourse, StreamTally, batches_since, former_batch
from spark_jobs.ledger.retention import prune
from spark_jobs.ledger.status.pipeline_status import read_status
from tests.loading.stream import Stream

NAMES = ("orders", "payments")


def tally(name: str, newest: datetime | None = None, furthest: datetime | None = None, **counts: int) -> StreamTally:
    arrived = counts.pop("arrived", 0)
    fates = {FATES[fate]: number for fate, number in counts.items()}
    return StreamTally(name, newest, furthest, None, arrived, fates)


def batch(stream: Stream, orders: dict[str, Any], payments: dict[str, Any]) -> int:
    """A committed batch."""
    courses = [StreamCourse(name) for name in NAMES]
    number = batch_ledger.open_batch(stream.connection, "orders", stream.epoch, [], courses)
    tallies = [tally("orders", **orders), tally("payments", **payments)]
    batch_ledger.close_batch(stream.connection, number, [], {}, stream.fact, tallies)
    return number


def unaccounted(stream: Stream) -> tuple[int, int, int]:
    [status] = read_status(stream.connection)
    return status.arrived, status.duplicates, status.unaccounted


def test_events_that_wait_are_accounted_for(orders: Stream) -> None:
    batch(orders, {"arrived": 10, "joined": 4, "waiting": 6}, {"arrived": 5, "joined": 4, "rejected": 1})
    assert unaccounted(orders) == (15, 0, 0)
    batch(orders, {"joined": 1, "expired": 2, "waiting": 3}, {"arrived": 3, "duplicate": 1, "joined": 1, "late": 1})
    assert unaccounted(orders) == (17, 1, 0)
    batch(orders, {"arrived": 2, "waiting": 4}, {})
    assert unaccounted(orders) == (19, 1, 1), "one order arrived, and is nowhere"


def test_a_batch_that_brought_an_event_of_the_future_is_one_that_may_have_brought_it(orders: Stream) -> None:
    """A stream does not come further than the clock by it, but when that time is there the event is looked for."""
    day, noon = timedelta(days=1), datetime(2026, 3, 1, 12, tzinfo=UTC)
    first = batch(orders, {"newest": noon, "furthest": noon + day}, {})
    of_former_version = batch(orders, {"newest": noon + 2 * day}, {})
    last = batch(orders, {"newest": noon + 3 * day, "furthest": noon + 3 * day}, {})
    with orders.connection, orders.connection.cursor() as cursor:
        found = [batches_since(cursor, "orders", noon + hours) for hours in (0.9 * day, 1.1 * day, 2.1 * day)]
    assert found == [[first, of_former_version, last], [of_former_version, last], [last]]


def test_an_open_batch_without_ranges_is_gone_on_with(orders: Stream) -> None:
    first = batch(orders, {"arrived": 1, "waiting": 1}, {})
    courses = [StreamCourse(name, idle=name == "payments") for name in NAMES]
    number = batch_ledger.open_batch(orders.connection, "orders", orders.epoch, [], courses)
    taken = batch_ledger.take_open_batches(orders.connection, "orders", orders.epoch, orders.fact)
    assert [(each.batch_no, each.after, set(each.streams)) for each in taken] == [(number, first, set(courses))]


def test_retention_keeps_the_sums_and_the_version_of_the_state(orders: Stream) -> None:
    batch(orders, {"arrived": 10, "waiting": 10}, {"arrived": 1, "late": 1})
    batch(orders, {"joined": 2, "waiting": 8}, {"arrived": 2, "joined": 2})
    last = batch(orders, {"expired": 8}, {})
    before = unaccounted(orders)
    orders.connection.rollback()
    with orders.connection, orders.connection.cursor() as cursor:
        cursor.execute("UPDATE freshet.batch SET closed_at = closed_at - interval '40 days'")
    orders.connection.autocommit = True
    prune(orders.connection, "orders", {"ledger": "30d"})
    orders.connection.autocommit = False
    assert unaccounted(orders) == before == (13, 0, 0)
    with orders.connection, orders.connection.cursor() as cursor:
        assert former_batch(cursor, "orders").batch_no == last
        cursor.execute("SELECT stream, arrived FROM freshet.stream_pruned ORDER BY stream")
        assert cursor.fetchall() == [("orders", 10), ("payments", 3)]
        cursor.execute("SELECT stream, fate, tuples FROM freshet.fate_pruned ORDER BY stream, fate")
        assert cursor.fetchall() == [("orders", "joined", 2), ("payments", "joined", 2), ("payments", "late", 1)]


def drives(stream: Stream) -> None:
    with stream.connection, stream.connection.cursor() as cursor:
        cursor.execute("UPDATE freshet.driver SET started_at = started_at - interval '1 min'")
    drivers.heartbeat(stream.connection, "orders", stream.epoch)


def test_a_stream_of_several_that_is_rejected_is_told_however_many_the_others_bring(orders: Stream) -> None:
    drives(orders)
    batch(orders, {"arrived": 10_000, "waiting": 10_000}, {"arrived": 100, "rejected": 49, "joined": 51})
    count(orders, facts=51, rejected=49)
    assert read_status(orders.connection)[0].state == "running"
    batch(orders, {"arrived": 10_000, "waiting": 20_000}, {"arrived": 40, "rejected": 40})
    count(orders, rejected=40)
    [status] = read_status(orders.connection)
    assert (status.state, (status.overload_reason or "").split(" tuples")[0]) == ("rejecting", "89 of the newest 140")


def test_parts_that_wait_for_their_row_are_no_failure(orders: Stream) -> None:
    drives(orders)
    with orders.connection, orders.connection.cursor() as cursor:
        cursor.execute('UPDATE freshet.pipeline SET definition = \'{"correlate": {"emit": "accumulate"}}\'')
    batch(orders, {"arrived": 10, "joined": 10}, {"arrived": 40, "waiting": 30, "joined": 10})
    count(orders, facts=20, unmatched=30)
    assert read_status(orders.connection)[0].state != "rejecting"
    batch(orders, {}, {"arrived": 100, "waiting": 130})
    count(orders, unmatched=100)
    assert read_status(orders.connection)[0].state != "rejecting"
    batch(orders, {"arrived": 130, "joined": 130}, {"joined": 30, "waiting": 100})
    count(orders, facts=30, unmatched=100 - 30)  # so many facts have no partner in a lookup
    [status] = read_status(orders.connection)
    assert (status.state, (status.overload_reason or "").split(" tuples")[0]) == ("rejecting", "100 of the newest 150")


def test_events_that_find_no_partner_in_their_time_are_no_failure(orders: Stream) -> None:
    drives(orders)
    batch(orders, {"arrived": 100, "joined": 10, "expired": 90}, {"arrived": 10, "joined": 10})
    count(orders, facts=10, unmatched=90)
    assert read_status(orders.connection)[0].state != "rejecting"


def count(stream: Stream, **places: int) -> None:
    """Let the newest batch have stored these."""
    with stream.connection, stream.connection.cursor() as cursor:
        for place, number in places.items():
            cursor.execute(
                f"UPDATE freshet.batch SET {place} = %s WHERE batch_no = (SELECT max(batch_no) FROM freshet.batch)",
                [number],
            )
            held = place in ("unmatched", "rejected")
            cursor.execute(
                "INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, fate, reason, payload, "
                "payload_encoding, arrived_at, batch_no) "
                "SELECT 'orders', max(batch_no)::text, 0, %s, %s, 'r', '{}', 'json', now(), max(batch_no) "
                "FROM freshet.batch HAVING %s",
                [place, place, held],
            )
