"""What a batch owes, by the sketches of the ledger: all that it read, once, but for what was stored before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from spark_jobs.columns.hashing import hash_int64
from spark_jobs.ledger import batch_ledger, id_sketches
from spark_jobs.ledger.source_ranges import RangeEnd
from spark_jobs.loading.loader import Loader
from spark_jobs.loading.outcome import Outcome
from spark_jobs.sketches.id_sketch import IdSketch
from tests.loading.stream import Stream


def sketch_of(*ids: int) -> IdSketch:
    return IdSketch(hash_int64(np.array(ids, np.int64)))


def close(orders: Stream, batch_no: int, read: Sequence[int], *loaders: Loader) -> None:
    """Close a batch whose tasks have read these ids, each as often as it is in it."""
    unsettled = sketch_of(*read)
    for loader in loaders:
        unsettled -= loader.settled
    batch_ledger.close_batch(orders.connection, batch_no, [RangeEnd(len(read))], {}, orders.fact, unsettled=unsettled)


def assert_owed(orders: Stream, batch_no: int, *ids: int) -> None:
    rows = orders.query("SELECT sketch FROM freshet.id_sketch WHERE batch_no = %s", [batch_no])
    owed = id_sketches.total(packed for (packed,) in rows)
    owed -= sketch_of(*ids)
    assert owed.is_zero


def dropped(orders: Stream, batch_no: int) -> set[str]:
    [(told,)] = orders.query("SELECT dropped FROM freshet.id_sketch WHERE batch_no = %s", [batch_no])
    return set(told)


def test_a_batch_that_is_replayed_owes_what_it_read_once(orders: Stream) -> None:
    batch_no = orders.open()
    orders.loader(batch_no).load(Outcome(orders.orders([1, 2]), orders.held([3]).held))
    [batch] = orders.resume()
    again = orders.loader(batch.batch_no, careful=True)
    again.load(Outcome(orders.orders([1, 2, 4]), orders.held([3, 5]).held))
    close(orders, batch_no, [1, 2, 3, 4, 5], again)
    assert_owed(orders, batch_no, 1, 2, 3, 4, 5)
    assert dropped(orders, batch_no) == {"[1]", "[2]", "[3]"}
    orders.check()


def test_what_is_lost_between_its_reading_and_its_transaction_is_owed(orders: Stream) -> None:
    batch_no = orders.open()
    loader = orders.loader(batch_no)
    loader.load(orders.facts([1, 2, 4]))
    close(orders, batch_no, [1, 2, 3, 4], loader)
    assert_owed(orders, batch_no, 1, 2, 3, 4)


@pytest.mark.parametrize("careful", [False, True])
def test_what_came_again_is_owed_by_the_first_and_dropped_by_name(orders: Stream, careful: bool) -> None:
    first = orders.open()
    loader = orders.loader(first)
    loader.load(Outcome(orders.orders([1, 2]), orders.held([3, 4]).held))
    close(orders, first, [1, 2, 3, 4], loader)
    second = orders.open()
    loader = orders.loader(second, careful=careful)
    # Held and a fact before; twice in one transaction; what is held is to be a fact, and the other way round.
    loader.load(Outcome(orders.orders([1, 3, 5, 6, 6]), orders.held([2, 4, 7, 7]).held))
    close(orders, second, [1, 3, 5, 6, 6, 2, 4, 7, 7], loader)
    assert_owed(orders, first, 1, 2, 3, 4)
    assert_owed(orders, second, 5, 6, 7)
    assert dropped(orders, second) == {"[1]", "[2]", "[3]", "[4]", "[6]", "[7]"}
    orders.check()


def test_what_two_transactions_store_as_a_fact_and_held_is_owed_once(orders: Stream) -> None:
    batch_no = orders.open()
    loaders = orders.loader(batch_no), orders.loader(batch_no)
    loaders[0].load(orders.facts([1, 2]))
    loaders[1].load(orders.held([2, 3]))
    close(orders, batch_no, [1, 2, 2, 3], *loaders)
    assert_owed(orders, batch_no, 1, 2, 3)
    orders.check()


def test_records_without_an_id_are_owed_by_their_digests(orders: Stream) -> None:
    batch_no = orders.open()
    loader = orders.loader(batch_no)
    loader.load(orders.malformed(b"{", b"}", b"{"))
    stored = orders.query("SELECT event_hash FROM freshet.held_tuple")
    assert len(stored) == 2
    unsettled = IdSketch(np.array([code for (code,) in stored], np.int64))
    unsettled += IdSketch(np.array([code for (code,) in orders.query(
        "SELECT event_hash FROM freshet.held_tuple WHERE payload = '{'")], np.int64))  # fmt: skip
    unsettled -= loader.settled
    assert unsettled.is_zero


def test_of_a_batch_whose_reading_nobody_told_of_nothing_is_known(orders: Stream) -> None:
    batch_no = orders.open()
    orders.loader(batch_no).load(orders.facts([1]))
    orders.close_batch(batch_no)
    assert orders.query("SELECT sketch FROM freshet.id_sketch") == [(None,)]
    before = orders.open()
    orders.query("UPDATE freshet.pipeline SET sketched_after = %s", [before])
    close(orders, before, [])
    assert orders.query("SELECT count(*) FROM freshet.id_sketch") == [(1,)], "it began before there were sketches"
