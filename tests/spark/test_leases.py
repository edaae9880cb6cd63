"""What is published stands as long as a batch that was planned with it is under way, and no longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from spark_jobs.definition import load_definition
from spark_jobs.lookup.hot_keys.publishing import BroadcastSeries, Leases
from tests.spark.conftest import Shop
from tests.spark.hot_customers import HotCustomers

Standing = Callable[[], int]


@pytest.fixture
def standing(spark: Any) -> Iterator[Standing]:
    """How many of the values published since stand in files of Spark's driver."""
    folder = Path(spark._temp_dir)
    others = set(folder.iterdir())

    def count() -> int:
        return len(set(folder.iterdir()) - others)

    yield count
    assert count() == 0


def test_a_retired_value_stands_until_the_last_batch_that_uses_it_has_ended(spark: Any, standing: Standing) -> None:
    leases, series = Leases(), BroadcastSeries(spark, "of-test")
    first, second = series.publish("first"), series.publish("second")
    leases.take(1, first)
    leases.take(2, first)
    leases.retire(first)
    leases.take(3, second)
    leases.retire(second)
    leases.release(1)
    assert (first.value(), standing()) == ("first", 2)
    leases.release(3)
    assert (first.value(), standing()) == ("first", 1)
    leases.release(2)
    assert standing() == 0


def test_a_value_that_is_not_retired_outlives_its_batches(spark: Any, standing: Standing) -> None:
    leases, series = Leases(), BroadcastSeries(spark, "of-test")
    value = series.publish("value")
    leases.take(1, value)
    leases.release(1)
    assert standing() == 1
    leases.take(2, value)
    leases.retire(value)
    leases.release_all()
    assert standing() == 0


@pytest.fixture
def hot(shop: Shop, standing: Standing) -> Iterator[HotCustomers]:
    with closing(psycopg2.connect(shop.url)) as connection:
        customers = HotCustomers(load_definition(shop.path), shop.url, shop.spark, connection)
        assert customers.plan.pages is not None
        customers.plan.pages.withdraw()
        yield customers
        customers.hot_set.close()
        customers.leases.release_all()


def test_without_a_batch_the_newest_version_alone_stands(hot: HotCustomers, standing: Standing) -> None:
    for customer in range(1, 20):
        hot.batch([customer])
        assert standing() == 1
    assert set(hot.hot()) == set(range(1, 20))


def test_however_many_versions_come_only_the_newest_and_those_in_use_stand(
    hot: HotCustomers, standing: Standing
) -> None:
    hot.batch([1])
    hot.begin_batch()
    first = hot.batch_no
    hot.batch([2])
    hot.begin_batch()
    second = hot.batch_no
    for customer in range(3, 20):
        hot.batch([customer])
        assert standing() == 3
    hot.end_batch(hot.read([20]), batch_no=first)
    assert standing() == 2
    hot.end_batch(hot.read([21]), batch_no=second)
    assert standing() == 1
    assert set(hot.hot()) == set(range(1, 22))
