"""One row for each key: the required part makes it, and the others fill it in, whenever they come."""

from __future__ import annotations

from datetime import timedelta

from spark_jobs.definition.stream_tuple import LoadCounts
from tests.loading.accumulation.fulfilment import AT, Accumulating, order, payment, shipment


def test_parts_that_come_together_are_one_row(fulfilment: Accumulating) -> None:
    counts = fulfilment.load([payment("a", 1), order(1), order(2), shipment(7, 1)])
    assert counts == LoadCounts(facts=4)
    assert fulfilment.facts() == [(1, "a", 7), (2, None, None)]
    assert fulfilment.facts("order_id, changed_at") == [(1, AT + timedelta(hours=1)), (2, AT)]


def test_later_parts_fill_their_columns_in_place(fulfilment: Accumulating) -> None:
    fulfilment.load([order(1), order(2)])
    counts = fulfilment.load([payment("a", 1), shipment(7, 2)], [shipment(8, 1)])
    assert counts == LoadCounts(facts=3)
    assert fulfilment.facts() == [(1, "a", 8), (2, None, 7)]
    assert fulfilment.facts("order_id, changed_at")[1] == (2, AT + timedelta(hours=1))
    [(first, second)] = fulfilment.query("SELECT min(batch_no), max(batch_no) FROM freshet.batch")
    assert fulfilment.facts("batch_no") == [(second,), (second,)]
    assert first < second


def test_parts_that_come_first_wait_for_their_row_and_are_filled_in_with_it(fulfilment: Accumulating) -> None:
    assert fulfilment.load([payment("a", 1), shipment(7, 2), payment("b", 2)]) == LoadCounts(unmatched=3)
    assert fulfilment.reason('payments/["a"]') == "its orders part is not there yet"
    counts = fulfilment.load([order(1), shipment(8, 1)])
    assert counts == LoadCounts(facts=3, unmatched=-1)
    assert fulfilment.facts() == [(1, "a", 8)]
    assert fulfilment.held() == {'payments/["b"]': "unmatched", "shipments/[7]": "unmatched"}


def test_a_second_part_of_one_stream_is_rejected_and_names_the_first(fulfilment: Accumulating) -> None:
    fulfilment.load([order(1), payment("a", 1)], [payment("b", 1)])
    fulfilment.load([payment("c", 2), payment("d", 2), payment("e", 3)], [payment("f", 3)])
    fulfilment.load([order(2), order(3), payment("g", 3)])
    assert fulfilment.facts("order_id, payment_id") == [(1, "a"), (2, "c"), (3, "e")]
    assert fulfilment.held() == {f'payments/["{name}"]': "rejected" for name in "bdfg"}
    assert fulfilment.reason('payments/["b"]') == 'a second part of payments for one key: the fact has ["a"] already'
    assert fulfilment.reason('payments/["d"]') == 'a second part of payments for one key: the fact has ["c"] already'
    assert fulfilment.counts["payments"].tolist() == [3, 0, 4]


def test_the_same_event_again_is_a_duplicate_wherever_it_is(fulfilment: Accumulating) -> None:
    parts = [order(1), payment("a", 1), payment("b", 1), payment("c", 2)]
    fulfilment.load([*parts, *parts])
    facts, held = fulfilment.facts(), fulfilment.held()
    assert held == {'payments/["b"]': "rejected", 'payments/["c"]': "unmatched"}
    assert fulfilment.load(parts) == LoadCounts(duplicates=4)
    assert (fulfilment.facts(), fulfilment.held()) == (facts, held)
