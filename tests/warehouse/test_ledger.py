"""The ledger: whatever is cut off, repeated or mixed, its counts are those of the tables."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.errors import WriterFencedError
from spark_jobs.ledger import batch_ledger
from spark_jobs.loading.loading_transaction import LoadCounts
from spark_jobs.loading.outcome import Held, Outcome
from spark_jobs.warehouse import drivers
from tests.warehouse.stream import Stream, wait_for_waiters


def test_a_committed_batch_has_the_sums_of_its_parts(orders: Stream) -> None:
    batch_no = orders.open().batch_no
    loader = orders.loader(batch_no)
    loader.load(orders.facts([1, 2]))
    loader.load(Outcome(orders.orders([3]), orders.held([4, 5]).held))
    batch_ledger.close_batch(orders.connection, batch_no, {"hit_ratio": 0.5}, orders.fact)
    assert orders.query("SELECT state, facts, shed, closed_at >= started_at, statistics FROM freshet.batch") == [
        ("committed", 3, 2, True, {"hit_ratio": 0.5})
    ]
    orders.check()


def test_closing_a_committed_batch_again_changes_nothing(orders: Stream) -> None:
    batch_no = orders.open().batch_no
    orders.loader(batch_no).load(orders.facts([1]))
    orders.close_batch(batch_no)
    before = orders.query("SELECT * FROM freshet.batch")
    orders.close_batch(batch_no)
    assert orders.query("SELECT * FROM freshet.batch") == before


def test_a_batch_that_was_cut_off_is_abandoned_with_what_it_stored(orders: Stream) -> None:
    cut_off = orders.open().batch_no
    orders.loader(cut_off).load(Outcome(orders.orders([1, 2]), orders.held([3]).held))
    epoch = drivers.take_over(orders.connection, "orders", log_file=None)
    opened = batch_ledger.open_batch(orders.connection, "orders", epoch, 1, orders.fact)
    assert opened.replayed
    assert opened.batch_no > cut_off
    orders.epoch = epoch
    everything = Outcome(orders.orders([1, 2, 4]), orders.held([3, 5]).held)
    assert orders.loader(opened.batch_no, careful=opened.replayed).load(everything) == LoadCounts(1, 1, 0, 0, 3)
    orders.close_batch(opened.batch_no)
    assert orders.query("SELECT state, facts, shed, duplicates FROM freshet.batch ORDER BY batch_no") == [
        ("abandoned", 2, 1, 0),
        ("committed", 1, 1, 3),
    ]
    with pytest.raises(WriterFencedError, match="A newer driver"):
        orders.close_batch(cut_off)
    orders.check()


def test_an_abandoned_batch_can_not_be_committed(orders: Stream) -> None:
    first = orders.open().batch_no
    orders.open()
    with pytest.raises(WriterFencedError, match=f"Batch {first} of pipeline orders was abandoned"):
        orders.close_batch(first)


def test_a_batch_is_replayed_if_its_tuples_may_be_stored(orders: Stream) -> None:
    def opened(spark_batch: int) -> batch_ledger.OpenedBatch:
        return batch_ledger.open_batch(orders.connection, "orders", orders.epoch, spark_batch, orders.fact)

    def closed(batch: batch_ledger.OpenedBatch) -> bool:
        orders.close_batch(batch.batch_no)
        return batch.replayed

    assert not closed(opened(0))
    assert not closed(opened(1))
    assert closed(opened(1)), "the same micro-batch again"
    assert closed(opened(0)), "a lost checkpoint: Spark starts again from nought"
    assert not closed(opened(1))
    assert not opened(2).replayed
    assert opened(2).replayed, "the batch before was abandoned"


@pytest.mark.parametrize("end", ["committed", "abandoned"])
def test_a_batch_ends_after_its_open_loading_transactions(orders: Stream, end: str) -> None:
    batch_no = orders.open().batch_no
    rival = psycopg2.connect(orders.url)
    rival.cursor().execute("INSERT INTO warehouse.fact VALUES (1, 0)")
    with ThreadPoolExecutor() as pool:
        loading = pool.submit(lambda: orders.loader(batch_no).load(orders.facts([1, 2])))
        wait_for_waiters(orders.url, 1)
        ending = pool.submit(orders.open if end == "abandoned" else lambda: orders.close_batch(batch_no))
        wait_for_waiters(orders.url, 2)
        assert not ending.done()
        rival.rollback()
        assert loading.result() == LoadCounts(facts=2)
        ending.result()
    rival.close()
    found = orders.query("SELECT state, facts FROM freshet.batch WHERE batch_no = %s", [batch_no])
    assert found == [(end, 2)]


# Duplicates that no constraint can see


def test_a_fact_and_a_held_tuple_of_one_batch_are_reconciled_when_it_is_closed(orders: Stream) -> None:
    batch_no = orders.open().batch_no
    orders.loader(batch_no).load(orders.held(range(10)))
    orders.loader(batch_no).load(orders.facts(range(5, 15)))
    assert len(orders.held_reasons()) == 10
    orders.close_batch(batch_no)
    assert orders.query("SELECT facts, shed, duplicates FROM freshet.batch") == [(10, 5, 5)]
    orders.check()


def test_an_abandoned_batch_is_reconciled_when_the_next_one_opens(orders: Stream) -> None:
    cut_off = orders.open().batch_no
    orders.loader(cut_off).load(orders.facts(range(5)))
    orders.loader(cut_off).load(orders.held(range(3, 8), "unmatched"))
    orders.close_batch(orders.open().batch_no)
    assert orders.query("SELECT facts, unmatched, duplicates FROM freshet.batch ORDER BY batch_no") == [
        (5, 3, 2),
        (0, 0, 0),
    ]
    orders.check()


def test_reconciling_passes_by_ids_that_no_fact_can_have(orders: Stream) -> None:
    batch_no = orders.open().batch_no
    tuples = orders.tuples([{"id": None}, {"id": 2}])
    unidentified = orders.malformed(b"broken").held
    orders.loader(batch_no).load(Outcome(None, [Held("rejected", "why", None, tuples), *unidentified]))
    orders.query("UPDATE freshet.held_tuple SET event_id = '[\"of an earlier definition\"]' WHERE event_id = '[2]'")
    orders.loader(batch_no).load(orders.facts([2]))
    orders.close_batch(batch_no)
    assert orders.query("SELECT facts, rejected, duplicates FROM freshet.batch") == [(1, 3, 0)]


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_counts_are_exact_whatever_happens(orders: Stream, data: st.DataObject) -> None:
    """Random batches: tasks in turn or at once, careful or not, replayed, cut off, taken over."""
    ids = st.lists(st.integers(0, 12), max_size=8)
    outcome = st.builds(
        lambda facts, shed, rejected: Outcome(
            orders.orders(facts) if facts is not None else None,
            [*orders.held(shed).held, *orders.held(rejected, "rejected").held],
        ),
        st.none() | ids, ids, ids,
    )  # fmt: skip
    orders.query("TRUNCATE warehouse.fact, freshet.held_tuple, freshet.batch, freshet.batch_part")
    arrived = 0
    seen: set[int] = set()
    for _ in range(data.draw(st.integers(1, 4), label="batches")):
        batch_no = orders.open().batch_no
        tasks = data.draw(st.lists(st.tuples(outcome, st.booleans()), max_size=3), label="tasks")
        at_once = data.draw(st.booleans(), label="at once")
        with ThreadPoolExecutor(3 if at_once else 1) as pool:
            counts = list(pool.map(partial(_load, orders, batch_no), tasks))
        for (part, _), count in zip(tasks, counts, strict=True):
            tuples = [group.tuples for group in part.held] + ([] if part.facts is None else [part.facts])
            arrived += sum(table.num_rows for table in tuples)
            seen |= {number for table in tuples for number in table["id"].to_pylist()}
            assert sum(count) == sum(table.num_rows for table in tuples)
        match data.draw(st.sampled_from(["close", "close", "cut off", "take over"]), label="end"):
            case "close":
                orders.close_batch(batch_no)
            case "take over":
                orders.epoch = drivers.take_over(orders.connection, "orders", log_file=None)
    orders.close_batch(orders.open().batch_no)
    orders.check()
    ((stored, duplicates),) = orders.query(
        "SELECT coalesce(sum(facts + shed + rejected), 0)::int, coalesce(sum(duplicates), 0)::int FROM freshet.batch"
    )
    assert (stored, stored + duplicates) == (len(seen), arrived)


def _load(orders: Stream, batch_no: int, task: tuple[Outcome, bool]) -> LoadCounts:
    outcome, careful = task
    return orders.loader(batch_no, careful=careful).load(outcome)
