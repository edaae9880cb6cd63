"""Late tuples of several streams are joined once nothing of the state can meet them, and the law stays right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.definition.shapes import JoinedStreams
from spark_jobs.driver.checks import check_tables
from spark_jobs.errors import FreshetError
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.reprocessing.due_tuples import due_now
from spark_jobs.reprocessing.held_tuples import HeldFilter, held_groups
from spark_jobs.reprocessing.late_due import PutOff
from spark_jobs.reprocessing.late_tuples import LateTuples
from spark_jobs.reprocessing.reprocessing_job import ReprocessingJob
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.reprocessing.requeue import Requeued, requeue
from spark_jobs.reprocessing.run_ledger import open_run
from spark_jobs.reprocessing.settlement import ReprocessingRun, RetryPolicy
from tests.proof.landed_streams import LandedStreams, at, order, payment

HOUR = timedelta(hours=1)


@pytest.fixture
def shop(tmp_path: Path, warehouse_url: str) -> LandedStreams:
    """Streams that have come far: order 1 is in a fact, 2 and 3 have expired, and the rest was late."""
    shop = LandedStreams(tmp_path, warehouse_url)
    late_orders = [order(5, 900), order(6, 10)]
    # Of an order that has expired, twice; of one in a fact; of none; of one that was over; of those that are late.
    late = [payment(12, 2, 6), payment(13, 2, 7), payment(14, 1, 8), payment(15, 77, 8), payment(16, 3, 150)]
    late += [payment(17, 5, 900), payment(18, 6, 11)]
    shop.land("orders", "o1.json", order(1), order(2), order(3), *late_orders)
    shop.land("payments", "p1.json", payment(11, 1, 5), *late)
    shop.store(1, 11, 5)
    for expired in (order(2), order(3)):
        shop.hold(f"orders/[{expired['id']}]", "expired", "no payments within 2:00:00 of it", expired)
    for stream, records in (("orders", late_orders), ("payments", late)):
        for record in records:
            shop.hold(f"{stream}/[{record['id']}]", "late", "late: it came too late", record)
        shop.wait(stream)
    shop.execute("UPDATE freshet.held_tuple SET event_time = (payload::json ->> 'at')::timestamptz")
    shop.tell("orders", 1000, newest=at(1010), arrived=5, joined=1, expired=2, late=2)
    shop.tell("payments", 1000, newest=at(1010), arrived=8, joined=1, late=7)
    shop.execute(
        "UPDATE freshet.batch SET arrived = 13, placed = 13, facts = 1, unmatched = 2, rejected = 9, closed_at = now()"
    )
    assert shop.differences() == {}
    return shop


@pytest.fixture
def connection(shop: LandedStreams) -> Iterator[extensions.connection]:
    connection = psycopg2.connect(shop.url)
    yield connection
    connection.close()


def test_what_waits_to_be_joined_is_not_called_hopeless(shop: LandedStreams, connection: extensions.connection) -> None:
    """Late and expired tuples are joined by reprocessing; malformed ones, and of outer joins all, can't be."""
    shop.hold("orders/{1}", "malformed", "malformed: it is", b"{")
    shop.hold("orders/[7]", "after_last", "after the last: it was", order(7))
    shop.hold('["a/[b"]', "unmatched", "no customer", order(8))

    def told(**join: object) -> tuple[dict[str, tuple[int, int]], Requeued]:
        definition = json.loads(shop.definition.model_dump_json(by_alias=True))
        definition |= join if "accumulate" in join else {"join": definition["join"] | join}
        shop.execute("UPDATE freshet.pipeline SET definition = %s", json.dumps(definition))
        groups = held_groups(connection, HeldFilter("paid"))
        return {each.reason: (each.hopeless, each.unjoined) for each in groups}, requeue(connection, "paid", "")

    sure = {"malformed: it is": (1, 0), "after the last: it was": (1, 0), "no customer": (0, 0)}
    late, expired = "late: it came too late", "no payments within 2:00:00 of it"
    assert told() == ({**sure, late: (0, 9), expired: (0, 2)}, Requeued(0, 2, 9))
    hopeless = ({**sure, late: (9, 0), expired: (2, 0)}, Requeued(0, 11))
    for never in ({"expired": {"orders": "emit", "payments": "hold"}}, {"expired": "emit"}, {"window": None}):
        assert told(**never) == hopeless
    shop.execute("UPDATE freshet.held_tuple SET correlation_key = '[1]', fate = 'waiting' WHERE reason = %s", expired)
    assert told(join=None, accumulate={}) == ({**sure, late: (9, 0), expired: (0, 2)}, Requeued(0, 11))


