"""Why tuples are held, which keys are missing, and how some are forgotten."""

from __future__ import annotations

import json

import pytest

from spark_jobs.ledger.status.events import read_events
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.reprocessing.held_tuples import (
    HeldFilter,
    count_forgettable,
    forget,
    held_groups,
    held_samples,
    registered_lookups,
    until_now,
)
from tests.loading.stream import Stream
from tests.reprocessing.conftest import STRANGER, Backlog
from tests.spark.shop import land, sale
from tests.test_cli import invoke


@pytest.fixture
def held(backlog: Backlog) -> Backlog:
    """Sales of two customers that are not there, one malformed, and two facts."""
    unknown = [*(sale(n, customer=STRANGER) for n in range(3)), sale(3, customer=STRANGER + 1)]
    land(backlog.folder, "sales", [*unknown, sale(10), sale(11), "no sale"])
    backlog.load()
    return backlog


def test_groups_tell_reasons_and_missing_keys(held: Backlog) -> None:
    with held.connected() as connection:
        lookups = registered_lookups(connection, "sales")
        assert lookups == [("shop.customer", ["customer"])]
        groups = held_groups(connection, HeldFilter("sales"), lookups)
        assert [(each.place, each.tuples, each.hopeless, each.unread) for each in groups] == [
            ("unmatched", 4, 0, 0),
            ("rejected", 1, 0, 1),
        ]
        assert groups[0].keys == ((str(STRANGER), 3), (str(STRANGER + 1), 1))
        (sample,) = held_samples(connection, HeldFilter("sales", ["rejected"]), 5)
        assert sample.payload == '"no sale"'
        assert sample.reason.startswith("malformed")


def test_a_reason_of_which_the_numbers_differ_is_shown_as_no_single_one(orders: Stream) -> None:
    for number, fields in enumerate((1, 7, 10)):
        orders.load(orders.held(range(number, number + 1), "rejected", f"malformed: {fields} fields instead of 8"))
    orders.load(orders.held(range(3, 5), "rejected", "5 fields too many"))
    groups = held_groups(orders.connection, HeldFilter("orders"))
    assert [(each.reason, each.tuples) for each in groups] == [
        ("malformed: … fields instead of …", 3),
        ("5 fields too many", 2),
    ]


@pytest.mark.parametrize(
    ("written_as", "record"), [("json", '{"after": row}'), ("json", '{"payload": {"after": row}}'), ("avro", "row")]
)
def test_of_an_envelope_the_row_tells_the_missing_keys(orders: Stream, written_as: str, record: str) -> None:
    """Of an Avro record its columns are held, without the envelope."""
    orders.load(orders.held(range(3), "unmatched", "no such customer"))
    orders.query(
        "UPDATE freshet.held_tuple SET relation = 'shop.customer', payload_encoding = 'json', payload = replace(%s, "
        "'row', jsonb_build_object('customer', CASE event_id WHEN '[2]' THEN NULL ELSE 7 END)::text)",
        [record],
    )
    definition = {"source": {"envelope": "debezium", "format": written_as}}
    orders.query("UPDATE freshet.pipeline SET definition = %s", [json.dumps(definition)])
    orders.connection.commit()
    (group,) = held_groups(orders.connection, HeldFilter("orders"), [("shop.customer", ["customer"])])
    assert group.keys == (("7", 2), ("null", 1))


def test_what_is_forgotten_has_arrived_and_comes_no_more(held: Backlog) -> None:
    with held.connected() as connection:
        (before,) = read_status(connection)
        assert forget(connection, HeldFilter("sales", ["unmatched"]), "ada") == 4
        assert forget(connection, HeldFilter("sales", ["unmatched"]), "ada") == 0
        (after,) = read_status(connection)
        happened = [(event.detail, event.asked_by) for event in read_events(connection, "sales")]
    assert (after.arrived, after.unmatched, after.pruned) == (before.arrived, 0, before.pruned + 4)
    assert ("4 unmatched tuples forgotten", "ada") in happened
    assert held.runs("algorithm", "taken", "statistics ->> 'by'") == [("forget", 4, "ada")]
    land(held.folder, "again", [sale(0, customer=STRANGER)])
    held.load()
    assert held.places() == {"fact": 2, "rejected": 1}
    proof = held.verify()
    assert (proof.holds, proof.pruned) == (True, 4)


def test_a_text_of_the_record_chooses_what_is_shown_retried_and_forgotten(held: Backlog) -> None:
    """Braces and percent signs are texts like others."""
    chosen = HeldFilter("sales", text=f'"customer": {STRANGER + 1}')
    with held.connected() as connection:
        (sample,) = held_samples(connection, chosen, 5)
        assert sample.place == "unmatched"
        assert held_samples(connection, chosen, 5, 3)[0].payload == sample.payload[:3]
        for text in ("{%s}", "%", "no such text"):
            assert held_groups(connection, HeldFilter("sales", text=text)) == []
    held.reprocess(all_unmatched=True, text=chosen.text, by="grace")
    assert held.runs("taken", "statistics ->> 'by'") == [(1, "grace")]
    with held.connected() as connection:
        assert forget(connection, chosen, "ada") == 1


def test_what_comes_to_be_held_after_a_look_is_not_forgotten_by_it(held: Backlog) -> None:
    with held.connected() as connection:
        shown = until_now(connection, HeldFilter("sales"))
        assert count_forgettable(connection, shown) == 5
    land(held.folder, "later", [sale(20, customer=STRANGER), "no sale either"])
    held.load()
    with held.connected() as connection:
        assert count_forgettable(connection, HeldFilter("sales")) == 7
        assert sum(group.tuples for group in held_groups(connection, shown)) == 5
        assert forget(connection, shown, "ada") == 5
    assert held.places() == {"fact": 2, "unmatched": 1, "rejected": 1}


def test_the_command_says_which(held: Backlog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESHET_WAREHOUSE_URL", held.url)
    status, _, error = invoke("held", "sales", "--forget")
    assert (status, "say which, by --place, --reason or --text" in error.replace("\n", " ")) == (2, True)
