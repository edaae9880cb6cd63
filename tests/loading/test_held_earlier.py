"""Finding what earlier batches hold: nothing is overlooked, no false alarm gets through, and there are few of them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from spark_jobs.loading import held_earlier
from spark_jobs.loading.bloom_filter import BloomFilter
from spark_jobs.loading.event_hashes import with_hashes
from spark_jobs.loading.held_earlier import HeldEarlier
from tests.loading.stream import Stream


def found(orders: Stream, held: HeldEarlier, batch_no: int, ids: range) -> list[int]:
    """Those of the ids that batches before `batch_no` hold."""
    with orders.connection, orders.connection.cursor() as cursor:
        among = held.among(cursor, with_hashes(orders.orders(ids), orders.fact.key), orders.fact, batch_no)
    return np.array(ids)[among].tolist()


def small_filters(monkeypatch: pytest.MonkeyPatch, least: int, most: int) -> None:
    monkeypatch.setattr(held_earlier, "_LEAST_MEMORY", least)
    monkeypatch.setattr(held_earlier, "_MOST_MEMORY", most)


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, count: Callable[..., int]) -> list[int]:
    """What `count` makes of the arguments of each call of a function."""
    function, counts = getattr(owner, name), []

    def calling(*arguments: Any) -> Any:
        counts.append(count(*arguments))
        return function(*arguments)

    monkeypatch.setattr(owner, name, calling)
    return counts


def load_held(orders: Stream, batches: int, tuples: int) -> Iterator[tuple[int, range]]:
    """Load this many batches of held tuples; the number of the batch after each, and the ids of its tuples."""
    for start in range(0, batches * tuples, tuples):
        ids = range(start, start + tuples)
        orders.load(orders.held(ids))
        [(last,)] = orders.query("SELECT max(batch_no) FROM freshet.batch")
        yield last + 1, ids


def test_what_earlier_batches_hold_is_found_batch_by_batch(orders: Stream) -> None:
    held = HeldEarlier("orders")
    batches = []
    for start in (0, 10, 20):
        batches.append(orders.open())
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
    small_filters(monkeypatch, 32, 32)  # so full that it suspects everything
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


def test_tuples_that_are_held_no_longer_cause_no_false_alarms(orders: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = BloomFilter.memory_for(1_000)
    small_filters(monkeypatch, memory, memory)
    probes = counted(monkeypatch, held_earlier, "_known_ids", lambda cursor, pipeline, ids: len(ids))
    held = HeldEarlier("orders")
    for batch_no, ids in load_held(orders, batches=40, tuples=200):  # eight times what the filter bears
        assert found(orders, held, batch_no, ids[:50]) == [*ids[:50]]
        assert found(orders, held, batch_no, range(10**6, 10**6 + 500)) == []
        orders.query("DELETE FROM freshet.held_tuple")
    assert sum(probes) < 40 * 50 + 0.02 * 40 * 500


def test_the_filter_grows_with_what_is_held(orders: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    small_filters(monkeypatch, 1_024, 1 << 20)
    held = HeldEarlier("orders")
    for batch_no, ids in load_held(orders, batches=20, tuples=500):
        assert found(orders, held, batch_no, ids[-5:]) == [*ids[-5:]]
    probes = counted(monkeypatch, held_earlier, "_known_ids", lambda cursor, pipeline, ids: len(ids))
    assert found(orders, held, batch_no, range(10**6, 10**6 + 10_000)) == []
    assert sum(probes) < 0.02 * 10_000


def test_more_that_is_held_than_any_filter_bears_is_not_read_again_and_again(
    orders: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_filters(monkeypatch, 32, 32)
    added = counted(monkeypatch, BloomFilter, "add", lambda held, codes: len(codes))
    held = HeldEarlier("orders")
    for batch_no, ids in load_held(orders, batches=40, tuples=25):
        assert found(orders, held, batch_no, range(ids.stop)) == [*range(ids.stop)]
    assert sum(added) < 2 * 3 * 40 * 25  # the loader has a filter of its own
