"""The ledger: whatever is cut off, repeated or mixed, its counts are those of the tables."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.definition.fates import REFUSED
from spark_jobs.definition.stream_tuple import LoadCounts
from spark_jobs.ledger import batch_ledger, files_not_loaded, source_ranges
from spark_jobs.ledger.source_ranges import RangeEnd, SourceRange
from spark_jobs.loading.outcome import Held, Outcome
from tests.loading.stream import Stream, wait_for_waiters


def test_a_committed_batch_has_the_sums_of_its_parts(orders: Stream) -> None:
    batch_no = orders.open()
    loader = orders.loader(batch_no)
    loader.load(orders.facts([1, 2]))
    loader.load(Outcome(orders.orders([3]), orders.held([4, 5]).held))
    orders.close_batch(batch_no, statistics={"hit_ratio": 0.5})
    assert orders.query(
        "SELECT state, arrived, facts, shed, closed_at >= started_at, statistics FROM freshet.batch"
    ) == [("committed", 5, 3, 2, True, {"hit_ratio": 0.5})]
    orders.check()


def test_closing_a_committed_batch_again_changes_nothing(orders: Stream) -> None:
    batch_no = orders.open()
    orders.loader(batch_no).load(orders.facts([1]))
    orders.close_batch(batch_no)
    before = orders.query("SELECT * FROM freshet.batch")
    orders.close_batch(batch_no)
    assert orders.query("SELECT * FROM freshet.batch") == before


def test_the_next_driver_goes_on_with_a_batch_that_was_cut_off(orders: Stream) -> None:
    cut_off, former = orders.open(ranges=2), orders.epoch
    orders.loader(cut_off).load(Outcome(orders.orders([1, 2]), orders.held([3]).held))
    [batch] = orders.resume()
    assert batch.batch_no == cut_off
    assert [(each.unit, each.first, each.last) for each in batch.ranges] == [("file-0", 0, 100), ("file-1", 0, 100)]
    everything = Outcome(orders.orders([1, 2, 4]), orders.held([3, 5]).held)
    assert orders.loader(cut_off, careful=True).load(everything) == LoadCounts(1, 1, 0, 0, 3)
    batch_ledger.close_batch(orders.connection, cut_off, [RangeEnd(3), RangeEnd(2)], {}, orders.fact)
    counts = "SELECT state, epoch, arrived, facts, shed, duplicates FROM freshet.batch"
    assert orders.query(counts) == [("committed", former + 1, 5, 3, 2, 0)], "what it had stored was not sent twice"
    orders.check()


def test_a_batch_that_a_former_version_left_open_is_abandoned_with_what_it_stored(orders: Stream) -> None:
    cut_off = orders.open()
    orders.loader(cut_off).load(orders.facts(range(5)))
    orders.loader(cut_off).load(orders.held(range(3, 8), "unmatched"))
    orders.query("DELETE FROM freshet.source_range")
    assert orders.resume() == []
    counts = "SELECT state, arrived, facts, unmatched, duplicates FROM freshet.batch"
    assert orders.query(counts) == [("abandoned", None, 5, 3, 2)]
    orders.check()


def test_ranges_are_closed_with_their_batch(orders: Stream) -> None:
    batch_no = orders.open(ranges=3)
    ranges = "SELECT unit, state, records, reason FROM freshet.source_range ORDER BY range_id"
    assert orders.query(ranges) == [(f"file-{n}", "planned", None, None) for n in range(3)]
    orders.query("UPDATE freshet.source_range SET state = 'lost', reason = 'given up' WHERE unit = 'file-2'")
    orders.loader(batch_no).load(orders.facts([1, 2]))
    ends = [RangeEnd(2), RangeEnd(0, "no Parquet file: a\0b"), RangeEnd(None)]
    batch_ledger.close_batch(orders.connection, batch_no, ends, {}, orders.fact)
    assert orders.query(ranges) == [
        ("file-0", "loaded", 2, None),
        ("file-1", "set aside", 0, "no Parquet file: a\\0b"),
        ("file-2", "lost", None, "given up"),
    ]
    # An earlier attempt may have stored some of what was given up: how much has arrived is not known.
    assert orders.query("SELECT arrived, facts FROM freshet.batch") == [(None, 2)]


def test_records_that_were_read_and_stored_nowhere_are_seen(orders: Stream) -> None:
    batch_no = orders.open()
    orders.loader(batch_no).load(orders.facts([1, 1, 2]))
    orders.close_batch(batch_no, arrived=4)
    assert orders.query("SELECT arrived, facts, duplicates FROM freshet.batch") == [(4, 2, 1)]


def test_files_to_be_retried_are_retried_by_the_batch_that_plans_them(orders: Stream) -> None:
    batch_no = orders.open()
    orders.close_batch(batch_no)
    orders.query("UPDATE freshet.source_range SET state = 'to retry'")
    assert files_not_loaded.units_to_retry(orders.connection, "orders") == ["file-0"]
    assert list(source_ranges.taken_units(orders.connection, "orders", ["file-0"])) == []
    again = SourceRange("file-0", 0, 100, 100, 10**18, kind="files")
    batch_ledger.open_batch(orders.connection, "orders", orders.epoch, [again])
    states = "SELECT state FROM freshet.source_range ORDER BY range_id"
    assert orders.query(states) == [("retried",), ("planned",)]
    assert list(source_ranges.taken_units(orders.connection, "orders", ["file-0"])) == [("file-0", 100, 100, 10**18)]


def test_a_file_that_does_not_come_back_to_be_read_again_can_be_given_up(orders: Stream) -> None:
    orders.close_batch(orders.open(ranges=2))
    orders.query("UPDATE freshet.source_range SET state = 'set aside', reason = 'damaged' WHERE unit = 'file-1'")
    for unit in ("file-0", "file-1"):
        assert files_not_loaded.ask_to_retry(orders.connection, "orders", unit)
        assert files_not_loaded.give_up(orders.connection, "orders", unit, "given up")
        assert not files_not_loaded.give_up(orders.connection, "orders", unit, "given up")
    states = "SELECT unit, state, reason FROM freshet.source_range ORDER BY range_id"
    assert orders.query(states) == [("file-0", "loaded", None), ("file-1", "lost", "given up")]
    assert files_not_loaded.units_to_retry(orders.connection, "orders") == []


def test_a_file_that_was_dismissed_counts_no_more_until_it_is_read_again(orders: Stream) -> None:
    def told() -> tuple[list[str], int]:
        with orders.connection, orders.connection.cursor() as cursor:
            counted = files_not_loaded.read_files_not_loaded(cursor)
        ranges = files_not_loaded.troubled_ranges(orders.connection, "orders")
        return [each.unit for each in ranges], counted["orders"].set_aside if counted else 0

    orders.close_batch(orders.open(ranges=2))
    assert not files_not_loaded.dismiss(orders.connection, "orders", "file-0"), "it is loaded"
    aside = "UPDATE freshet.source_range SET state = 'set aside', reason = 'damaged' WHERE unit = 'file-1'"
    orders.query(aside)
    assert told() == (["file-1"], 1)
    assert files_not_loaded.dismiss(orders.connection, "orders", "file-1")
    assert not files_not_loaded.dismiss(orders.connection, "orders", "file-1"), "there is nothing left to dismiss"
    assert told() == ([], 0)
    assert list(source_ranges.taken_units(orders.connection, "orders", ["file-1"])) != [], "it is not loaded by that"
    assert files_not_loaded.ask_to_retry(orders.connection, "orders", "file-1")
    orders.query(aside)
    assert told() == (["file-1"], 1), "it can't be read once more"


def test_a_start_reads_of_the_ledger_what_lies_in_the_landing_folder_and_not_all_that_was_ever_loaded(
    orders: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.close_batch(orders.open(ranges=50))

    def units(*asked: str) -> list[str]:
        return sorted(each.unit for each in source_ranges.taken_units(orders.connection, "orders", asked))

    assert units("file-7", "new", "file-9") == ["file-7", "file-9"]
    monkeypatch.setattr(source_ranges, "_UNITS_AT_ONCE", 2)
    assert units("file-7", "new", "file-9") == ["file-7", "file-9"], "however many are asked for"


def large_file(orders: Stream, *parts: tuple[int, int]) -> None:
    """Load parts of one file of 100 bytes, a batch each."""
    for first, last in parts:
        part = SourceRange("large", first, last, 100, 10**18, kind="files")
        batch_no = batch_ledger.open_batch(orders.connection, "orders", orders.epoch, [part])
        orders.close_batch(batch_no)


def test_a_file_that_is_to_be_read_again_is_not_so_before_its_beginning_is_planned(orders: Stream) -> None:
    large_file(orders, (0, 40))
    assert files_not_loaded.ask_to_retry(orders.connection, "orders", "large")
    large_file(orders, (40, 100))
    assert files_not_loaded.units_to_retry(orders.connection, "orders") == ["large"]
    assert list(source_ranges.taken_units(orders.connection, "orders", ["large"])) == [("large", 0, 100, 10**18)]
    assert source_ranges.removable_units(orders.connection, "orders", datetime.now(UTC)) == []
    large_file(orders, (0, 40))
    assert files_not_loaded.units_to_retry(orders.connection, "orders") == []
    assert list(source_ranges.taken_units(orders.connection, "orders", ["large"])) == [("large", 100, 100, 10**18)]
    assert source_ranges.removable_units(orders.connection, "orders", datetime.now(UTC)) == [("large", 100, 10**18)]


def test_what_is_taken_already_is_known_among_new_ranges(orders: Stream) -> None:
    large_file(orders, (0, 40), (40, 100))
    ranges = [
        SourceRange("large", 40, 100, 100, 10**18, kind="files"),
        SourceRange("large", 40, 100, 100, 10**18 + 1, kind="files"),
        SourceRange("other", 0, 100, 100, 10**18, kind="files"),
        SourceRange("large", 0, 30, 100, 10**18, kind="files"),
    ]
    with orders.connection.cursor() as cursor:
        assert source_ranges.taken_among(cursor, "orders", ranges) == {0, 3}


def test_a_batch_ends_after_its_open_loading_transactions(orders: Stream) -> None:
    batch_no = orders.open()
    rival = psycopg2.connect(orders.url)
    rival.cursor().execute("INSERT INTO warehouse.fact VALUES (1, 0)")
    with ThreadPoolExecutor() as pool:
        loading = pool.submit(lambda: orders.loader(batch_no).load(orders.facts([1, 2])))
        wait_for_waiters(orders.url, 1)
        ending = pool.submit(lambda: orders.close_batch(batch_no, arrived=2))
        wait_for_waiters(orders.url, 2)
        assert not ending.done()
        rival.rollback()
        assert loading.result() == LoadCounts(facts=2)
        ending.result()
    rival.close()
    found = orders.query("SELECT state, facts FROM freshet.batch WHERE batch_no = %s", [batch_no])
    assert found == [("committed", 2)]


# Duplicates that no constraint can see


def test_a_fact_and_a_held_tuple_of_one_batch_are_reconciled_when_it_is_closed(orders: Stream) -> None:
    batch_no = orders.open()
    orders.loader(batch_no).load(orders.held(range(10)))
    orders.loader(batch_no).load(orders.facts(range(5, 15)))
    assert len(orders.held_reasons()) == 10
    orders.close_batch(batch_no)
    assert orders.query("SELECT facts, shed, duplicates FROM freshet.batch") == [(10, 5, 5)]
    orders.check()


def test_reconciling_passes_by_ids_that_no_fact_can_have(orders: Stream) -> None:
    batch_no = orders.open()
    tuples = orders.tuples([{"id": None}, {"id": 2}])
    unidentified = orders.malformed(b"broken").held
    orders.loader(batch_no).load(Outcome(None, [Held(REFUSED, "why", None, tuples), *unidentified]))
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
    orders.query("TRUNCATE warehouse.fact, freshet.held_tuple, freshet.batch, freshet.source_range CASCADE")
    arrived = 0
    seen: set[int] = set()
    for _ in range(data.draw(st.integers(1, 4), label="batches")):
        batch_no = orders.open()
        tasks = data.draw(st.lists(st.tuples(outcome, st.booleans()), max_size=3), label="tasks")
        at_once = data.draw(st.booleans(), label="at once")
        with ThreadPoolExecutor(3 if at_once else 1) as pool:
            counts = list(pool.map(partial(_load, orders, batch_no), tasks))
        for (part, _), count in zip(tasks, counts, strict=True):
            tuples = [group.tuples for group in part.held] + ([] if part.facts is None else [part.facts])
            arrived += sum(table.num_rows for table in tuples)
            seen |= {number for table in tuples for number in table["id"].to_pylist()}
            assert sum(count) == sum(table.num_rows for table in tuples)
        match data.draw(st.sampled_from(["close", "close", "cut off"]), label="end"):
            case "close":
                orders.close_batch(batch_no)
            case "cut off":
                for batch in orders.resume():
                    orders.close_batch(batch.batch_no)
    orders.check()
    ((stored, duplicates),) = orders.query(
        "SELECT coalesce(sum(facts + shed + rejected), 0)::int, coalesce(sum(duplicates), 0)::int FROM freshet.batch"
    )
    assert (stored, stored + duplicates) == (len(seen), arrived)


def _load(orders: Stream, batch_no: int, task: tuple[Outcome, bool]) -> LoadCounts:
    outcome, careful = task
    return orders.loader(batch_no, careful=careful).load(outcome)
