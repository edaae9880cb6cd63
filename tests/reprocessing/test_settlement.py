"""The settling transaction: what keeps the tuple's law when it is late, repeated, or not alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

import psycopg2
import pyarrow as pa
import pytest

from spark_jobs.definition.fates import UNMATCHED
from spark_jobs.definition.stream_tuple import LoadCounts
from spark_jobs.errors import LoadBlockedError, WriterFencedError
from spark_jobs.loading.loader import Loader
from spark_jobs.loading.outcome import Held, Outcome
from spark_jobs.loading.payload import HELD_ID
from spark_jobs.reprocessing import run_ledger
from spark_jobs.reprocessing.held_reading import VERSION
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.reprocessing.settlement import ReprocessingRun, RetryPolicy
from tests.loading.stream import Stream, wait_for_waiters
from tests.waiting import wait_for

POLICY = RetryPolicy(most_attempts=3, first_pause=timedelta(minutes=1))


class Run:
    """A run over the orders that are held."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.batch_no = run_ledger.open_run(stream.connection, "orders", ReprocessingRequest(limit=100)).batch_no

    def read(self, ids: Sequence[int]) -> pa.Table:
        """Held orders as a task reads them."""
        rows = self._stream.query("SELECT event_id, xmin::text::bigint FROM freshet.held_tuple")
        versions = dict(rows)
        tuples = self._stream.orders(ids)
        held = [f"[{number}]" for number in ids]
        return tuples.append_column(HELD_ID, pa.array(held)).append_column(
            VERSION, pa.array([versions.get(event_id, 0) for event_id in held], pa.int64())
        )

    def settle(self, facts: pa.Table | None, *held: Held) -> LoadCounts:
        """Settle what a task has joined."""
        destination = ReprocessingRun(self._stream.event, self._stream.fact, self.batch_no, POLICY)
        return Loader(self._stream.url, destination).load(Outcome(facts, list(held)))

    def counts(self) -> tuple[Any, ...]:
        """What the run has counted: taken, facts, shed, unmatched, rejected."""
        [row] = self._stream.query(
            "SELECT taken, facts, shed, unmatched, rejected FROM freshet.reprocessing_run WHERE batch_no = %s",
            [self.batch_no],
        )
        return row


@pytest.fixture
def shed(warehouse_url: str) -> Iterator[Stream]:
    """A stream whose orders 1 to 10 are shed."""
    stream = Stream(warehouse_url)
    stream.load(stream.held(range(1, 11)))
    yield stream
    stream.close()


def still_unmatched(tuples: pa.Table) -> Held:
    return Held(UNMATCHED, "no such customer", "master.customer", tuples)


def facts(stream: Stream) -> list[int]:
    return [number for (number,) in stream.query("SELECT id FROM warehouse.fact ORDER BY id")]


def test_settled_once_a_tuple_is_passed_by(shed: Stream) -> None:
    """As when a task is tried again after its transaction was committed."""
    run = Run(shed)
    joined, missed = run.read([1, 2, 3]), run.read([4])
    assert run.settle(joined, still_unmatched(missed)) == LoadCounts(facts=3, unmatched=1)
    assert run.settle(joined, still_unmatched(missed)) == LoadCounts()
    assert run.counts() == (4, 3, -4, 1, 0)
    assert facts(shed) == [1, 2, 3]
    assert shed.query("SELECT attempts FROM freshet.unmatched") == [(1,)]


def test_retention_counts_anew_from_a_try_that_changes_the_place(shed: Stream) -> None:
    shed.query("UPDATE freshet.held_tuple SET held_at = now() - interval '40 days'")
    shed.query("UPDATE freshet.held_tuple SET place = 'unmatched', fate = 'unmatched' WHERE event_id = '[1]'")
    run = Run(shed)
    run.settle(None, still_unmatched(run.read([1, 2])))
    late = "SELECT event_id FROM freshet.unmatched WHERE held_at > now() - interval '1 day'"
    assert shed.query(late) == [("[2]",)]


@pytest.mark.parametrize("on_refused", ["block", "reject"])
def test_a_table_that_refuses_most_of_a_run_blocks_it_unless_the_pipeline_wants_that_rejected(
    warehouse_url: str, on_refused: Literal["block", "reject"]
) -> None:
    with closing(Stream(warehouse_url)) as stream:
        stream.load(stream.held(range(30)))
        stream.query("ALTER TABLE warehouse.fact ADD CONSTRAINT none CHECK (id < 0)")
        stream.fact = replace(stream.fact, on_refused=on_refused)
        run = Run(stream)
        if on_refused == "reject":
            assert run.settle(run.read(range(30))) == LoadCounts(rejected=30)
        else:
            with pytest.raises(LoadBlockedError, match="and restart the stream or the reprocessing"):
                run.settle(run.read(range(30)))
            assert run.counts() == (0, 0, 0, 0, 0)


def test_of_two_runs_one_settles_a_tuple(shed: Stream) -> None:
    first, second = Run(shed), Run(shed)
    of_first, of_second = first.read(range(1, 8)), second.read(range(4, 11))
    first.settle(of_first)
    assert second.settle(of_second) == LoadCounts(facts=3)
    assert (first.counts(), second.counts()) == ((7, 7, -7, 0, 0), (3, 3, -3, 0, 0))
    assert facts(shed) == list(range(1, 11))


