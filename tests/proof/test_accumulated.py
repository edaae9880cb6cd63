"""Facts that are filled in part by part name the events that they are made of, and have these events' columns."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import psycopg2
import pytest

from spark_jobs.ledger.retention import prune_held
from spark_jobs.proof.proof import StreamPlaces
from spark_jobs.reprocessing.held_tuples import HeldFilter, forget
from tests.proof.landed_streams import STREAMS, LandedStreams, at, order, payment

TABLES = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.fact_paid (
        order_id bigint PRIMARY KEY, customer bigint, payment_id bigint, amount numeric(10, 2), changed_at timestamptz
    );
"""
DEFINITION = (
    STREAMS
    + """
    accumulate: {"on": {orders: id, payments: order_id}}
    fact:
      table: shop.fact_paid
      columns: {order_id: orders.id, customer: orders.customer, payment_id: payments.id, amount: payments.amount,
                changed_at: _completed_at}
"""
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, migrated_database: str) -> LandedStreams:
    """Two orders that are paid, one of them twice; one that is not; and a payment that waits for its order."""
    shop = LandedStreams(tmp_path_factory.mktemp("parts"), migrated_database, TABLES, DEFINITION)
    shop.land("orders", "o1.json", order(1), order(2), order(3), order(1))
    shop.land("orders", "o2.json", order(9), pending=True)
    shop.land("payments", "p1.json", payment(11, 1, 5), payment(12, 2, 7), payment(13, 2, 8))
    shop.land("payments", "p2.json", payment(14, 40), payment(15, None))
    for order_id, payment_id, changed in ((1, 11, 5), (2, 12, 7)):
        values = (order_id, payment_id, at(changed))
        shop.execute("INSERT INTO shop.fact_paid VALUES (%s, 1, %s, 1.5, %s)", *values)
    shop.execute("INSERT INTO shop.fact_paid VALUES (3, 1, NULL, NULL, %s)", at(0))
    second = "a second part of payments for one key: the fact has [12] already"
    shop.hold("payments/[13]", "second_part", second, payment(13, 2, 8), "payments/p1.json")
    shop.hold("payments/[14]", "waiting", "its orders part is not there yet", payment(14, 40), "payments/p2.json")
    shop.hold(
        "payments/[15]",
        "can_not_match",
        "a key that can never match: order_id is null",
        payment(15, None),
        "payments/p2.json",
    )
    shop.tell("orders", 0, arrived=4, duplicate=1, joined=3)
    shop.tell("payments", 0, arrived=5, rejected=2, joined=2, waiting=1)
    shop.execute(
        "UPDATE freshet.batch SET arrived = 9, placed = 8, facts = 3, unmatched = 1, rejected = 2, duplicates = 1"
    )
    return shop


def test_parts_in_every_place_hold(shop: LandedStreams) -> None:
    proof = shop.verify()
    assert proof.differences == ()
    assert (proof.facts, proof.records, proof.pending_records) == (3, 10, 1)
    assert proof.streams == (
        StreamPlaces("orders", 2, 4, 3, 0, 0, 0, 0, 0, 1, 1),
        StreamPlaces("payments", 2, 5, 2, 1, 0, 2, 0, 0, 0, 0),
    )


def test_columns_are_those_of_the_events_that_the_fact_names(shop: LandedStreams) -> None:
    with shop.spoilt(
        "UPDATE shop.fact_paid SET amount = 2, customer = NULL WHERE order_id = 1",
        "UPDATE shop.fact_paid SET changed_at = '2026-03-01 12:00Z' WHERE order_id = 2",
        "UPDATE shop.fact_paid SET payment_id = 14 WHERE order_id = 3",
    ):
        differences = shop.differences()
        assert differences.pop("wrong_fact") == (
            "[1] of payments/p1.json: customer is null, should be 1; amount is 2.00, should be 1.50",
            "[2] of payments/p1.json: changed_at is 2026-03-01 12:00:00+00, should be 2026-03-01 12:07:00+00",
            "[3] of orders/o1.json: payment_id is 14, should be null",
        )
        assert differences == {}


