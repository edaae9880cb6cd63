"""With `expired: emit` the facts are an outer join: events that have left the state without partner are facts alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.proof.proof import StreamPlaces
from tests.proof.landed_streams import STREAMS, LandedStreams, at, order, payment

TABLES = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.fact_paid (
        joined_id text PRIMARY KEY, order_id bigint, payment_id bigint, amount numeric(10, 2), completed_at timestamptz
    );
"""
DEFINITION = (
    STREAMS
    + """
    join: {"on": {orders: id, payments: order_id}, window: 2h, expired: {orders: emit, payments: hold}}
    fact:
      table: shop.fact_paid
      columns: {joined_id: _joined_id, order_id: orders.id, payment_id: payments.id, amount: payments.amount,
                completed_at: _completed_at}
"""
)


def fact(order_id: int, payment_id: int | None, minutes: float) -> str:
    payment_text = "null" if payment_id is None else str(payment_id)
    amount = "NULL" if payment_id is None else "1.5"
    return (
        f"INSERT INTO shop.fact_paid VALUES ('[{order_id},{payment_text}]', {order_id}, {payment_text}, {amount}, "
        f"'{at(minutes)}')"
    )


@pytest.fixture
def shop(tmp_path: Path, warehouse_url: str) -> LandedStreams:
    """An order that was paid, one that never was, one that waits; and a payment of none."""
    shop = LandedStreams(tmp_path, warehouse_url, TABLES, DEFINITION)
    shop.land("orders", "o1.json", order(1), order(2, 1), order(3, 300))
    shop.land("payments", "p1.json", payment(11, 1, 5), payment(12, 77, 3))
    shop.hold("payments/[12]", "expired", "no orders within 2:00:00 of it", payment(12, 77, 3))
    shop.wait("orders", order(3, 300))
    shop.wait("payments")
    shop.execute(fact(1, 11, 5))
    shop.execute(fact(2, None, 1))
    shop.tell("orders", 290, arrived=3, joined=2, waiting=1)
    shop.tell("payments", 290, arrived=2, joined=1, expired=1)
    shop.execute("UPDATE freshet.batch SET arrived = 5, placed = 5, facts = 2, unmatched = 1")
    return shop


def test_an_event_alone_is_a_fact_once_it_has_left_the_state(shop: LandedStreams) -> None:
    proof = shop.verify()
    assert proof.differences == ()
    assert proof.streams == (
        StreamPlaces("orders", 1, 3, 2, 1, 0, 0, 0, 0, 0, 0),
        StreamPlaces("payments", 1, 2, 1, 0, 1, 0, 0, 0, 0, 0),
    )
    too_many = (fact(3, None, 300), fact(1, None, 0), "UPDATE freshet.batch SET facts = 4")
    with shop.spoilt(*too_many):
        assert shop.differences() == {"extra_fact": ('["[1,null]"]', '["[3,null]"]')}
        shop.execute("UPDATE freshet.batch SET facts = 2")
    lost = ("DELETE FROM shop.fact_paid WHERE order_id = 2", "UPDATE freshet.batch SET facts = 1")
    with shop.spoilt(*lost):
        differences = shop.differences()
        assert differences["missing_result"] == (
            '["[2,null]"] of orders/o1.json: orders is nowhere, payments is nowhere',
        )
        assert differences["missing"] == ("orders/[2] of orders/o1.json",)
        shop.execute("UPDATE freshet.batch SET facts = 2")
    with shop.spoilt("UPDATE shop.fact_paid SET payment_id = 5 WHERE order_id = 2"):
        assert shop.differences() == {
            "wrong_fact": ('["[2,null]"] of orders/o1.json: payment_id is 5, should be null',)
        }


def test_an_open_batch_may_have_emitted_what_waited_before_it(shop: LandedStreams) -> None:
    shop.execute(fact(3, None, 300))
    shop.execute("INSERT INTO freshet.batch (pipeline, epoch, state) VALUES ('paid', 1, 'started')")
    shop.execute(
        "INSERT INTO freshet.batch_part (part_id, batch_no, facts, shed, unmatched, rejected, duplicates, "
        "event_latency, arrival_latency) "
        "SELECT gen_random_uuid(), max(batch_no), 1, 0, 0, 0, 0, '{}', '{}' FROM freshet.batch"
    )
    assert shop.differences() == {}
