"""Parts that the table refuses, that can't be read back, and transactions that don't see each other."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2
import pytest

from spark_jobs.definition.stream_tuple import LoadCounts
from spark_jobs.errors import LoadBlockedError, WriterFencedError
from tests.loading.accumulation.fulfilment import Accumulating, order, payment, shipment
from tests.loading.stream import wait_for_waiters


def test_a_part_that_the_table_refuses_leaves_the_others_of_its_row(fulfilment: Accumulating) -> None:
    fulfilment.query("ALTER TABLE warehouse.fulfilment ADD CHECK (amount > 0), ADD CHECK (customer <> 'nobody')")
    fulfilment.load([payment("early", 3, amount=-1)])
    counts = fulfilment.load(
        [order(1), payment("a", 1, amount=-1), shipment(7, 1)],
        [order(2, customer="nobody"), payment("b", 2), order(3), payment("c", 3)],
    )
    assert counts == LoadCounts(facts=4, rejected=3, unmatched=0)
    assert fulfilment.facts() == [(1, None, 7), (3, "c", None)]
    assert fulfilment.held() == {
        'payments/["early"]': "rejected",
        'payments/["a"]': "rejected",
        'payments/["b"]': "unmatched",
        "orders/[2]": "rejected",
    }
    assert "fulfilment_amount_check" in fulfilment.reason('payments/["early"]')
    assert fulfilment.load([payment("d", 1)]) == LoadCounts(facts=1)


def test_a_value_that_does_not_fit_its_column_costs_its_part_only(fulfilment: Accumulating) -> None:
    fulfilment.load([order(1), order(2, customer=None), payment("a\0", 1), shipment(7, 1)])
    assert fulfilment.facts() == [(1, None, 7)]
    assert set(fulfilment.held().values()) == {"rejected"}
    assert "customer" in fulfilment.reason("orders/[2]")


def test_a_table_that_refuses_most_parts_blocks_the_stream(fulfilment: Accumulating) -> None:
    fulfilment.load([order(n) for n in range(50)])
    fulfilment.query("ALTER TABLE warehouse.fulfilment ADD CHECK (amount > 5)")
    batch_no = fulfilment.open()
    parts = [payment(f"p{n}", n) for n in range(50)]
    with pytest.raises(LoadBlockedError, match="refuses 50 of 50"):
        fulfilment.store(batch_no, parts)
    fulfilment.query("ALTER TABLE warehouse.fulfilment DROP CONSTRAINT fulfilment_amount_check")
    assert fulfilment.store(batch_no, parts, careful=True) == LoadCounts(facts=50)


def test_a_trigger_that_drops_an_update_without_an_error_has_the_part_rejected(fulfilment: Accumulating) -> None:
    fulfilment.load([order(1), order(2)])
    fulfilment.query(
        """
        CREATE FUNCTION warehouse.drop_it() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER dropping BEFORE UPDATE ON warehouse.fulfilment
            FOR EACH ROW WHEN (old.order_id = 1) EXECUTE FUNCTION warehouse.drop_it();
        """
    )
    assert fulfilment.load([payment("a", 1), payment("b", 2)]) == LoadCounts(facts=1, rejected=1)
    assert "trigger" in fulfilment.reason('payments/["a"]')


def test_a_part_that_can_not_be_read_back_is_rejected_when_its_row_comes(fulfilment: Accumulating) -> None:
    fulfilment.load([payment("a", 1), payment("b", 2)])
    other = json.dumps({"payment_id": "c", "order_id": 1})
    fulfilment.query("UPDATE freshet.held_tuple SET payload = %s WHERE event_id = %s", [other, 'payments/["a"]'])
    fulfilment.query("UPDATE freshet.held_tuple SET payload = '{' WHERE event_id = %s", ['payments/["b"]'])
    assert fulfilment.load([order(1), order(2)]) == LoadCounts(facts=2, unmatched=-2, rejected=2)
    assert "another event id" in fulfilment.reason('payments/["a"]')
    assert "malformed" in fulfilment.reason('payments/["b"]')
    assert fulfilment.facts() == [(1, None, None), (2, None, None)]


def test_parts_that_were_held_while_another_transaction_made_their_row_are_settled_at_the_end(
    fulfilment: Accumulating,
) -> None:
    """As when a task's second try runs while the first one still does."""
    batch_no = fulfilment.open()
    parts = [payment("a", 1), payment("b", 1), shipment(7, 1)]
    with closing(psycopg2.connect(fulfilment.url)) as rival, ThreadPoolExecutor() as pool:
        rival.cursor().execute("LOCK TABLE freshet.batch_part IN SHARE MODE")  # it stops before it would commit
        storing = pool.submit(lambda: fulfilment.store(batch_no, [order(1), payment("c", 1)]))
        wait_for_waiters(fulfilment.url)
        holding = pool.submit(lambda: fulfilment.store(batch_no, parts))
        wait_for_waiters(fulfilment.url, 2)
        rival.rollback()
        assert storing.result() == LoadCounts(facts=2)
        assert holding.result() == LoadCounts(unmatched=3)
    fulfilment.end(batch_no, 5)
    assert fulfilment.facts() == [(1, "c", 7)]
    assert fulfilment.held() == {'payments/["a"]': "rejected", 'payments/["b"]': "rejected"}
    assert {name: counts.tolist() for name, counts in fulfilment.counts.items()} == {
        "orders": [1, 0, 0],
        "payments": [1, 0, 2],
        "shipments": [1, 0, 0],
    }


def test_what_was_refused_before_and_is_stored_now_is_held_no_longer(fulfilment: Accumulating) -> None:
    fulfilment.query("ALTER TABLE warehouse.fulfilment ADD CHECK (amount > 5)")
    batch_no = fulfilment.open()
    parts = [order(1), payment("a", 1)]
    fulfilment.store(batch_no, parts)
    assert fulfilment.held() == {'payments/["a"]': "rejected"}
    fulfilment.query("ALTER TABLE warehouse.fulfilment DROP CONSTRAINT fulfilment_amount_check")
    fulfilment.resume()
    fulfilment.store(batch_no, parts, careful=True)
    fulfilment.end(batch_no, 2)
    assert (fulfilment.facts(), fulfilment.held()) == ([(1, "a", None)], {})
    assert fulfilment.counts["payments"].tolist() == [1, 0, 0]


def test_a_driver_that_was_replaced_writes_nothing(fulfilment: Accumulating) -> None:
    batch_no = fulfilment.open()
    former = fulfilment.loader(batch_no), fulfilment.destination(batch_no).placing(fulfilment.arrived([order(1)]))
    fulfilment.resume()
    with pytest.raises(WriterFencedError, match="newer driver"):
        former[0].store(former[1])
    assert fulfilment.facts() == []
