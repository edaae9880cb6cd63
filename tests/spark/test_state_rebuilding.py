"""A state that is lost is made anew from the landed files: the stream goes on as if it had been there."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from spark_jobs.definition import load_definition
from spark_jobs.errors import FreshetError
from spark_jobs.ledger import files_not_loaded
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.proof.verification import verify
from spark_jobs.reprocessing.state_rebuilding import RebuiltState, rebuild_state
from spark_jobs.warehouse.connection import connect
from tests.spark.correlated_shop import TABLES, CorrelatedShop, order, payment
from tests.spark.shop import query


@pytest.fixture
def shop(tmp_path: Path, warehouse_url: str, spark: Any) -> CorrelatedShop:
    query(warehouse_url, TABLES)
    made = CorrelatedShop(tmp_path, warehouse_url, spark)
    made.define(allowed_lateness="5m", expired="reject")
    return made


def rebuild(shop: CorrelatedShop) -> RebuiltState | None:
    with closing(psycopg2.connect(shop.url)) as connection:
        return rebuild_state(connection, load_definition(shop.path), shop.home, 2, print)


def test_a_lost_or_damaged_state_is_made_anew_and_the_stream_goes_on(shop: CorrelatedShop) -> None:
    randomness = random.Random(5)
    # Orders and their two payments come in different batches, out of order by up to 5 minutes; some times over.
    orders = [order(n, n * 3 + randomness.uniform(-4, 0)) for n in range(200)]
    payments = [
        payment(1000 * k + n, n + k % 2, n * 3 + randomness.uniform(0, 150)) for k in range(2) for n in range(0, 200, 3)
    ]
    payments.sort(key=lambda each: each["paid_at"])
    folder = shop.home.join_state("paid")
    for part in range(4):
        shop.land("orders", [*orders[part * 50 : part * 50 + 50], orders[part * 50], b"{"])
        shop.land("payments", payments[part * 30 : part * 30 + 30])
        if part == 1:
            shutil.rmtree(folder)
        elif part == 2:
            (folder / "buckets.json").write_text("{")
            shutil.rmtree(folder / "0")
        elif part == 3:
            # Another folder in the place of the one that the worker holds.
            (folder / "1").rename(folder / "former")
            shutil.copytree(folder / "former", folder / "1")
            for version in (folder / "1").glob("version.*"):
                version.write_bytes(b"damaged")
        if part:
            with pytest.raises(FreshetError, match="freshet rebuild-state"):
                shop.load()
            rebuilt = rebuild(shop)
            assert rebuilt is not None
            assert (rebuilt.buckets, rebuilt.of) == (1 if part == 3 else 2, 2)
        assert rebuild(shop) is None
        shop.load()
    shop.land("payments", payments[120:])
    shop.load()
    shop.law()
    assert verify(load_definition(shop.path), shop.url, shop.home).differences == ()
    assert shop.facts()


@pytest.mark.parametrize("rule", [{"when": "is_last"}, {"count": "orders.n_payments"}], ids=["marked", "counted"])
def test_what_punctuations_have_purged_stays_away_and_what_came_after_them_stays_out(
    rule: dict[str, str], shop: CorrelatedShop
) -> None:
    shop.define(punctuations={"orders": "unique", "payments": rule}, expired="hold")
    # Two payments come for the orders below 10, one for others below 30. Those of order 39 are two hours apart from it.
    shop.land("orders", [*(order(n, n, n_payments=2) for n in range(39)), order(39, 122, n_payments=2)])
    first = [payment(n, n, n + 1, is_last=False) for n in range(30)]
    apart = [payment(700, 39, 2, is_last=False), payment(701, 39, 2, is_last=True)]
    shop.land("payments", [*first, *apart, payment(900, 800, 1)])
    shop.load()
    shop.land("payments", [payment(100 + n, n, n + 28, is_last=True) for n in range(10)])
    shop.load()
    assert shop.law()["orders"] == {
        "arrived": 40, "duplicates": 0, "rejected": 0, "late": 0, "joined": 30, "expired": 1, "waiting": 9,
    }  # fmt: skip
    held = shop.held()
    assert held["orders/[39]"] == (
        "unmatched", "no payments with its key, and no more to come, by join.punctuations",
    )  # fmt: skip
    # Known ones, though they have left; and some after the last.
    shop.land("payments", [first[0], first[20], *(payment(200 + n, n, 40, is_last=None) for n in (1, 2, 20))])
    shop.land("orders", [order(1, 1), order(20, 20)])
    shutil.rmtree(shop.home.join_state("paid"))
    rebuilt = rebuild(shop)
    assert rebuilt is not None
    shop.load()
    law = shop.law()
    assert (law["payments"]["duplicates"], law["payments"]["after_last"], law["orders"]["duplicates"]) == (2, 2, 2)
    place, reason = shop.held()["payments/[201]"]
    assert place == "rejected"
    assert reason.startswith("after the last: ")
    proof = verify(load_definition(shop.path), shop.url, shop.home)
    assert proof.differences == ()
    assert [each.after_last for each in proof.streams] == [0, 2]
    shutil.rmtree(shop.home.join_state("paid"))
    assert rebuild(shop) is not None
    assert verify(load_definition(shop.path), shop.url, shop.home).differences == ()
    with closing(connect(shop.url)) as connection:
        (status,) = read_status(connection)
    told = {each.stream: each for each in status.streams}
    assert (told["orders"].purged, told["payments"].after_last) == (11 if "when" in rule else 12, 2)
    assert (told["orders"].punctuations, told["payments"].punctuations) == (40, 11 if "when" in rule else 40)
    # A reason that no punctuation bears out.
    query(
        shop.url,
        "UPDATE freshet.held_tuple SET event_id = 'payments/[900]', place = 'rejected', reason = 'after the last: it' "
        "WHERE event_id = 'payments/[201]'",
    )
    proof = verify(load_definition(shop.path), shop.url, shop.home)
    differences = {each.kind: each.examples for each in proof.differences}
    assert differences["wrongly_rejected"] == ("payments/[900]: no punctuation of its key had come before it",)


def test_a_file_that_was_read_again_is_part_of_the_batch_that_read_it_first(shop: CorrelatedShop) -> None:
    shop.land("orders", [order(1), order(5)])
    shop.land("payments", [payment(1, 1, 1)])
    shop.load()
    shop.land("orders", [order(6, 70)])
    shop.land("payments", [payment(6, 6, 70)])
    shop.load()
    with closing(psycopg2.connect(shop.url)) as connection:
        assert files_not_loaded.ask_to_retry(connection, "paid", "orders/part-0001.json")
    shop.load()
    shutil.rmtree(shop.home.join_state("paid"))
    rebuilt = rebuild(shop)
    assert rebuilt is not None
    assert rebuilt.waiting == 1, "order 5"
    shop.land("payments", [payment(2, 1, 68), payment(5, 5, 69)])
    shop.load()
    assert shop.facts() >= {(1, 1), (1, 2), (5, 5), (6, 6)}
    assert verify(load_definition(shop.path), shop.url, shop.home).differences == ()


def test_a_state_is_not_made_anew_without_a_file_whose_events_may_wait(shop: CorrelatedShop) -> None:
    shop.land("orders", [order(1, 0)])
    shop.load()
    shop.land("orders", [order(2, 1)])
    shop.load()
    file, folder = shop.folder / "landing" / "orders" / "part-0001.json", shop.home.join_state("paid")
    shutil.rmtree(folder)
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(FreshetError, match=r"part-0001\.json.*Bring it back"):
        rebuild(shop)
    assert not list(folder.glob("*.rebuilding"))
    file.write_bytes(content)
    with pytest.raises(FreshetError, match=r"part-0001\.json"):  # written again: it is another file now
        rebuild(shop)