def late_tuples(shop: LandedStreams, connection: extensions.connection) -> LateTuples:
    """Those that a new run finds."""
    tables = check_tables(connection, shop.definition)
    batch_no = open_run(connection, "paid", ReprocessingRequest(limit=10)).batch_no
    run = ReprocessingRun(tables.event, tables.fact, batch_no, RetryPolicy(2, HOUR))
    assert isinstance(shop.definition.shape, JoinedStreams)
    return LateTuples(connection, shop.definition, shop.definition.shape, tables, shop.home, run)


def told_put_off(connection: extensions.connection) -> PutOff:
    with connection, connection.cursor() as cursor:
        return PutOff.of(cursor, "paid")


def is_due(shop: LandedStreams, connection: extensions.connection) -> bool:
    with connection, connection.cursor() as cursor:
        return due_now(cursor, "paid", (), HOUR, shop.definition.shape.late_window)


def held(shop: LandedStreams) -> dict[str, set[str]]:
    rows = shop.rows("SELECT place, array_agg(event_id) FROM freshet.held_tuple GROUP BY 1")
    return {place: set(event_ids) for place, event_ids in rows}


def test_late_tuples_meet_what_is_in_facts_what_has_expired_and_each_other(
    shop: LandedStreams, connection: extensions.connection
) -> None:
    assert is_due(shop, connection)
    late = late_tuples(shop, connection)
    assert late.join(100) == 7
    young = {"orders/[5]", "payments/[17]"}
    assert held(shop) == {
        "shed": {"[2,12]", "[2,13]", "[1,14]", "[6,18]"},
        "unmatched": {"orders/[3]"},
        "rejected": {"payments/[15]", "payments/[16]"} | young,
    }
    assert shop.differences() == {}
    assert [(stream.in_result, stream.expired, stream.late) for stream in shop.verify().streams] == [
        (3, 1, 1),
        (5, 0, 3),
    ]
    assert read_status(connection)[0].unaccounted == 0
    connection.rollback()
    # The results are due; when they are facts, what came to nothing waits for its next turn.
    assert is_due(shop, connection)
    assert late.join(100) == 0
    tries = shop.rows("SELECT event_id, attempts FROM freshet.held_tuple WHERE attempts > 0 ORDER BY 1")
    assert tries == [("payments/[15]", 1), ("payments/[16]", 1)]
    put_off = told_put_off(connection)
    assert (put_off.tuples, put_off.next_try) == (2, shop.rows("SELECT min(retry_at) FROM freshet.held_tuple")[0][0])
    assert str(put_off).startswith("2 late tuples could not be joined and are put off, the first again 2")

    shop.execute("UPDATE freshet.held_tuple SET retry_at = now() WHERE retry_at IS NOT NULL")
    shop.execute("UPDATE freshet.batch_stream SET reached = reached + interval '1 day'")
    assert late.join(100) == 4
    assert held(shop)["shed"] == {"[2,12]", "[2,13]", "[1,14]", "[6,18]", "[5,17]"}
    assert shop.differences() == {}
    assert shop.rows("SELECT DISTINCT retry_at = 'infinity' FROM freshet.held_tuple WHERE attempts > 0") == [(True,)]
    assert str(told_put_off(connection)).endswith("none again: too many tries")


def test_what_was_made_before_is_not_made_again(shop: LandedStreams, connection: extensions.connection) -> None:
    """As if the event had come in time, and again when it was late."""
    shop.store(2, 12, 6)
    shop.execute("UPDATE freshet.held_tuple SET fate = 'malformed' WHERE event_id = 'payments/[14]'")
    shop.execute(
        "INSERT INTO freshet.pruned_tuple (pipeline, event_id, event_hash, batch_no, place) "
        "VALUES ('paid', 'payments/[18]', 0, 1, 'rejected')"
    )
    shop.execute("DELETE FROM freshet.held_tuple WHERE event_id = 'payments/[18]'")
    late_tuples(shop, connection).join(100)
    assert held(shop)["shed"] == {"[2,13]"}
    assert {"payments/[12]", "payments/[14]", "orders/[6]"} < held(shop)["rejected"]


