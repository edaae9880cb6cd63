"""A hot set that holds all of R: what a batch is planned with says no key to be absent that R has, whatever fails."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg2
import pyarrow as pa
import pytest

from spark_jobs.columns.copy_decoding.column_types import ColumnType
from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.columns.keys.values import KeyKind
from spark_jobs.lookup.changes.unnoticed import Changes
from spark_jobs.lookup.hot_keys.learned import LearnedHotSet
from spark_jobs.lookup.hot_keys.publishing import Leases
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.lookup.relation.relation_spec import FetchedColumn, KeyColumn, RelationSpec

_BIGINT = ColumnType("int8", pa.int64(), np.dtype(">i8"))
SPEC = RelationSpec(
    "shop",
    "item",
    (KeyColumn("id", "id", KeyKind.INTEGER, _BIGINT),),
    (FetchedColumn("price", "price", _BIGINT),),
    row_count=100,
    tuple_bytes=25,
)


@dataclass
class Published:
    """What a driver's Spark keeps of a broadcast."""

    value: bytes

    def destroy(self, blocking: bool = False) -> None:
        self.value = b""


class Driver:
    """As much of Spark as publishing takes; its disk may be full."""

    def __init__(self) -> None:
        self.full = False
        self.bytes = 0  # published until now

    def broadcast(self, value: bytes) -> Published:
        if self.full:
            raise OSError("No space left on device")
        self.bytes += len(value)
        return Published(value)


class Items:
    """The hot set of a relation, and batches planned with it."""

    def __init__(self, memory_bytes: int = 1 << 16) -> None:
        self.driver: Any = Driver()
        self.hot_set = LearnedHotSet(SPEC, 0, self.driver, memory_bytes, Leases())
        self._batches = 0
        self.found([1, 2, 3])

    def found(self, ids: Iterable[int]) -> None:
        """A batch found these frequent."""
        self._batches += 1
        self.hot_set.plan_for_batch(self._batches)
        tuples = rows(ids)
        try:
            self.hot_set.learn(None, [(tuples, np.full(len(tuples), 1000))], self._batches)
        finally:
            self.hot_set.release(self._batches)

    def prices(self, *ids: int) -> list[int | str | None]:
        """What a batch planned now makes of these keys: a price, "absent", or None where R is read for it."""
        self._batches += 1
        plan = self.hot_set.plan_for_batch(self._batches)
        value = plan.tuples()
        assert value is not None
        slots, missing = value.find(keys(ids))
        columns, places = value.fetched(slots)
        price = columns["price"].take(pa.array(places, mask=places < 0)).to_pylist()
        self.hot_set.release(self._batches)
        absent = missing & (plan.whole is not None)
        return ["absent" if gone else found for gone, found in zip(absent, price, strict=True)]

    def noticed(self) -> str | None:
        """Up to when a batch planned now relies on all of R being hot."""
        self._batches += 1
        plan = self.hot_set.plan_for_batch(self._batches)
        self.hot_set.release(self._batches)
        return None if plan.whole is None else plan.whole.noticed


def keys(ids: Iterable[int]) -> KeyColumns:
    return KeyColumns.encode([pa.array(list(ids), pa.int64())], SPEC.key_kinds)


def rows(ids: Iterable[int], factor: int = 10) -> RelationRows:
    ids = list(ids)
    return RelationRows(keys(ids), pa.table({"price": pa.array([factor * each for each in ids], pa.int64())}))


def changed(noticed: str, *ids: int) -> Changes:
    return Changes(noticed, keys(ids), anything=False)


def away(_: KeyColumns) -> RelationRows:
    raise psycopg2.OperationalError("the warehouse is away")


def test_a_batch_planned_while_changes_since_the_scan_are_read_does_not_take_all_of_r_for_hot() -> None:
    items = Items()
    planned = []

    def reread(asked: KeyColumns) -> RelationRows:
        planned.append(items.prices(1, 50, 101))
        items.found([60])  # learned meanwhile, for nothing
        assert asked.codes.tolist() == [101]
        return rows([101])

    assert items.hot_set.hold_all(rows(range(100)), (), changed("9:9:", 101), reread)
    assert planned == [[10, None, None]]
    assert items.prices(1, 50, 101, 102) == [10, 500, 1010, "absent"]
    assert items.noticed() == "9:9:"


def test_a_scan_is_brought_up_to_date_before_it_is_hot() -> None:
    items = Items()
    assert items.hot_set.hold_all(rows(range(100)), (), changed("9:9:", 5, 6), lambda _: rows([5], 11))
    assert items.prices(4, 5, 6) == [40, 55, "absent"]