def test_a_part_that_is_lost_is_missing(shop: LandedStreams) -> None:
    lost = "UPDATE shop.fact_paid SET payment_id = NULL, amount = NULL, changed_at = '2026-03-01 12:00Z'"
    with shop.spoilt(lost + " WHERE order_id = 1", "DELETE FROM shop.fact_paid WHERE order_id = 3"):
        assert shop.differences() == {
            "missing": ("orders/[3] of orders/o1.json", "payments/[11] of payments/p1.json"),
            "ledger": (
                "payments, joined: the ledger says 2, found are 1",
                "facts: the ledger says 3, stored are 2",
            ),
        }


def test_a_part_is_in_one_place(shop: LandedStreams) -> None:
    with shop.spoilt("UPDATE shop.fact_paid SET payment_id = 13, changed_at = '2026-03-01 12:08Z' WHERE order_id = 2"):
        differences = shop.differences()
        assert differences["in_two_places"] == ("payments/[13] is in a result and rejected",)
        assert differences["missing"] == ("payments/[12] of payments/p1.json",)
        assert differences["wrongly_rejected"][0].startswith("payments/[13]: a second part of payments for one key")


def test_a_part_does_not_wait_for_a_fact_that_is_there(shop: LandedStreams) -> None:
    lost = "UPDATE shop.fact_paid SET payment_id = NULL, amount = NULL, changed_at = '2026-03-01 12:00Z'"
    with shop.spoilt(lost + " WHERE order_id = 1"):
        shop.hold("payments/[11]", "waiting", "its orders part is not there yet", payment(11, 1, 5))
        assert shop.differences()["missing_result"] == ("payments/[11]: it waits, and its fact is there",)
        shop.execute("DELETE FROM shop.fact_paid WHERE order_id = 3")
        shop.hold("orders/[3]", "waiting", "who knows", order(3))
        assert shop.differences()["missing_result"][0] == "orders/[3]: it waits, and makes a fact by itself"


def test_a_fact_is_made_by_a_required_part(shop: LandedStreams) -> None:
    with shop.spoilt("INSERT INTO shop.fact_paid VALUES (40, NULL, 14, 1.5, '2026-03-01 12:00Z')"):
        assert shop.differences()["extra_fact"] == ("[40]",)


def test_of_a_part_whose_file_is_gone_nothing_is_proved(shop: LandedStreams) -> None:
    with shop.spoilt():
        (shop.folder("payments") / "p1.json").unlink()
        proof = shop.verify()
        assert (proof.differences, proof.gone_facts, proof.gone_held) == ((), 2, 1)


@pytest.mark.parametrize("by_age", [False, True])
def test_a_part_that_is_deleted_waits_no_longer(shop: LandedStreams, *, by_age: bool) -> None:
    changes = (
        "UPDATE freshet.pipeline SET definition = '{\"accumulate\": {}}'",
        "UPDATE freshet.held_tuple SET correlation_key = '[40]' WHERE event_id = 'payments/[14]'",
    )
    with shop.spoilt(*changes), closing(psycopg2.connect(shop.url)) as connection:
        if by_age:
            connection.autocommit = True
            shop.execute("UPDATE freshet.held_tuple SET held_at = held_at - interval '2 hours'")
            assert prune_held(connection, "paid", "unmatched", timedelta(hours=1), 10) == 1
        else:
            assert forget(connection, HeldFilter("paid", ["unmatched"]), "ada") == 1
        proof = shop.verify()
        assert proof.differences == ()
        assert proof.streams[1] == StreamPlaces("payments", 2, 5, 2, 0, 0, 2, 0, 1, 0, 0)
        told = dict(shop.rows("SELECT fate, tuples FROM freshet.batch_fate WHERE stream = 'payments'"))
        assert (told["waiting"], told["expired"]) == (0, 1)
        shop.execute("DELETE FROM freshet.pruned_tuple; DELETE FROM freshet.reprocessing_run")