def test_late_tuples_meet_each_other_whichever_chunks_they_are_in(
    shop: LandedStreams, connection: extensions.connection
) -> None:
    late = late_tuples(shop, connection)
    while late.join(1):
        pass
    assert held(shop)["shed"] == {"[2,12]", "[2,13]", "[1,14]", "[6,18]"}
    assert {"orders/[5]", "payments/[17]"} < held(shop)["rejected"]
    assert shop.differences() == {}
    tries = shop.rows("SELECT event_id, attempts FROM freshet.held_tuple WHERE attempts > 0 ORDER BY 1")
    assert tries == [("payments/[15]", 1), ("payments/[16]", 1)]


def test_partners_are_found_whose_batch_retention_has_deleted(
    shop: LandedStreams, connection: extensions.connection
) -> None:
    shop.execute("UPDATE freshet.source_range SET batch_no = -1 WHERE unit = 'orders/o1.json'")
    late_tuples(shop, connection).join(100)
    assert held(shop)["shed"] == {"[2,12]", "[2,13]", "[1,14]", "[6,18]"}


def test_a_joined_tuple_that_was_forgotten_is_not_made_again(
    shop: LandedStreams, connection: extensions.connection
) -> None:
    shop.execute(
        "INSERT INTO freshet.pruned_tuple (pipeline, event_id, event_hash, batch_no, place) "
        "VALUES ('paid', '[1,14]', 0, 1, 'shed')"
    )
    late_tuples(shop, connection).join(100)
    assert held(shop)["shed"] == {"[2,12]", "[2,13]", "[6,18]"}


def test_a_late_tuple_that_was_forgotten_is_in_no_result_to_the_proof(shop: LandedStreams) -> None:
    shop.execute(
        "INSERT INTO freshet.pruned_tuple (pipeline, event_id, event_hash, batch_no, place) "
        "SELECT pipeline, event_id, 0, batch_no, place FROM freshet.held_tuple WHERE event_id = 'payments/[14]'"
    )
    shop.execute("DELETE FROM freshet.held_tuple WHERE event_id = 'payments/[14]'")
    assert "missing_result" not in shop.differences()


def test_tuples_that_need_a_file_that_is_gone_are_put_off(
    shop: LandedStreams, connection: extensions.connection
) -> None:
    (shop.folder("orders") / "o1.json").unlink()
    late = late_tuples(shop, connection)
    with pytest.raises(FreshetError, match=r"o1\.json is needed, and can't be read"):
        late.join(100)
    assert "shed" not in held(shop)
    assert shop.rows("SELECT count(*), max(attempts) FROM freshet.held_tuple WHERE retry_at > now()") == [(7, 1)]
    assert late.join(100) == 0


def test_nothing_is_joined_that_the_state_may_still_meet(
    shop: LandedStreams, connection: extensions.connection
) -> None:
    shop.execute("UPDATE freshet.batch_stream SET reached = %s WHERE stream = 'orders'", at(239))
    assert not is_due(shop, connection)
    assert late_tuples(shop, connection).join(100) == 0


def test_a_run_that_joins_nothing_does_not_ask_for_spark(shop: LandedStreams) -> None:
    shop.execute("DELETE FROM freshet.held_tuple WHERE event_id NOT IN ('payments/[15]', 'payments/[16]')")
    job = ReprocessingJob(
        shop.definition, shop.url, ReprocessingRequest(limit=10, yields=False), pytest.fail, shop.home
    )
    assert job.run().state == "finished"
    assert shop.rows("SELECT event_id, attempts FROM freshet.held_tuple ORDER BY 1") == [
        ("payments/[15]", 1),
        ("payments/[16]", 1),
    ]
    (shop.folder("orders") / "o1.json").unlink()
    shop.execute("UPDATE freshet.held_tuple SET retry_at = NULL")
    with pytest.raises(FreshetError, match=r"^Late tuples were put off: .*o1\.json is needed"):
        job.run()
