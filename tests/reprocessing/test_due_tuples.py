"""Which held tuples are due: the pauses between tries, and what a change of R does to them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg2
import pytest

from spark_jobs.definition import Lookup
from spark_jobs.definition.fates import UNMATCHED
from spark_jobs.reprocessing import run_ledger
from spark_jobs.reprocessing.due_tuples import DueTuples, due_now
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.reprocessing.settlement import FailedTries, RetryPolicy
from tests.loading.stream import Stream

MINUTE = timedelta(minutes=1)
POLICY = RetryPolicy(most_attempts=12, first_pause=MINUTE)
CUSTOMER = "master.customer"
NOTE_CHANGE = "INSERT INTO freshet.relation_change (relation, kind, key) VALUES (%s, 'insert', '{\"id\": 1}')"


class Unmatched(Stream):
    """A stream whose orders 1 to 5 are unmatched."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.load(self.held(range(1, 6), "unmatched"))
        self.lookups = [Lookup(relation=CUSTOMER, on={"customer": "id"}, fetch={"name": "name"})]

    def begin(self) -> int:
        """Begin a run; its number."""
        return run_ledger.open_run(self.connection, "orders", ReprocessingRequest(limit=100)).batch_no

    def fail(self, run: int) -> None:
        """All orders are tried by a run, and come to nothing."""
        orders = [f"[{number}]" for number in range(1, 6)]
        tries = FailedTries(orders, [UNMATCHED] * 5, ["no such customer"] * 5, [CUSTOMER] * 5)
        with self.connection, self.connection.cursor() as cursor:
            tries.note(cursor, "orders", run, POLICY)

    def pass_by(self, time: timedelta) -> None:
        """Let so much time pass since the last tries."""
        self.query("UPDATE freshet.held_tuple SET tried_at = tried_at - %s, retry_at = retry_at - %s", [time, time])

    def change(self, relation: str = CUSTOMER) -> None:
        """A row arrives in a relation."""
        self.query(NOTE_CHANGE, [relation])

    def due(self) -> int:
        """How many orders are due."""
        with self.connection, self.connection.cursor() as cursor:
            due = DueTuples(cursor, "orders", self.lookups, MINUTE, ReprocessingRequest(limit=100)).count(cursor, 100)
            assert due_now(cursor, "orders", self.lookups, MINUTE) == (due > 0)
        return due


@pytest.fixture
def unmatched(warehouse_url: str) -> Iterator[Unmatched]:
    stream = Unmatched(warehouse_url)
    yield stream
    stream.close()


def test_a_tuple_that_was_never_tried_is_due_at_once(unmatched: Unmatched) -> None:
    assert unmatched.due() == 5
    unmatched.fail(unmatched.begin())
    assert unmatched.due() == 0


def test_a_change_makes_tuples_due_when_a_quarter_of_their_pause_is_over(unmatched: Unmatched) -> None:
    unmatched.fail(unmatched.begin())
    unmatched.change()
    assert unmatched.due() == 0
    unmatched.pass_by(MINUTE / 4)
    assert unmatched.due() == 5


def test_without_a_change_of_their_own_relation_tuples_wait_for_their_whole_pause(unmatched: Unmatched) -> None:
    unmatched.change()
    unmatched.fail(unmatched.begin())
    unmatched.change("master.article")
    unmatched.pass_by(MINUTE * 0.9)
    assert unmatched.due() == 0
    unmatched.pass_by(MINUTE * 0.2)
    assert unmatched.due() == 5


def test_while_a_relation_grows_and_grows_tries_get_rarer_up_to_a_bound(unmatched: Unmatched) -> None:
    pauses = []
    for _ in range(10):
        unmatched.fail(unmatched.begin())
        unmatched.change()
        passed = MINUTE / 4
        unmatched.pass_by(passed)
        while not unmatched.due():
            unmatched.pass_by(passed)
            passed *= 2
        pauses.append(passed / MINUTE)
        unmatched.query("UPDATE freshet.held_tuple SET retry_at = now()")  # the next try counts
    assert pauses == [0.25, 0.5, 1, 2, 4, 8, 16, 32, 32, 32]


def test_a_change_that_was_committed_after_the_try_is_not_missed(unmatched: Unmatched) -> None:
    """Noted before the try, by a transaction that the try could not see."""
    with psycopg2.connect(unmatched.url) as writer, writer.cursor() as cursor:
        cursor.execute(NOTE_CHANGE, [CUSTOMER])
        unmatched.fail(unmatched.begin())
        unmatched.pass_by(MINUTE / 4)
        assert unmatched.due() == 0
        writer.commit()
    assert unmatched.due() == 5


def test_a_change_during_a_run_may_have_come_after_its_tries_had_read_r(unmatched: Unmatched) -> None:
    run = unmatched.begin()
    unmatched.change()
    unmatched.fail(run)
    unmatched.pass_by(MINUTE / 4)
    assert unmatched.due() == 5


def test_a_run_that_left_tuples_to_their_pause_does_not_hide_the_change_from_them(unmatched: Unmatched) -> None:
    unmatched.fail(unmatched.begin())
    unmatched.change()
    run_ledger.close_run(unmatched.connection, unmatched.begin(), "finished", {})
    unmatched.pass_by(MINUTE / 4)
    assert unmatched.due() == 5
