"""What was held and counted before fates were told: after the upgrade each tuple and each count has the right one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.control.migration import migrate
from spark_jobs.definition.fates import FATES
from tests.ledger.ledger_rows import execute

ENDED = "malformed: reading this record ended the process that read it"
DIGEST = '{"sha256":"00"}'
# Event id, place, reason, relation, key of its row -> fate.
HELD: list[tuple[str, str, str, str | None, str | None, str]] = [
    ("[1]", "shed", "the batch's time was spent before a tuple of this key was read", "shop.r", None, "shed"),
    ("[2]", "shed", "requeued; it was rejected before: late: orders had come to it", None, None, "requeued"),
    ("[3]", "shed", "joined by reprocessing: a part of it was late", None, None, "joined_late"),
    ("[25]", "shed", "a task that tried it failed", None, None, "requeued"),
    ("[4]", "unmatched", "no tuple of shop.r has the key in customer", "shop.r", None, "unmatched"),
    ("orders/[5]", "unmatched", "no payments within 2:00:00 of it", None, None, "expired"),
    (
        "orders/[6]",
        "unmatched",
        "no payments with its key, and no more to come, by correlate.punctuations",
        None,
        None,
        "expired_early",
    ),
    ("paid/[7]", "unmatched", "its orders part is not there yet", None, "[7]", "waiting"),
    ("paid/[8]", "unmatched", "its orders part is not there yet", None, None, "waiting"),
    (DIGEST, "rejected", "malformed: customer: 1 is no bigint", None, None, "malformed"),
    ('{"sha256":"02"}', "rejected", f"{ENDED} (signal SIGSEGV)", None, None, "poison"),
    ('orders/{"sha256":"02"}', "rejected", f"{ENDED} (exit status 3), or one beside it did", None, None, "poison"),
    (f"orders/{DIGEST}", "rejected", "it is none", None, None, "malformed"),
    ('["topic",0,9]', "rejected", "no value: a record of Kafka that has nothing to load", None, None, "malformed"),
    ('{"sha256":"01"}', "rejected", "event id: id is null, and an event id must not be", None, None, "unidentified"),
    ("orders/[9]", "rejected", "event time: at is null, so that it can't be told", None, None, "unidentified"),
    ("[10]", "rejected", "a key that can never match: customer is null", "shop.r", None, "can_not_match"),
    ("orders/[11]", "rejected", "a key that can never match: id is null", None, "[1]", "can_not_match"),
    ("[12]", "rejected", "no tuple of shop.r has the key in customer", "shop.r", None, "not_found"),
    ("orders/[13]", "rejected", "no tuple of shop.r has the key in customer", "shop.r", "[13]", "not_found"),
    ("orders/[14]", "rejected", "no version of shop.r with the key in customer was valid", "shop.r", None, "not_found"),
    ("[15]", "rejected", "PostgreSQL refuses it: no partition [SQLSTATE 23514]", None, None, "refused"),
    ("[16]", "rejected", "12 tries came to nothing; the last one: no tuple of shop.r has", "shop.r", None, "given_up"),
    ("[17]", "rejected", "its payload can't be read back: with the source's", None, None, "not_read_back"),
    ("orders/[18]", "rejected", "late: orders had come to 12:00 when the event arrived", None, None, "late"),
    ("orders/[19]", "rejected", "after the last: one of the key had come", None, None, "after_last"),
    ("orders/[20]", "rejected", "too many: about 3 facts; most_facts: 2", None, None, "too_many"),
    (
        "paid/[21]",
        "rejected",
        "a second part of paid for one key: the fact has [1] already",
        None,
        "[1]",
        "second_part",
    ),
    ("orders/[22]", "rejected", "no payments in its window of 1:00:00", None, None, "expired_rejected"),
    ("[23]", "rejected", "amount: 12345 does not fit", None, None, "rejected"),
    ("[24]", "rejected", "late: the table says so", None, None, "rejected"),
]
COUNTS = {
    "duplicates": "duplicate",
    "rejected": "rejected",
    "late": "late",
    "joined": "joined",
    "expired": "expired",
    "after_last": "after_last",
    "punctuations": "punctuation",
    "purged": "purged",
}


@pytest.fixture
def upgraded(empty_database_url: str) -> Iterator[extensions.connection]:
    """A warehouse of before, with tuples of each kind, and two streams that were counted; migrated."""
    migrate(empty_database_url, "0029")
    with closing(psycopg2.connect(empty_database_url)) as connection:
        execute(
            connection,
            "INSERT INTO freshet.pipeline (name, freshness_target, definition) VALUES ('orders', '5s', '{}'); "
            "INSERT INTO freshet.batch (pipeline, epoch, state) VALUES ('orders', 1, 'committed')",
        )
        for event_id, place, reason, relation, key, _ in HELD:
            execute(
                connection,
                "INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, reason, relation, "
                "correlation_key, payload, payload_encoding, arrived_at, batch_no) "
                "VALUES ('orders', %s, 0, %s, %s, %s, %s, '{}', 'json', now(), 1)",
                *(event_id, place, reason, relation, key),
            )
        numbers = ", ".join(str(number) for number in range(1, len(COUNTS) + 1))
        execute(
            connection,
            f"INSERT INTO freshet.batch_stream (batch_no, stream, arrived, waiting, {', '.join(COUNTS)}) "
            f"SELECT batch_no, 'orders', 100, 90, {numbers} FROM freshet.batch; "
            "INSERT INTO freshet.batch_stream (batch_no, stream) SELECT batch_no, 'paid' FROM freshet.batch; "
            f"INSERT INTO freshet.stream_pruned (pipeline, stream, arrived, {', '.join(COUNTS)}) "
            f"VALUES ('orders', 'orders', 7, {numbers})",
        )
        migrate(empty_database_url)
        yield connection


def rows(connection: extensions.connection, query: str) -> list[tuple[Any, ...]]:
    with connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def test_held_tuples_get_the_fate_that_their_reasons_told(upgraded: extensions.connection) -> None:
    found = dict(rows(upgraded, "SELECT event_id, fate FROM freshet.held_tuple"))
    assert found == {event_id: fate for event_id, *_, fate in HELD}
    assert {FATES[fate].place for fate in found.values()} == {place for _, place, *_ in HELD}
    assert all(FATES[fate].place == place for _, place, *_, fate in HELD)
    views = {place: dict(rows(upgraded, f"SELECT event_id, fate FROM freshet.{place}")) for _, place, *_ in HELD}
    assert {event_id: fate for view in views.values() for event_id, fate in view.items()} == found


def test_what_was_counted_of_streams_is_counted_by_fate(upgraded: extensions.connection) -> None:
    counted = dict(zip(COUNTS.values(), range(1, len(COUNTS) + 1), strict=True))
    assert dict(rows(upgraded, "SELECT fate, tuples FROM freshet.fate_pruned")) == counted
    of_batch = rows(upgraded, "SELECT stream, fate, tuples FROM freshet.batch_fate")
    assert {fate: tuples for _, fate, tuples in of_batch} == counted | {"waiting": 90}
    assert {stream for stream, *_ in of_batch} == {"orders"}, "of none there is no row"
    assert set(counted | {"waiting": 90}) <= FATES.keys()
