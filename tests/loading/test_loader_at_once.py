"""Several loaders at once: threads with a connection each, as Spark's workers have."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2
import pytest

from spark_jobs.control import driver_requests, drivers
from spark_jobs.definition.stream_tuple import LoadCounts
from spark_jobs.errors import WriterFencedError
from spark_jobs.loading.outcome import Outcome
from tests.loading.stream import Stream, wait_for_waiters

BOTH_WAYS = pytest.mark.parametrize("careful", [False, True], ids=["optimistic", "careful"])


def load_at_once(orders: Stream, batch_no: int, outcomes: list[Outcome], *, careful: bool) -> LoadCounts:
    """Load each outcome by a thread of its own, all starting at the same moment."""
    start = threading.Barrier(len(outcomes))

    def load(outcome: Outcome) -> LoadCounts:
        loader = orders.loader(batch_no, careful=careful)
        start.wait()
        return loader.load(outcome)

    with ThreadPoolExecutor(len(outcomes)) as pool:
        return sum(pool.map(load, outcomes), LoadCounts())


@BOTH_WAYS
def test_the_same_facts_by_two_loaders_are_stored_once(orders: Stream, careful: bool) -> None:
    ids = list(range(2_000))
    batch_no = orders.open()
    outcomes = [orders.facts(random.Random(seed).sample(ids, len(ids))) for seed in range(3)]
    counts = load_at_once(orders, batch_no, outcomes, careful=careful)
    assert counts == LoadCounts(facts=2_000, duplicates=4_000)
    orders.close_batch(batch_no)
    assert orders.fact_ids() == ids
    orders.check()


@BOTH_WAYS
def test_the_same_tuples_held_and_loaded_are_in_one_place_when_the_batch_is_closed(
    orders: Stream, careful: bool
) -> None:
    batch_no = orders.open()
    outcomes = [orders.facts(range(1_000)), orders.held(range(500, 1_500)), orders.held(range(900, 1_600), "rejected")]
    load_at_once(orders, batch_no, outcomes, careful=careful)
    orders.close_batch(batch_no)
    orders.check()
    ((facts, held, duplicates),) = orders.query("SELECT facts, shed + rejected, duplicates FROM freshet.batch")
    assert (facts + held, facts + held + duplicates) == (1_600, 2_700)


def test_deadlocks_are_survived(orders: Stream) -> None:
    """Two optimistic loaders that store each other's event ids in opposite order wait for each other in a circle."""
    batch_no = orders.open()
    rival = psycopg2.connect(orders.url)
    cursor = rival.cursor()
    cursor.execute("SET deadlock_timeout = '10s'; INSERT INTO warehouse.fact VALUES (2, 0)")
    with ThreadPoolExecutor() as pool:
        loading = pool.submit(lambda: orders.loader(batch_no).load(orders.facts([1, 2, 3])))
        wait_for_waiters(orders.url)
        cursor.execute("INSERT INTO warehouse.fact VALUES (1, 0)")  # now the loader is the one that gives way
        rival.commit()
        assert loading.result() == LoadCounts(facts=1, duplicates=2)
    rival.close()
    assert orders.query("SELECT id, amount::int FROM warehouse.fact ORDER BY id") == [(1, 0), (2, 0), (3, 1)]


def test_a_new_driver_waits_for_open_transactions_and_then_keeps_the_old_one_out(orders: Stream) -> None:
    batch_no = orders.open()
    rival = psycopg2.connect(orders.url)
    rival.cursor().execute("INSERT INTO warehouse.fact VALUES (1, 0)")
    with ThreadPoolExecutor() as pool:
        loading = pool.submit(lambda: orders.loader(batch_no).load(orders.facts([1])))
        wait_for_waiters(orders.url, 1)
        taking_over = pool.submit(lambda: drivers.take_over(orders.connection, "orders", log_file=None))
        wait_for_waiters(orders.url, 2)
        assert not taking_over.done()
        rival.rollback()
        assert loading.result() == LoadCounts(facts=1)
        assert taking_over.result() == orders.epoch + 1
    rival.close()
    with pytest.raises(WriterFencedError):
        orders.loader(batch_no).load(orders.facts([2]))
    [batch] = orders.resume()
    orders.close_batch(batch.batch_no)
    orders.check()


def test_a_duplicate_that_another_session_stores_meanwhile_is_not_taken_for_a_refused_tuple(orders: Stream) -> None:
    orders.query("ALTER TABLE warehouse.fact ADD CHECK (id <> 1)")
    batch_no = orders.open()
    rival = psycopg2.connect(orders.url)
    rival.cursor().execute("INSERT INTO warehouse.fact VALUES (2, 0)")
    with ThreadPoolExecutor() as pool:
        loading = pool.submit(lambda: orders.loader(batch_no).load(orders.facts([1, 2, 3])))
        wait_for_waiters(orders.url)
        rival.commit()
        assert loading.result() == LoadCounts(facts=1, rejected=1, duplicates=1)
    rival.close()
    assert set(orders.held_reasons()) == {"[1]"}


SLOW_READER = "freshet load orders"
SLOW_READING = f"""
    CREATE FUNCTION warehouse.pause() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
        IF current_setting('application_name') = '{SLOW_READER}' THEN PERFORM pg_advisory_xact_lock_shared(7); END IF;
        RETURN true;
    END $$;
    ALTER TABLE freshet.pipeline RENAME TO real_pipeline;
    CREATE VIEW freshet.pipeline AS SELECT * FROM freshet.real_pipeline WHERE warehouse.pause();
"""


@pytest.fixture
def replaced_meanwhile(orders: Stream) -> Iterator[Callable[[Callable[[], object]], object]]:
    """Has a new driver take over while the epoch is checked: after the check's snapshot, before its lock."""

    def run(write: Callable[[], object]) -> object:
        with closing(psycopg2.connect(orders.url)) as pausing, ThreadPoolExecutor() as pool:
            pausing.cursor().execute("SELECT pg_advisory_lock(7)")
            writing = pool.submit(write)
            try:
                wait_for_waiters(orders.url)
                with closing(psycopg2.connect(orders.url)) as successor:
                    driver_requests.request_state(successor, "orders", "running")
                    drivers.take_over(successor, "orders", log_file=None)
            finally:
                pausing.cursor().execute("SELECT pg_advisory_unlock(7)")
            return writing.result()

    orders.query(SLOW_READING)
    yield run
    orders.query("DROP VIEW freshet.pipeline; ALTER TABLE freshet.real_pipeline RENAME TO pipeline")


def test_a_driver_replaced_while_its_task_checks_the_epoch_writes_nothing(
    orders: Stream, replaced_meanwhile: Callable[[Callable[[], object]], object]
) -> None:
    batch_no = orders.open()
    with pytest.raises(WriterFencedError, match="newer driver"):
        replaced_meanwhile(lambda: orders.loader(batch_no).load(orders.facts([1])))
    assert orders.fact_ids() == []


def test_a_driver_replaced_while_it_opens_or_closes_a_batch_does_neither(
    orders: Stream, replaced_meanwhile: Callable[[Callable[[], object]], object]
) -> None:
    batch_no = orders.open()
    orders.query("SELECT set_config('application_name', %s, false)", [SLOW_READER])
    for write in (orders.open, lambda: orders.close_batch(batch_no)):
        with pytest.raises(WriterFencedError, match="newer driver"):
            replaced_meanwhile(write)
        orders.epoch += 1
    assert orders.query("SELECT batch_no, state FROM freshet.batch") == [(batch_no, "started")]
