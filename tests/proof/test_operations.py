"""What operating a pipeline leaves behind: reprocessing runs, pruned tuples and ledgers, the batch of a fact."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.proof.landed_sales import TABLES, LandedSales, digest_id, ids, sale


@pytest.fixture
def sales(tmp_path: Path, warehouse_url: str) -> LandedSales:
    return LandedSales(tmp_path, warehouse_url)


def reprocessed(sales: LandedSales, **changes: int) -> None:
    """Enter a run over held tuples into the ledger."""
    names = ", ".join(changes)
    sales.execute(
        f"INSERT INTO freshet.reprocessing_run (pipeline, algorithm, places, tuple_limit, {names}) "
        f"VALUES (%s, 'auto', '{{shed}}', 100, {', '.join(['%s'] * len(changes))})",
        sales.definition.name,
        *changes.values(),
    )


def prune(sales: LandedSales, event_id: str) -> None:
    """Delete a held tuple as retention does."""
    sales.execute(
        "WITH deleted AS (DELETE FROM freshet.held_tuple WHERE event_id = %s RETURNING *) "
        "INSERT INTO freshet.pruned_tuple (pipeline, event_id, event_hash, batch_no, place) "
        "SELECT pipeline, event_id, event_hash, batch_no, place FROM deleted",
        event_id,
    )


def test_the_changes_of_reprocessing_runs_add_up_with_the_batches(sales: LandedSales) -> None:
    sales.land(sale(1), sale(2), sale(3))
    for number, place in ((1, "shed"), (2, "shed"), (3, "unmatched")):
        sales.hold(f"[{number}]", place)
    sales.execute("DELETE FROM freshet.held_tuple WHERE event_id = '[1]'")
    sales.execute(
        "INSERT INTO shop.fact_sales VALUES (1, 11, 'Ulm', 1.5, 2.5, 'a note', '2024-05-01T10:20:30.123456Z')"
    )
    sales.execute("UPDATE freshet.held_tuple SET place = 'rejected', fate = 'rejected' WHERE event_id = '[3]'")
    assert sales.differences() == {
        "ledger": (
            "facts: the ledger says 0, stored are 1",
            "shed: the ledger says 2, stored are 1",
            "unmatched: the ledger says 1, stored are 0",
            "rejected: the ledger says 0, stored are 1",
        )
    }
    reprocessed(sales, facts=1, shed=-1)
    reprocessed(sales, unmatched=-1, rejected=1)
    proof = sales.verify()
    assert proof.differences == ()
    assert (proof.facts, proof.shed, proof.unmatched, proof.rejected) == (1, 1, 0, 1)


def test_pruned_tuples_are_not_missing(sales: LandedSales) -> None:
    sales.land(sale(1), sale(2), b"no json")
    sales.store_sale(1)
    sales.hold("[2]", "shed")
    sales.hold_raw(b"no json")
    prune(sales, "[2]")
    prune(sales, digest_id(b"no json"))
    proof = sales.verify()
    assert proof.differences == ()
    assert (proof.facts, proof.shed, proof.rejected, proof.pruned) == (1, 0, 0, 2)
    console = Console(width=160)
    with console.capture() as capture:
        console.print(proof.render())
    assert "+ pruned     2  held once, and deleted: by retention, or by hand" in capture.get()
    assert json.loads(proof.to_json())["pruned"] == 2


def test_a_pruned_event_that_was_sent_again_has_no_place_beside(sales: LandedSales) -> None:
    sales.land(sale(1), sale(2), sale(3), b"no json")
    for number in (1, 2, 3):
        sales.hold(f"[{number}]", "rejected")
        prune(sales, f"[{number}]")
    sales.hold_raw(b"no json")
    prune(sales, digest_id(b"no json"))
    sales.land(sale(1), sale(1), sale(2), sale(3), b"no json")
    proof = sales.verify()
    assert (proof.differences, proof.records, proof.pruned) == ((), 9, 4)
    sales.store_sale(1)
    sales.hold("[2]", "shed")
    sales.hold_raw(b"no json")
    assert sales.differences() == {
        "in_two_places": (
            "[1] is a fact and pruned",
            "[2] is pruned and shed",
            f"{digest_id(b'no json')} is pruned and rejected",
        )
    }


def test_a_tuple_that_is_held_no_more_but_was_not_pruned_is_missing(sales: LandedSales) -> None:
    sales.land(sale(1), sale(2))
    sales.hold("[1]", "shed")
    sales.hold("[2]", "shed")
    prune(sales, "[1]")
    sales.execute("DELETE FROM freshet.held_tuple")
    assert set(sales.differences()) == {"missing", "ledger"}
    assert ids(sales.differences()["missing"]) == ["[2]"]


def test_what_another_pipeline_has_pruned_does_not_count(sales: LandedSales) -> None:
    sales.land(sale(1))
    sales.execute("INSERT INTO freshet.pruned_tuple VALUES ('other', '[1]', 'shed', now(), 1, 1)")
    assert list(sales.differences()) == ["missing"]


def test_the_sums_of_a_pruned_ledger_are_counted(sales: LandedSales) -> None:
    sales.land(sale(1), sale(2))
    sales.store_sale(1)
    sales.hold("[2]", "shed")
    sales.execute("DELETE FROM freshet.batch")
    assert list(sales.differences()) == ["ledger"]
    sales.execute("INSERT INTO freshet.ledger_pruned (pipeline, batches, facts, shed) VALUES ('sales', 2, 1, 1)")
    assert sales.differences() == {}


def test_the_number_of_the_load_that_stored_a_fact_is_not_compared(tmp_path: Path, warehouse_url: str) -> None:
    tables = TABLES.replace("sale_id bigint PRIMARY KEY,", "sale_id bigint PRIMARY KEY, batch_no bigint NOT NULL,")
    columns = {"sale_id": "sale_id", "batch_no": "_batch_no", "note": "note"}
    fact = {"table": "shop.fact_sales", "columns": columns}
    sales = LandedSales(tmp_path, warehouse_url, tables, lookups=[], fact=fact)
    sales.land(sale(1), sale(2))
    sales.store(sale_id=1, batch_no=17, note="a note")
    sales.store(sale_id=2, batch_no=18, note="another")
    assert sales.differences() == {"wrong_fact": ("[2] of part-0.json: note is another, should be a note",)}