def test_a_tuple_that_another_run_tried_meanwhile_is_left_as_that_one_left_it(shed: Stream) -> None:
    first, second = Run(shed), Run(shed)
    of_first, of_second = first.read([1]), second.read([1])
    first.settle(None, still_unmatched(of_first))
    second.settle(None, still_unmatched(of_second))
    assert shed.query("SELECT attempts FROM freshet.held_tuple WHERE event_id = '[1]'") == [(1,)]
    assert second.counts() == (0, 0, 0, 0, 0)


def test_runs_that_settle_the_same_tuples_at_once_wait_for_each_other(shed: Stream) -> None:
    first, second = Run(shed), Run(shed)
    of_first, of_second = first.read(range(1, 11)), second.read(range(10, 0, -1))
    with psycopg2.connect(shed.url) as blocker, blocker.cursor() as cursor:
        # Both get as far as the first order, which is locked until both wait.
        cursor.execute("SELECT FROM freshet.held_tuple WHERE event_id = '[1]' FOR UPDATE")
        threads = [
            threading.Thread(target=run.settle, args=[tuples])
            for run, tuples in ((first, of_first), (second, of_second))
        ]
        for thread in threads:
            thread.start()
        wait_for_waiters(shed.url, 2)
    for thread in threads:
        thread.join()
    assert sorted([first.counts(), second.counts()]) == [(0, 0, 0, 0, 0), (10, 10, -10, 0, 0)]
    assert facts(shed) == list(range(1, 11))


def test_a_run_that_was_taken_for_dead_settles_nothing_more(shed: Stream) -> None:
    zombie = Run(shed)
    joined = zombie.read([1])
    shed.query("UPDATE freshet.reprocessing_run SET heartbeat_at = now() - interval '61 seconds'")
    # Silence counts from the server's start, which was just now where this test runs alone.
    old = "SELECT clock_timestamp() > pg_postmaster_start_time() + interval '11 seconds'"
    wait_for(lambda: shed.query(old) == [(True,)], "the server to be older than a run may be silent")
    Run(shed)
    assert shed.query("SELECT state, error FROM freshet.reprocessing_run ORDER BY batch_no") == [
        ("abandoned", "its driver has died or hangs"),
        ("running", None),
    ]
    with pytest.raises(WriterFencedError, match="was presumed dead"):
        zombie.settle(joined)
    assert facts(shed) == []
    assert run_ledger.heartbeat(shed.connection, zombie.batch_no) == "fenced"
    assert not run_ledger.close_run(shed.connection, zombie.batch_no, "finished", {})


def test_a_duplicate_of_a_held_event_is_dropped_by_the_stream_before_and_after_it_is_settled(shed: Stream) -> None:
    run = Run(shed)
    assert shed.load(shed.facts([1])) == LoadCounts(duplicates=1)
    run.settle(run.read([1, 2]))
    for outcome in (shed.facts([1]), shed.held([2], "unmatched")):
        shed.load(outcome)
    assert facts(shed) == [1, 2]
    assert shed.query("SELECT count(*) FROM freshet.held_tuple") == [(8,)]


def test_a_duplicate_that_the_stream_would_hold_while_the_event_becomes_a_fact_is_dropped(shed: Stream) -> None:
    """Until the run commits, the event is held as far as the stream can see; afterwards it is a fact."""
    run = Run(shed)
    joined = run.read([1])
    with shed.batch() as loader, psycopg2.connect(shed.url) as blocker, blocker.cursor() as cursor:
        cursor.execute("SELECT FROM freshet.reprocessing_run WHERE batch_no = %s FOR UPDATE", [run.batch_no])
        settling = threading.Thread(target=run.settle, args=[joined])
        settling.start()
        wait_for_waiters(shed.url, 1)
        assert loader.load(shed.held([1], "unmatched")) == LoadCounts(duplicates=1)
        blocker.commit()
        settling.join()
        loader.load(shed.held([1], "unmatched"))
    assert facts(shed) == [1]
    assert shed.query("SELECT FROM freshet.held_tuple WHERE event_id = '[1]'") == []
    assert shed.query("SELECT unmatched, duplicates FROM freshet.batch ORDER BY batch_no DESC LIMIT 1") == [(0, 2)]


def test_a_payload_that_was_mended_after_it_was_read_is_tried_anew(shed: Stream) -> None:
    run = Run(shed)
    joined = run.read([1])
    shed.query("UPDATE freshet.held_tuple SET payload = '{}' WHERE event_id = '[1]'")
    assert run.settle(joined) == LoadCounts()


def test_what_is_a_fact_already_is_no_longer_held(shed: Stream) -> None:
    """It was loaded past Freshet."""
    shed.query("INSERT INTO warehouse.fact (id, amount) VALUES (1, 1)")
    run = Run(shed)
    run.settle(run.read([1, 2]))
    assert facts(shed) == [1, 2]
    assert run.counts() == (2, 2, -2, 0, 0)
