"""Finding what earlier batches hold: nothing is overlooked, no false alarm gets through."""

import numpy as np
import pytest

from spark_jobs.warehouse.loading import held_earlier
from spark_jobs.warehouse.loading.held_earlier import HeldEarlier
from spark_jobs.warehouse.loading.held_filter import HeldFilter
from tests.warehouse.stream import Stream


def found(orders: Stream, held: HeldEarlier, batch_no: int, ids: range) -> list[int]:
    """Those of the ids that batches before `batch_no` hold."""
    with orders.connection, orders.connection.cursor() as cursor:
        among = held.among(cursor, orders.orders(ids), orders.fact, batch_no)
    return np.array(ids)[among].tolist()


def test_what_earlier_batches_hold_is_found_batch_by_batch(orders: Stream) -> None:
    held = HeldEarlier("orders")
    batches = []
    for start in (0, 10, 20):
        batches.append(orders.open().batch_no)
        orders.loader(batches[-1]).load(orders.held(range(start, start + 5)))
        orders.close_batch(batches[-1])
    assert found(orders, held, batches[0], range(30)) == []
    assert found(orders, held, batches[1], range(30)) == [*range(5)]
    assert found(orders, held, batches[2] + 1, range(30)) == [*range(5), *range(10, 15), *range(20, 25)]


def test_other_pipelines_and_digests_are_passed_by(orders: Stream) -> None:
    orders.load(orders.held(range(5)))
    orders.query("UPDATE freshet.held_tuple SET pipeline = 'other' WHERE event_id = '[1]'")
    orders.query("UPDATE freshet.held_tuple SET event_id = '{}' WHERE event_id = '[2]'")
    assert found(orders, HeldEarlier("orders"), 10**9, range(5)) == [0, 3, 4]


def test_false_alarms_and_tuples_let_go_are_looked_up(orders: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_earlier, "HeldFilter", lambda: HeldFilter(32))  # so full that it suspects everything
    monkeypatch.setattr(held_earlier, "_IDS_PER_QUERY", 7)
    held = HeldEarlier("orders")
    orders.load(orders.held(range(0, 1_000, 2)))
    assert found(orders, held, 10**9, range(1_000)) == [*range(0, 1_000, 2)]
    orders.query("DELETE FROM freshet.held_tuple WHERE event_id = '[4]'")
    assert found(orders, held, 10**9, range(10)) == [0, 2, 6, 8]


def test_batch_numbers_that_go_backwards_mean_another_warehouse(orders: Stream) -> None:
    held = HeldEarlier("orders")
    orders.load(orders.held(range(5)))
    ((batch_no,),) = orders.query("SELECT max(batch_no) FROM freshet.batch")
    assert found(orders, held, 10**9, range(10)) == [*range(5)]
    orders.query("UPDATE freshet.held_tuple SET event_id = '[7]', event_hash = event_hash + 1 WHERE event_id = '[3]'")
    orders.query("UPDATE freshet.held_tuple SET batch_no = 1")
    assert found(orders, held, batch_no, range(10)) == [0, 1, 2, 4]
