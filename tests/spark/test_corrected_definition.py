"""The commonest incident: the schema was too narrow. It is corrected, and what it refused is read again, and proved."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg2
import pytest

from spark_jobs.definition import load_definition
from spark_jobs.ledger import files_not_loaded
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.proof.proof import Proof
from spark_jobs.reprocessing.held_tuples import HeldFilter, forget, held_groups
from spark_jobs.reprocessing.reprocessing_job import ReprocessingJob
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.reprocessing.requeue import Requeued, requeue
from spark_jobs.warehouse.connection import connect
from tests.proof.landed_sales import balance
from tests.spark.conftest import Shop
from tests.spark.shop import land, query, sale, sales_definition

FACTS = "SELECT sale_id, amount::text FROM shop.fact_sales WHERE sale_id >= 50 ORDER BY 1"
NARROW = [sale(50, amount="1.234"), sale(51, amount="2.345"), sale(51, amount="2.345")]


def correct(shop: Shop) -> None:
    """Widen schema and column."""
    source = sales_definition(shop.folder)["source"]
    shop.define(source=source | {"schema": source["schema"].replace("decimal(12,2)", "decimal(12,3)")})
    query(shop.url, "ALTER TABLE shop.fact_sales ALTER amount TYPE numeric(12, 3)")


def read_again(shop: Shop) -> Requeued:
    with closing(connect(shop.url)) as connection:
        done = requeue(connection, "sales", "malformed")
    request = ReprocessingRequest(limit=1000)
    ReprocessingJob(load_definition(shop.path), shop.url, request, lambda: shop.spark).run()
    return done


def notes(proof: Proof) -> dict[str, int]:
    return {note.kind: note.count for note in proof.notes}


def unaccounted(shop: Shop) -> int:
    with closing(connect(shop.url)) as connection:
        (status,) = read_status(connection)
    return status.unaccounted


@pytest.fixture
def narrow(shop: Shop) -> Shop:
    """Five sales are facts, two were rejected, one of them twice, and so was a line that is none."""
    land(shop.folder, "sound", (sale(n) for n in range(5)))
    land(shop.folder, "narrow", [*NARROW, b"{"])
    shop.load()
    assert query(shop.url, FACTS) == []
    proof = shop.verify()
    assert (proof.holds, proof.rejected, notes(proof)) == (True, 3, {})
    with closing(connect(shop.url)) as connection:
        groups = held_groups(connection, HeldFilter("sales"))
    assert sum(group.unread for group in groups) == 3
    assert not any(group.hopeless for group in groups)
    return shop


def test_what_a_corrected_schema_can_read_becomes_facts_and_the_proof_holds_all_the_while(narrow: Shop) -> None:
    correct(narrow)
    proof = narrow.verify()
    assert (proof.holds, notes(proof)) == (True, {"readable": 2}), "before anything is read again"
    assert read_again(narrow).tuples == 3
    assert query(narrow.url, FACTS) == [(50, "1.234"), (51, "2.345")]
    [(place, reason)] = query(narrow.url, "SELECT place, reason FROM freshet.held_tuple")
    assert (place, "malformed" in reason) == ("rejected", True), "the line that is none"
    proof = narrow.verify()
    assert (proof.holds, proof.facts, proof.rejected, notes(proof)) == (True, 7, 1, {})
    assert unaccounted(narrow) == 0


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_file_that_is_read_again_by_a_corrected_schema_leaves_a_proof_that_holds(
    narrow: Shop, forgotten: bool
) -> None:
    correct(narrow)
    with closing(psycopg2.connect(narrow.url)) as connection:
        assert files_not_loaded.ask_to_retry(connection, "sales", "narrow.json")
    narrow.load()
    assert query(narrow.url, FACTS) == [(50, "1.234"), (51, "2.345")]
    proof = narrow.verify()
    assert proof.holds
    rows = balance(proof)
    assert (rows["landed"], rows["- duplicates"], rows["+ read again"], rows["stored"]) == (9, 1, 2, 10)
    if forgotten:
        with closing(connect(narrow.url)) as connection:
            assert forget(connection, HeldFilter("sales", ("rejected",)), "somebody") == 3
    else:
        assert read_again(narrow).tuples == 3
        assert query(narrow.url, "SELECT count(*) FROM freshet.held_tuple") == [(1,)]
    proof = narrow.verify()
    assert (proof.holds, proof.facts) == (True, 7)
    balance(proof)
    assert unaccounted(narrow) == 0


def test_a_reason_that_does_not_hold_by_the_definition_that_gave_it_is_a_difference(narrow: Shop) -> None:
    """The proof forgives nothing else: here nothing was corrected, and the record could be read all along."""
    query(
        narrow.url,
        "UPDATE freshet.held_tuple SET event_id = (SELECT '{\"sha256\":\"' || encode(sha256(convert_to(%s, 'UTF8')), "
        "'hex') || '\"}') WHERE event_id = (SELECT min(event_id) FROM freshet.held_tuple)",
        [_line(narrow, "sound.json")],
    )
    assert "wrongly_rejected" in {each.kind for each in narrow.verify().differences}


def _line(shop: Shop, name: str) -> Any:
    return (shop.folder / "landing" / name).read_text().splitlines()[0]
