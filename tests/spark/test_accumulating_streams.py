"""Facts that are filled in part by part: in a real Spark session, by the real driver, in a real warehouse."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_jobs.definition import load_definition
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.errors import WriterFencedError
from spark_jobs.proof.proof import Proof
from spark_jobs.proof.verification import verify
from spark_jobs.settings import Home
from spark_jobs.source.files import landed_files
from spark_jobs.validation.selection import Selection
from spark_jobs.validation.validate import validate_facts
from tests.loading.accumulation.fulfilment import DDL, FULFILMENT, Part, order, payment, shipment
from tests.spark.shop import query


class Shipping:
    """Loads the pipeline `fulfilment` in one warehouse and home."""

    def __init__(self, folder: Path, url: str, spark: Any, lookups: Sequence[dict[str, Any]] = ()) -> None:
        self.url, self.home, self.spark = url, Home(folder / "home"), spark
        self.landing = folder / "landing"
        streams = {name: {**each, "path": str(self.landing / name)} for name, each in FULFILMENT["streams"].items()}
        content = copy.deepcopy({**FULFILMENT, "streams": streams, "lookups": list(lookups)})
        content["fact"]["columns"] |= {name: name for lookup in lookups for name in lookup["fetch"]}
        (folder / "fulfilment.yaml").write_text(yaml.safe_dump(content))
        self.definition = load_definition(folder / "fulfilment.yaml")
        self._landed = 0
        query(url, DDL)

    def land(self, parts: Sequence[Part]) -> None:
        """Let files arrive, one of each stream."""
        self._landed += 1
        for stream in FULFILMENT["streams"]:
            records = [json.dumps(part.values) for part in parts if part.stream == stream]
            (self.landing / stream).mkdir(parents=True, exist_ok=True)
            if records:
                (self.landing / stream / f"part-{self._landed:04}.json").write_text("\n".join(records) + "\n")

    def load(self) -> None:
        """Load all that has landed."""
        StreamJob(self.definition, self.home, self.url).run(self.spark, once=True, resume=True)

    def verify(self) -> Proof:
        return verify(self.definition, self.url, self.home)

    def conserved(self, selection: Selection) -> tuple[bool, int]:
        """Whether a validation finds as many facts as the ledger has, and how many others."""
        report = validate_facts(self.definition, self.url, self.home, selection)
        [found] = [each for each in report.findings if each.expectation.startswith("row conservation")]
        return found.passed, found.unexpected

    def facts(self) -> set[tuple[Any, ...]]:
        """Order, payment and shipment of each fact."""
        return set(query(self.url, "SELECT order_id, payment_id, shipment_id FROM warehouse.fulfilment"))

    def law(self) -> dict[str, tuple[int, ...]]:
        """Parts of each stream that are joined, waiting, rejected and duplicates, by the ledger; checked to add up."""
        rows = query(
            self.url,
            """
            SELECT stream, arrived::int, sum(tuples) FILTER (WHERE fate = 'joined')::int,
                sum(tuples) FILTER (
                    WHERE fate = 'waiting' AND batch_no = (SELECT max(batch_no) FROM freshet.batch))::int,
                sum(tuples) FILTER (WHERE fate = 'rejected')::int, sum(tuples) FILTER (WHERE fate = 'duplicate')::int
            FROM (SELECT stream, sum(arrived) AS arrived FROM freshet.batch_stream GROUP BY stream) AS read
                LEFT JOIN freshet.batch_fate USING (stream)
            GROUP BY stream, arrived
            """,
        )
        law = {stream: tuple(count or 0 for count in placed) for stream, _, *placed in rows}
        assert all(arrived == sum(law[stream]) for stream, arrived, *_ in rows), rows
        return law


@pytest.fixture
def shipping(tmp_path: Path, warehouse_url: str, spark: Any) -> Shipping:
    return Shipping(tmp_path, warehouse_url, spark)


def in_random_order(parts: list[Part], seed: int) -> list[Part]:
    random.Random(seed).shuffle(parts)
    return parts


def test_facts_are_the_plain_join_whatever_the_order_and_the_batches(
    shipping: Shipping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landed_files, "MOST_RANGES", 1)  # one file of each stream a batch
    orders, paid, shipped = range(300), range(0, 400, 2), range(0, 400, 3)
    parts = in_random_order(
        [order(n) for n in orders] + [payment(f"p{n}", n) for n in paid] + [shipment(n + 1000, n) for n in shipped], 7
    )
    for start in range(0, len(parts), 150):
        shipping.land(parts[start : start + 150])
        if start % 300:
            shipping.load()
    shipping.land([*parts[:100], payment(None, 3), payment("x", None), shipment(5, 3, at=None)])  # type: ignore[arg-type]
    shipping.load()
    assert shipping.facts() == {(n, f"p{n}" if n in paid else None, n + 1000 if n in shipped else None) for n in orders}
    law = shipping.law()
    assert law["orders"][:3] == (300, 0, 0)
    assert law["payments"][:3] == (150, 50, 2)
    assert law["shipments"][:3] == (100, 34, 1)
    assert sum(counts[3] for counts in law.values()) == 100
    [figures] = query(
        shipping.url,
        "SELECT sum(arrived)::int, sum(placed + duplicates)::int, sum(facts)::int FROM freshet.batch WHERE "
        "state = 'committed'",
    )
    assert figures == (len(parts) + 103, len(parts) + 103, 300)


CUSTOMERS = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.customer (name text PRIMARY KEY, sk bigint NOT NULL);
    INSERT INTO shop.customer SELECT 'c' || n, n * 7 FROM generate_series(0, 400) n WHERE n % 10 <> 3;
"""
LOOKUP = {
    "relation": "shop.customer",
    "on": {"orders.customer": "name"},
    "fetch": {"customer_sk": "sk"},
    "on_unmatched": "reject",
}


