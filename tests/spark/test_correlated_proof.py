"""`freshet verify` holds for what the driver loads of several streams, and finds what is changed afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.definition import load_definition
from spark_jobs.proof.proof import Proof
from spark_jobs.proof.verification import verify
from tests.spark.correlated_shop import TABLES, CorrelatedShop, order, payment
from tests.spark.shop import query

CUSTOMER = {"relation": "shop.customer", "on": {"orders.customer": "id"}, "fetch": {"customer_sk": "sk"}}


@pytest.fixture
def shop(tmp_path: Path, warehouse_url: str, spark: Any) -> CorrelatedShop:
    query(warehouse_url, TABLES)
    return CorrelatedShop(tmp_path, warehouse_url, spark)


def proved(shop: CorrelatedShop) -> Proof:
    return verify(load_definition(shop.path), shop.url, shop.home)


def test_what_was_loaded_batch_by_batch_is_proved(shop: CorrelatedShop) -> None:
    shop.define(lookups=[CUSTOMER])
    shop.land("orders", [order(1), order(2), order(3, customer=999), order(4), order(5), b"{", order(7, customer=None)])
    shop.land("payments", [payment(11, 1, 5), payment(12, 2, 6), payment(12, 2, 6), payment(13, 3), payment(99, None)])
    shop.load()
    shop.land("orders", [order(6, 300), order(1)])  # the clock of orders moves on
    shop.land("payments", [payment(14, 4, 7), payment(15, 77, 8), payment(16, 6, 301), payment(17, 7, 1)])
    shop.load()
    shop.land("orders", [order(8, 10)])
    shop.land("payments", [payment(18, 5, 9)])
    shop.load()
    proof = proved(shop)
    assert proof.differences == ()
    assert proof.facts == 0
    assert proof.streams == ()
