"""Sketches of event ids tell lost, doubled and swapped ones, of any loads, whatever came of the tuples meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.definition import PipelineDefinition, load_definition
from spark_jobs.ledger.retention import prune
from spark_jobs.reprocessing.reprocessing_job import ReprocessingJob
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.validation.completeness import Completeness, check_completeness
from spark_jobs.validation.fact_columns import read_fact_columns
from spark_jobs.validation.selection import Selection
from spark_jobs.validation.validate import validate_facts
from tests.spark.conftest import Shop
from tests.spark.shop import land, query, sale, sales_definition

STRANGER = 5_000


@pytest.fixture
def counted(shop: Shop) -> Shop:
    """The shop, whose facts have the numbers of their loads."""
    query(shop.url, "ALTER TABLE shop.fact_sales ADD COLUMN batch_no bigint")
    fact = sales_definition(shop.folder)["fact"]
    shop.define(fact=fact | {"columns": {**fact["columns"], "batch_no": "_batch_no"}})
    shop.one_file_a_batch()
    return shop


def definition_of(shop: Shop) -> PipelineDefinition:
    return load_definition(shop.path)


@contextmanager
def reading(shop: Shop) -> Iterator[extensions.connection]:
    """A transaction that leaves nothing behind."""
    with closing(psycopg2.connect(shop.url)) as connection:
        yield connection
        connection.rollback()


def completeness(shop: Shop, fault: str = "", **selection: Any) -> Completeness:
    """What is told after a fault, which is undone."""
    with reading(shop) as connection:
        if fault:
            with connection.cursor() as cursor:
                cursor.execute(fault)
        columns = read_fact_columns(connection, definition_of(shop))
        chosen = Selection(**(selection or {"what": "everything"}))
        found = check_completeness(connection, "sales", columns, chosen)
    assert found is not None
    return found


def numbers(shop: Shop) -> list[int]:
    loads = "SELECT batch_no FROM freshet.batch UNION SELECT batch_no FROM freshet.reprocessing_run ORDER BY 1"
    return [number for (number,) in query(shop.url, loads)]


def assert_complete(shop: Shop) -> None:
    """Of everything, and of each load alone."""
    everything = completeness(shop)
    assert (everything.difference, everything.not_stored, everything.left_out) == (None, (), 0)
    alone = [completeness(shop, what="batches", first_batch=n, last_batch=n) for n in numbers(shop)]
    assert [(each.difference, each.not_stored) for each in alone] == [(None, ())] * len(alone)
    assert sum(each.ids for each in alone) == everything.ids


def wrong(found: Completeness) -> tuple[int, int]:
    """Estimates of how many are lost and doubled."""
    (lost, _), (doubled, _), *_ = found.wrong
    return lost, doubled


def test_what_becomes_of_tuples_is_no_loss_and_what_somebody_does_to_them_is(counted: Shop) -> None:
    bad = [b'{"sale_id": ', sale(7, sale_id=None), sale(8, sale_id=None, amount=1)]
    land(counted.folder, "a", [*(sale(n) for n in range(600)), *bad, *(sale(n) for n in range(20))])
    land(counted.folder, "b", (sale(n, customer=STRANGER + n) for n in range(600, 650)))
    land(counted.folder, "c", [*(sale(n) for n in range(630, 1200)), *(sale(n) for n in range(100)), *bad])
    counted.load()
    assert query(counted.url, "SELECT sum(duplicates) FROM freshet.batch") == [(20 + 20 + 100 + 3,)]
    assert_complete(counted)
    assert completeness(counted).looked_up == 20 + 80 + 20 + 3

    one = "SELECT min(sale_id) FROM shop.fact_sales"
    of_first = "batch_no = (SELECT min(batch_no) FROM freshet.batch)"
    assert wrong(completeness(counted, f"DELETE FROM shop.fact_sales WHERE sale_id = ({one})")) == (1, 0)
    doubled = f"""
        INSERT INTO shop.fact_sales SELECT 9999, 1, 'x', 1, now(), batch_no FROM shop.fact_sales WHERE sale_id = ({one})
    """
    assert wrong(completeness(counted, doubled)) == (0, 1)
    assert wrong(completeness(counted, "UPDATE shop.fact_sales SET sale_id = 9999 WHERE sale_id = 300")) == (1, 1)
    swapped = "UPDATE shop.fact_sales SET batch_no = batch_no + 2 WHERE sale_id = 300"
    assert completeness(counted, swapped).difference is None
    first = numbers(counted)[0]
    assert wrong(completeness(counted, swapped, what="batches", first_batch=first, last_batch=first)) == (1, 0)
    assert wrong(completeness(counted, f"DELETE FROM freshet.held_tuple WHERE {of_first}")) == (3, 0)
    gone = completeness(counted, "DELETE FROM shop.fact_sales WHERE sale_id = 5")
    assert gone.not_stored == ("[5]",), "it came again, and was dropped because it was stored"
    former = "UPDATE freshet.pipeline SET sketched_after = (SELECT min(batch_no) FROM freshet.batch)"
    later = completeness(counted, former)
    assert (later.difference, later.left_out) == (None, 1)
    assert later.ids < completeness(counted).ids
    query(counted.url, "DELETE FROM shop.fact_sales WHERE sale_id IN (300, 301)")
    failures = validate_facts(definition_of(counted), counted.url, counted.home).failures
    [failure] = [each for each in failures if each.startswith("completeness")]
    assert "not so for 2 of" in failure
    assert "what lost; at most" in failure


def test_tuples_that_are_reprocessed_and_forgotten_are_owed_once(counted: Shop) -> None:
    land(counted.folder, "a", (sale(n, customer=STRANGER + n) for n in range(100)))
    land(counted.folder, "b", (sale(n, customer=STRANGER + n) for n in range(100, 200)))
    counted.load()
    known = f"SELECT id, 1, 'late' FROM generate_series({STRANGER + 50}, {STRANGER + 149}) AS id"
    query(counted.url, f"INSERT INTO shop.customer {known}")
    asked = ReprocessingRequest(limit=1_000_000, yields=False, all_unmatched=True)
    ReprocessingJob(definition_of(counted), counted.url, asked, lambda: counted.spark).run()
    assert query(counted.url, "SELECT count(*) FROM shop.fact_sales") == [(100,)]
    assert_complete(counted)
    query(counted.url, "UPDATE freshet.batch SET closed_at = closed_at - interval '1 year'")
    query(counted.url, "UPDATE freshet.held_tuple SET held_at = held_at - interval '1 year' WHERE event_id < '[15'")
    with closing(psycopg2.connect(counted.url)) as connection:
        connection.autocommit = True
        prune(connection, "sales", {"ledger": "30d", "unmatched": "30d", "rejected": None, "shed": None})
    assert len(numbers(counted)) == 2
    assert query(counted.url, "SELECT count(*) > 0 FROM freshet.pruned_tuple") == [(True,)]
    everything = completeness(counted)
    assert (everything.ids, everything.difference) == (200, None)
    assert wrong(completeness(counted, "DELETE FROM freshet.pruned_tuple WHERE event_id = '[10]'")) == (1, 0)