def test_lookups_are_made_for_the_parts_that_make_rows(tmp_path: Path, warehouse_url: str, spark: Any) -> None:
    """Hot tuples and cold ones; an order without customer is rejected, and its parts wait for another."""
    query(warehouse_url, CUSTOMERS)
    shipping = Shipping(tmp_path, warehouse_url, spark, [LOOKUP])
    query(warehouse_url, "ALTER TABLE warehouse.fulfilment ADD customer_sk bigint NOT NULL")
    for first in (0, 100):  # the second time some customers are hot
        numbers = range(first, first + 100)
        parts = [order(n, customer=f"c{n % 50}") for n in numbers] + [payment(f"p{n}", n) for n in numbers]
        shipping.land(in_random_order(parts, first))
        shipping.land([shipment(n, n) for n in numbers])
        shipping.load()
    known = [n for n in range(200) if n % 50 % 10 != 3]
    assert shipping.facts() == {(n, f"p{n}", n) for n in known}
    right = query(warehouse_url, "SELECT bool_and(customer_sk = order_id % 50 * 7) FROM warehouse.fulfilment")
    assert right == [(True,)]
    waiting = dict.fromkeys(FULFILMENT["streams"], (180, 20, 0, 0))
    assert shipping.law() == waiting | {"orders": (180, 0, 20, 0)}
    [(reason,)] = query(warehouse_url, "SELECT DISTINCT reason FROM freshet.rejected WHERE relation IS NOT NULL")
    assert "shop.customer" in reason
    assert shipping.verify().holds


def test_facts_are_conserved_though_parts_that_come_later_move_their_number(shipping: Shipping) -> None:
    shipping.land([order(n) for n in range(100)])
    shipping.load()
    shipping.land([payment(f"p{n}", n) for n in range(60)])
    shipping.load()
    numbers = query(shipping.url, "SELECT batch_no, count(*) FROM warehouse.fulfilment GROUP BY 1 ORDER BY 1")
    assert [count for _, count in numbers] == [40, 60]
    for selection in (Selection(), Selection(what="batches", last_batch=numbers[0][0]), Selection(what="everything")):
        assert shipping.conserved(selection) == (True, 0)
    query(shipping.url, "DELETE FROM warehouse.fulfilment WHERE order_id IN (1, 99)")
    assert shipping.conserved(Selection(what="everything")) == (False, 2)


def test_a_batch_that_was_cut_off_is_gone_on_with(shipping: Shipping, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of its tasks have committed, and the driver ends before it closes the batch."""
    shipping.land([payment(f"p{n}", n) for n in range(100)])
    shipping.load()
    shipping.land([order(n) for n in range(150)] + [shipment(n, n) for n in range(0, 200, 2)])
    with monkeypatch.context() as cut:
        cut.setattr("spark_jobs.driver.accumulated_streams.batch_ledger.close_batch", _cut_off)
        with pytest.raises(WriterFencedError):
            shipping.load()
    assert len(shipping.facts()) == 150
    assert query(shipping.url, "SELECT count(*) FROM freshet.batch WHERE state = 'started'") == [(1,)]
    shipping.load()
    assert shipping.facts() == {(n, f"p{n}" if n < 100 else None, n if n % 2 == 0 else None) for n in range(150)}
    assert shipping.law() == {"orders": (150, 0, 0, 0), "payments": (100, 0, 0, 0), "shipments": (75, 25, 0, 0)}


def _cut_off(*_: object, **__: object) -> None:
    raise WriterFencedError("cut off")
