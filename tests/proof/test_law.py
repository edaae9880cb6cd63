"""The tuple's law: every landed event is in exactly one place, and only landed events are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.errors import SchemaMismatchError, WarehouseUnavailableError
from spark_jobs.proof.proof import DIFFERENCES, EXAMPLES, Proof
from spark_jobs.proof.verification import verify
from tests.proof.landed_sales import TABLES, LandedSales, balance, digest_id, ids, sale


@pytest.fixture
def sales(tmp_path: Path, warehouse_url: str) -> LandedSales:
    return LandedSales(tmp_path, warehouse_url)


def shown(proof: Proof) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(proof.render())
    return capture.get()


def test_an_empty_landing_holds(sales: LandedSales) -> None:
    proof = sales.verify()
    assert proof.holds
    assert (proof.records, proof.files, proof.facts) == (0, 0, 0)


def test_a_landing_that_is_not_there_holds(sales: LandedSales) -> None:
    sales.landing.rmdir()
    assert sales.verify().holds


def test_events_in_every_place_hold(sales: LandedSales) -> None:
    malformed = b'{"sale_id": 5, "price": "much"}'
    sales.land(sale(1), sale(2), sale(2))
    sales.land(sale(3, customer=99), sale(4), malformed)
    sales.store_sale(1)
    sales.hold("[2]", "shed")
    sales.hold("[3]", "unmatched")
    sales.hold("[4]", "rejected")
    sales.hold_raw(malformed)
    proof = sales.verify()
    assert proof.differences == ()
    assert (proof.files, proof.records) == (2, 6)
    assert (proof.facts, proof.shed, proof.unmatched, proof.rejected) == (1, 1, 1, 2)
    assert balance(proof) == {
        "landed": 6, "- duplicates": 1, "stored": 5, "= facts": 1, "+ shed": 1, "+ unmatched": 1, "+ rejected": 2,
    }  # fmt: skip
    assert "the tuple's law holds" in shown(proof)
    assert json.loads(proof.to_json())["holds"] is True


def test_a_committed_event_that_is_stored_nowhere_is_missing(sales: LandedSales) -> None:
    sales.land(sale(1), sale(2))
    sales.land(sale(7), file="late.json")
    sales.store_sale(1)
    proof = sales.verify()
    assert not proof.holds
    assert [(each.kind, each.count) for each in proof.differences] == [("missing", 2)]
    assert proof.differences[0].examples == ("[7] of late.json", "[2] of part-0.json")
    text = shown(proof)
    assert "2 landed and committed, but stored nowhere" in text
    assert "[7] of late.json" in text
    assert "does not hold" in text
    assert json.loads(proof.to_json())["differences"][0]["kind"] == "missing"


def test_events_of_pending_files_may_be_stored_or_not(sales: LandedSales) -> None:
    sales.land(sale(1))
    sales.land(sale(2), sale(3), file="pending.json", pending=True)
    sales.store_sale(1)
    sales.store_sale(2)
    proof = sales.verify()
    assert proof.holds
    assert (proof.files, proof.pending_files, proof.records, proof.pending_records) == (2, 1, 3, 1)
    assert "not yet loaded" in shown(proof)


def test_without_a_range_in_the_ledger_a_file_is_pending(sales: LandedSales) -> None:
    sales.land(sale(1), pending=True)
    proof = sales.verify()
    assert proof.holds
    assert (proof.pending_files, proof.pending_records) == (1, 1)


def test_what_never_landed_is_extra(sales: LandedSales) -> None:
    sales.land(sale(1))
    sales.store_sale(1)
    sales.store_sale(8)
    sales.hold("[9]", "shed")
    sales.hold_raw(b"never landed")
    assert sales.differences() == {
        "extra_fact": ("[8]",),
        "extra_held": ("[9] is shed", f"{digest_id(b'never landed')} is rejected"),
    }


def test_an_event_in_two_places_is_named(sales: LandedSales) -> None:
    sales.land(sale(1), sale(2))
    sales.store_sale(1)
    sales.store_sale(2)
    sales.hold("[2]", "unmatched")
    assert sales.differences() == {"in_two_places": ("[2] is a fact and unmatched",)}


def test_two_places_within_an_open_batch_are_settled_when_it_is_closed(sales: LandedSales) -> None:
    sales.land(sale(1))
    sales.store_sale(1)
    open_batch = sales.book(state="started")
    sales.execute(
        "INSERT INTO freshet.batch_part VALUES (gen_random_uuid(), %s, 0, 1, 0, 0, 0, '{}', '{}')", open_batch
    )
    sales.hold("[1]", "shed", batch_no=open_batch)
    assert sales.differences() == {}
    sales.execute("UPDATE freshet.batch SET state = 'committed', shed = 1, arrived = 1 WHERE batch_no = %s", open_batch)
    assert list(sales.differences()) == ["in_two_places"]


def test_other_pipelines_held_events_do_not_count(sales: LandedSales) -> None:
    sales.land(sale(1))
    sales.execute("INSERT INTO freshet.pipeline VALUES ('other', 1, 'running', '5 s', '{}')")
    sales.hold("[1]", "shed")
    sales.execute("UPDATE freshet.held_tuple SET pipeline = 'other'")
    sales.execute("UPDATE freshet.batch SET pipeline = 'other'")
    assert list(sales.differences()) == ["missing"]


MALFORMED = [
    b'{"sale_id": 1, "price": "much"}',
    b'{"sale_id": 1',
    b"no json",
    b'{"sale_id": "1"}',
    b'{"sale_id": 1, "note": "\xff"}',
]


@pytest.mark.parametrize("record", MALFORMED)
def test_a_malformed_record_must_be_rejected_by_its_digest(sales: LandedSales, record: bytes) -> None:
    sales.land(record)
    assert ids(sales.differences()["missing"]) == [digest_id(record)]
    sales.hold_raw(record)
    assert sales.differences() == {}


def test_a_malformed_record_does_not_count_as_the_event_whose_id_it_bears(sales: LandedSales) -> None:
    malformed = b'{"sale_id": 1, "price": "much"}'
    sales.land(sale(1), malformed)
    sales.store_sale(1)
    assert ids(sales.differences()["missing"]) == [digest_id(malformed)]


def test_an_event_without_id_is_known_by_the_digest_of_its_record(sales: LandedSales) -> None:
    record = b'{"sale_id": null, "customer": 1}'
    sales.land(record)
    assert ids(sales.differences()["missing"]) == [digest_id(record)]
    sales.hold(digest_id(record), "unidentified", record, reason="event id: sale_id is null")
    assert sales.differences() == {}


def test_the_ledger_must_add_up(sales: LandedSales) -> None:
    sales.land(sale(1), sale(2))
    sales.store_sale(1)
    sales.hold("[2]", "shed")
    sales.book(facts=2, unmatched=1)
    assert sales.differences() == {
        "ledger": ("facts: the ledger says 3, stored are 1", "unmatched: the ledger says 1, stored are 0")
    }


def test_unmatched_events_whose_master_data_has_come_are_counted(sales: LandedSales) -> None:
    sales.land(sale(1, customer=98), sale(2, customer=99))
    sales.hold("[1]", "unmatched")
    sales.hold("[2]", "unmatched")
    assert sales.verify().resolvable == 0
    sales.execute("INSERT INTO shop.customer VALUES (99, 1, 'Rom')")
    proof = sales.verify()
    assert proof.holds
    assert proof.resolvable == 1
    assert "1 of them have their master data by now" in shown(proof)


def test_only_the_first_examples_are_shown(sales: LandedSales) -> None:
    sales.land(*(sale(number) for number in range(25)))
    (difference,) = sales.verify().differences
    assert (difference.count, len(difference.examples)) == (25, EXAMPLES)


def test_every_kind_of_difference_has_its_words(sales: LandedSales) -> None:
    passed_over = sales.land(sale(0), file="late.json", pending=True, modified=1e9)
    sales.land(sale(1), sale(2), sale(3), sale(4), b"no json", modified=1e9 + 1)
    sales.store_sale(1, city="Rom")
    sales.store_sale(2)
    sales.hold("[2]", "shed")
    sales.store_sale(8)
    sales.hold("[9]", "shed")
    sales.hold("[4]", "can_not_match", reason="a key that can never match: customer is null")
    sales.hold(digest_id(b"no json"), "rejected", b"lost")
    batch_no = sales.book(facts=1, arrived=2)
    sales.execute("UPDATE freshet.batch SET started_at = now() + interval '1 min' WHERE batch_no = %s", batch_no)
    sales.execute("UPDATE freshet.source_range SET batch_no = %s, records = 4", batch_no)
    assert passed_over.exists()
    elsewhere = {"missing_result", "extra_waiting", "state", "fact_key"}
    assert set(sales.differences()) == DIFFERENCES.keys() - elsewhere
    assert "late.json" in shown(sales.verify())


def test_a_missing_table_or_column_is_told(tmp_path: Path, warehouse_url: str) -> None:
    sales = LandedSales(tmp_path, warehouse_url)
    sales.execute("ALTER TABLE shop.fact_sales DROP COLUMN note")
    with pytest.raises(SchemaMismatchError, match=r"shop.fact_sales has no column note; .* Columns: sale_id,"):
        sales.verify()
    sales.execute("DROP TABLE shop.customer")
    with pytest.raises(SchemaMismatchError, match=r"no table shop.customer"):
        sales.verify()


def test_a_warehouse_that_refuses_us_is_told(sales: LandedSales) -> None:
    with pytest.raises(WarehouseUnavailableError):
        verify(sales.definition, f"{sales.url}&dbname=nowhere", sales.home)


def test_a_proof_leaves_nothing_behind(sales: LandedSales) -> None:
    sales.land(sale(1))
    sales.store_sale(1)
    before = sales.verify()
    assert (sales.verify().differences, sales.verify().facts) == (before.differences, before.facts)
    sales.execute(TABLES.replace("CREATE SCHEMA shop;", "DROP SCHEMA shop CASCADE; CREATE SCHEMA shop;"))