@pytest.mark.parametrize("failing", ["reading", "publishing"])
def test_where_holding_all_of_r_fails_the_learned_tuples_go_on(failing: str) -> None:
    items = Items()
    items.driver.full = failing == "publishing"
    with pytest.raises((psycopg2.Error, OSError)):
        items.hot_set.hold_all(
            rows(range(100)), (), changed("9:9:", 101), away if failing == "reading" else lambda _: rows([101])
        )
    items.driver.full = False
    items.hot_set.refresh(changed("10:10:"), away)
    assert not items.hot_set.holds_all
    assert items.prices(1, 50, 101) == [10, None, None]
    items.found([50])
    assert items.prices(1, 50, 101) == [10, 500, None]


def test_what_does_not_fit_or_may_be_outdated_is_not_taken_for_all_of_r() -> None:
    items = Items(memory_bytes=2000)
    assert not items.hot_set.hold_all(rows(range(1000)), (), changed("9:9:"), away)
    anything = Changes("9:9:", keys([]), anything=True)
    assert not items.hot_set.hold_all(rows(range(10)), (), anything, away)
    assert items.prices(1, 50) == [10, None]


def test_a_change_whose_publication_failed_is_published_by_the_next_look_and_not_noticed_before() -> None:
    items = Items()
    items.hot_set.hold_all(rows(range(100)), (), changed("9:9:"), away)
    items.driver.full = True
    with pytest.raises(OSError, match="No space"):
        items.hot_set.refresh(changed("10:10:", 200), lambda _: rows([200]))
    assert items.noticed() == "9:9:", "a task asks for the changes since, and finds 200 among them"
    items.driver.full = False
    items.hot_set.refresh(changed("11:11:", 200), lambda _: rows([200]))
    assert items.prices(1, 200) == [10, 2000]
    assert items.noticed() == "11:11:"
    items.hot_set.refresh(changed("12:12:"), away)
    assert items.noticed() == "12:12:", "without another version"


def test_a_learned_tuple_whose_publication_failed_is_published_by_the_next_look() -> None:
    items = Items()
    items.driver.full = True
    with pytest.raises(OSError, match="No space"):
        items.hot_set.refresh(changed("10:10:", 2), lambda _: rows([2], 11))
    with pytest.raises(OSError, match="No space"):
        items.found([4])
    assert items.prices(2, 4) == [20, None]
    items.driver.full = False
    items.hot_set.read_again(keys([2]), lambda _: rows([2], 11))
    assert items.prices(2, 4) == [22, 40]


def test_a_relation_that_outgrows_the_memory_says_so_and_knows_no_key_to_be_absent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    items = Items(memory_bytes=3000)
    assert items.hot_set.hold_all(rows(range(100)), (), changed("9:9:"), away)
    with caplog.at_level(logging.WARNING):
        items.hot_set.refresh(changed("10:10:", *range(100, 400)), lambda asked: rows(asked.codes.tolist()))
    capacity = items.hot_set.capacity
    assert f"{capacity} of its tuples stay hot, whichever they are" in caplog.text
    assert items.hot_set.hot_tuples == capacity
    assert "absent" not in items.prices(*range(500))


def test_what_a_change_costs_follows_from_what_has_changed_and_not_from_the_size_of_r() -> None:
    items = Items(memory_bytes=1 << 20)
    assert items.hot_set.hold_all(rows(range(20_000)), (), changed("9:9:"), away)
    all_of_r, looks = items.driver.bytes, 100
    for look in range(looks):
        ids = range(10 * look, 10 * look + 10)
        items.hot_set.refresh(changed(f"{10 + look}:{10 + look}:", *ids), lambda asked: rows(asked.codes.tolist(), 11))
    assert items.driver.bytes - all_of_r < looks / 20 * all_of_r, "which each look would publish"
    assert items.prices(0, 999, 1000, 20_000) == [0, 11 * 999, 10_000, "absent"]


@pytest.mark.parametrize("memory_bytes", [2500, 1 << 16], ids=["merged at each look", "overlaid"])
def test_changes_upon_changes_leave_r_as_it_is(memory_bytes: int) -> None:
    items = Items(memory_bytes)
    random = np.random.default_rng(7)
    current = {each: 10 * each for each in range(100)}
    assert items.hot_set.hold_all(rows(current), (), changed("9:9:"), away)
    for look in range(60):
        ids = random.choice(120, 6, replace=False).tolist()
        kept = [each for each in ids if random.random() < 0.7]
        for each in ids:
            current.pop(each, None)
        current |= {each: (look + 1) * each for each in kept}
        items.hot_set.refresh(changed(f"{10 + look}:{10 + look}:", *ids), lambda _: rows(kept, look + 1))  # noqa: B023
        assert items.prices(*range(120)) == [current.get(each, "absent") for each in range(120)]
        assert items.hot_set.hot_tuples == len(current)
