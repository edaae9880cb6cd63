"""Of several streams: each event is in exactly one place, and the facts equal the plain join of the streams."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import psycopg2
import pyarrow as pa
import pytest
from rich.console import Console

from spark_jobs.loading.held_rows import HeldRows
from spark_jobs.proof.proof import Proof, StreamPlaces
from spark_jobs.source.files.planned_file import FileSlice
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.stages.screening import screen_part
from spark_jobs.stages.stream_plan import StreamPlan
from spark_jobs.warehouse.fact_table_check import describe_fact_table
from tests.proof.landed_streams import DEFINITION, TABLES, LandedStreams, order, payment

NULL_KEY = "a key that can never match: order_id is null"
LATE = "late: orders had come to somewhere when the event arrived"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, migrated_database: str) -> LandedStreams:
    """Events in every place there is."""
    shop = LandedStreams(tmp_path_factory.mktemp("streams"), migrated_database)
    known = [order(1), order(2, 50), order(3), order(4, -300), order(5, customer=9), order(6, -200)]
    shop.land("orders", "o1.json", *known, b"{")
    shop.land("orders", "o2.json", order(1))
    shop.land("orders", "o3.json", order(8), pending=True)
    paid = [payment(11, 1, 5), payment(12, 2, 55), payment(13, 2, 70), payment(15, 5, 5)]
    waiting = [payment(14, 4), payment(16, 6, -190), payment(18, 8, 10), payment(31, 30, 1)]
    shop.land("payments", "p1.json", *paid, *waiting, payment(17, None))
    shop.land("payments", "p2.json", payment(11, 1, 5))
    for order_id, payment_id, completed in ((1, 11, 5), (2, 12, 55), (2, 13, 70)):
        shop.store(order_id, payment_id, completed)
    shop.hold_result("[5,15]", ("orders", order(5, customer=9)), ("payments", payment(15, 5, 5)))
    shop.hold("orders/[4]", "expired", "no payments within 2:00:00 of it", order(4, -300))
    shop.hold("orders/[6]", "late", LATE, order(6, -200), "orders/o1.json")
    shop.hold_raw("orders", b"{")
    shop.hold(
        "payments/[17]",
        "can_not_match",
        NULL_KEY,
        payment(17, None),
        "payments/p1.json",
    )
    shop.hold("payments/[11]", "late", LATE, payment(11, 1, 5), "payments/p2.json")
    shop.wait("orders", order(3))
    shop.wait("payments", *waiting)
    shop.tell("orders", -100, arrived=8, duplicate=1, rejected=1, late=1, joined=3, expired=1, waiting=1)
    shop.tell("payments", 6, arrived=10, rejected=1, late=1, joined=4, waiting=4)
    shop.execute(
        "UPDATE freshet.batch SET arrived = 18, placed = 17, facts = 3, unmatched = 2, rejected = 4, duplicates = 1"
    )
    return shop


def shown(proof: Proof) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(proof.render())
    return capture.get()


def test_events_in_every_place_hold(shop: LandedStreams) -> None:
    proof = shop.verify()
    assert proof.differences == ()
    assert proof.streams == (
        StreamPlaces("orders", 3, 8, 3, 1, 1, 2, 1, 0, 1, 1),
        StreamPlaces("payments", 2, 10, 4, 4, 0, 2, 1, 0, 0, 0),
    )
    assert (proof.facts, proof.unmatched, proof.records, proof.files, proof.pending_files) == (3, 1, 19, 5, 1)
    text = shown(proof)
    assert "= in a result" in text
    assert "the tuple's law holds" in text
    assert proof.to_dict()["streams"][1]["waiting"] == 4


def test_a_result_that_is_lost_is_named_with_the_places_of_its_parts(shop: LandedStreams) -> None:
    with shop.spoilt("DELETE FROM shop.fact_paid WHERE payment_id IN (12, 13)"):
        shop.wait("payments", *shop.waiting["payments"], payment(13, 2, 70))
        differences = shop.differences()
        assert differences.pop("missing_result") == (
            "[2,12] of payments/p1.json: orders is nowhere, payments is nowhere",
            "[2,13] of payments/p1.json: orders is nowhere, payments is waiting",
        )
        assert differences.pop("missing") == ("orders/[2] of orders/o1.json", "payments/[12] of payments/p1.json")
        assert differences.keys() == {"ledger"}


def test_a_held_tuple_that_has_a_partner_has_not_expired(shop: LandedStreams) -> None:
    lost = "DELETE FROM shop.fact_paid WHERE payment_id = 12"
    with shop.spoilt(lost):
        shop.hold("payments/[12]", "expired", "no orders within 2:00:00 of it", payment(12, 2, 55))
        assert shop.differences()["missing_result"] == (
            "[2,12] of payments/p1.json: orders is in a result, payments is expired",
        )


def test_a_rejected_tuple_that_has_a_partner_has_not_expired_either(shop: LandedStreams) -> None:
    with shop.spoilt("DELETE FROM shop.fact_paid WHERE payment_id = 12"):
        shop.hold("payments/[12]", "expired_rejected", "no orders within 2:00:00 of it", payment(12, 2, 55))
        assert shop.differences()["missing_result"] == (
            "[2,12] of payments/p1.json: orders is in a result, payments is expired",
        )


def test_a_result_that_the_join_does_not_give_is_extra(shop: LandedStreams) -> None:
    facts = "INSERT INTO shop.fact_paid VALUES (%s, 11, 1.5, '2026-03-01 12:00:00Z')"
    beyond, late, unlike, unlanded = "4, 14", "6, 16", "3, 31", "3, 99"
    with shop.spoilt(*(facts % ids for ids in (beyond, late, unlike, unlanded))):
        differences = shop.differences()
        assert differences["extra_fact"] == ("[3,31]", "[3,99]", "[4,14]", "[6,16]")
        assert differences["in_two_places"] == (
            "orders/[3] is in a result and waiting",
            "orders/[4] is in a result and expired",
            "orders/[6] is in a result and rejected",
            "payments/[14] is in a result and waiting",
            "payments/[16] is in a result and waiting",
            "payments/[31] is in a result and waiting",
        )


def test_a_wrong_column_is_named_whichever_stream_it_comes_from(shop: LandedStreams) -> None:
    wrong = "UPDATE shop.fact_paid SET amount = 2 WHERE payment_id = 11"
    late = "UPDATE shop.fact_paid SET completed_at = '2026-03-01 12:50:00Z' WHERE payment_id = 12"
    customer = "UPDATE shop.fact_paid SET customer_sk = 12 WHERE payment_id = 13"
    with shop.spoilt(wrong, late, customer):
        assert shop.differences() == {
            "wrong_fact": (
                "[1,11] of payments/p1.json: amount is 2.00, should be 1.50",
                "[2,12] of payments/p1.json: completed_at is 2026-03-01 12:50:00+00, should be 2026-03-01 12:55:00+00",
                "[2,13] of payments/p1.json: customer_sk is 12, should be 11",
            )
        }


def test_an_event_that_the_state_has_lost_is_missing(shop: LandedStreams) -> None:
    with shop.spoilt():
        shop.wait("orders")
        assert shop.differences() == {
            "missing": ("orders/[3] of orders/o1.json",),
            "ledger": ("orders, waiting: the ledger says 1, found are 0",),
        }


def test_what_waits_and_never_landed_is_extra(shop: LandedStreams) -> None:
    with shop.spoilt():
        shop.wait("orders", order(3), order(77))
        assert shop.differences() == {"extra_waiting": ("orders/[77]",)}


def test_a_damaged_state_is_a_difference(shop: LandedStreams) -> None:
    with shop.spoilt():
        [version] = (shop.home.join_state("paid") / "0").glob("version.*")
        version.write_bytes(version.read_bytes()[:-1])
        differences = shop.differences()
        assert differences.keys() == {"state", "missing", "ledger"}
        assert version.name in differences["state"][0]


def test_held_tuples_are_compared_with_their_own_streams_records(shop: LandedStreams) -> None:
    other = "UPDATE freshet.held_tuple SET payload = replace(payload, '{}', '{}') WHERE event_id = '{}'"
    with shop.spoilt(
        other.format("a note", "no note", "orders/[4]"),
        other.format("a note", "no note", "[5,15]"),
        "UPDATE freshet.held_tuple SET event_id = 'payments/[97]' WHERE event_id = 'payments/[17]'",
    ):
        differences = shop.differences()
        assert differences["wrong_payload"] == ("[5,15]", "orders/[4]")
        assert differences["extra_held"] == ("payments/[97] is rejected",)
        assert differences["missing"] == ("payments/[17] of payments/p1.json",)


def test_reasons_that_do_not_hold_are_told(shop: LandedStreams) -> None:
    earlier = "UPDATE freshet.batch_stream SET reached = '2026-03-01 08:00Z' WHERE stream = 'orders'"
    with shop.spoilt(earlier):
        shop.hold(
            "payments/[12]",
            "can_not_match",
            NULL_KEY,
            payment(12, 2, 55),
            "payments/p1.json",
        )
        assert shop.differences()["wrongly_rejected"] == (
            "orders/[6]: it is not late, orders had come to 2026-03-01 08:00:00+00",
            "payments/[12]: a key that can never match: order_id is null",
        )


def test_the_ledgers_law_and_figures_are_compared_stream_by_stream(shop: LandedStreams) -> None:
    moved = (
        "UPDATE freshet.batch_fate SET tuples = tuples - 1 WHERE (stream, fate) = ('payments', 'joined'); "
        "INSERT INTO freshet.batch_fate SELECT batch_no, stream, 'expired', 1 FROM freshet.batch_stream "
        "WHERE stream = 'payments'"
    )
    lost = "UPDATE freshet.batch_stream SET arrived = arrived + 1 WHERE stream = 'orders'"
    with shop.spoilt(moved, lost):
        assert shop.differences() == {
            "balance": ("orders: 9 arrived, 8 are joined, waiting, expired, rejected or duplicates",),
            "ledger": (
                "orders, arrived: the ledger says 9, found are 8",
                "payments, joined: the ledger says 3, found are 4",
                "payments, expired: the ledger says 1, found are 0",
            ),
        }
    with shop.spoilt("UPDATE freshet.source_range SET records = 10 WHERE unit = 'payments/p1.json'", lost):
        assert shop.differences()["arrived"] == ("payments/p1.json: 10 by the ledger, 9 in the file",)


def test_of_an_event_whose_file_is_gone_nothing_is_proved(shop: LandedStreams) -> None:
    with shop.spoilt():
        os.unlink(shop.folder("payments") / "p1.json")
        proof = shop.verify()
        assert proof.differences == ()
        assert (proof.gone_facts, proof.gone_held) == (2, 2)  # the late copy of payment 11 is there
        assert [note.kind for note in proof.notes] == ["gone"]
        shop.execute("INSERT INTO shop.fact_paid VALUES (2, 11, 11, 1.5, '2026-03-01 12:50:00Z')")
        assert shop.differences()["extra_fact"] == ("[2,11]",)


def test_an_event_with_several_contents_may_be_joined_by_any_of_them(shop: LandedStreams) -> None:
    with shop.spoilt(
        "UPDATE freshet.batch_stream SET arrived = arrived + 1 WHERE stream = 'payments'; "
        "INSERT INTO freshet.batch_fate SELECT batch_no, stream, 'duplicate', 1 FROM freshet.batch_stream "
        "WHERE stream = 'payments'"
    ):
        shop.land("payments", "p3.json", payment(12, 3, 55))
        differences = shop.differences()
        assert differences == {}
        shop.execute("UPDATE shop.fact_paid SET order_id = 3 WHERE payment_id = 12")
        assert shop.differences()["in_two_places"] == ("orders/[3] is in a result and waiting",)


@pytest.mark.parametrize(
    ("within", "missing", "extra"),
    [
        ({"within": "301m"}, ["[4,14]"], []),
        ({"within": "19m"}, [], ["[2,13]"]),
        ({"within": {"fixed": "1h"}}, [], ["[2,13]"]),
        ({"within": {"fixed": "6h"}}, [], []),
        ({"within": None}, ["[4,14]"], []),
    ],
)
def test_a_result_is_there_where_its_parts_are_valid_at_a_common_time(
    shop: LandedStreams, within: dict[str, object], missing: list[str], extra: list[str]
) -> None:
    differences = shop.differences(**within)
    assert [each.split(" ")[0] for each in differences.get("missing_result", ())] == missing
    assert list(differences.get("extra_fact", ())) == extra


@pytest.mark.parametrize("rule", ["unique", {"count": "orders.customer"}], ids=["unique", "counted"])
def test_what_came_after_the_last_is_no_part_and_a_punctuation_had_landed_that_said_so(
    rule: object, shop: LandedStreams
) -> None:
    reason = "as many had come"
    with shop.spoilt("DELETE FROM shop.fact_paid WHERE payment_id = 13"):
        shop.hold("payments/[13]", "after_last", reason, payment(13, 2, 70), "payments/p1.json")
        differences = shop.differences(punctuations={"payments": rule})
        assert differences.keys() & {"missing_result", "wrongly_rejected"} == set()
        shop.hold("payments/[18]", "after_last", reason, payment(18, 8, 10), "payments/p1.json")
        differences = shop.differences(punctuations={"payments": rule})
        assert differences["wrongly_rejected"] == ("payments/[18]: no punctuation of its key had come before it",)


def test_what_came_later_was_not_loaded_or_was_rejected_itself_is_no_punctuation(shop: LandedStreams) -> None:
    before = "no punctuation of its key had come before it"
    reason = "a key comes once"
    with shop.spoilt("DELETE FROM shop.fact_paid WHERE payment_id IN (12, 13)"):
        shop.land("payments", "p3.json", payment(19, 8, 10), pending=True)
        shop.hold("payments/[18]", "after_last", reason, payment(18, 8, 10), "payments/p1.json")
        shop.hold("payments/[12]", "after_last", reason, payment(12, 2, 55), "payments/p1.json")
        told = (f"payments/[12]: {before}", f"payments/[18]: {before}")
        assert shop.differences(punctuations={"payments": "unique"})["wrongly_rejected"] == told
        shop.hold("payments/[13]", "after_last", reason, payment(13, 2, 70), "payments/p1.json")
        told = (f"payments/[12]: {before}", f"payments/[13]: {before}", f"payments/[18]: {before}")
        assert shop.differences(punctuations={"payments": "unique"})["wrongly_rejected"] == told


def test_a_count_that_a_later_stream_tells_holds_from_the_next_batch_on(shop: LandedStreams) -> None:
    with shop.spoilt():
        shop.land("payments", "p3.json", payment(-5, 2, 55))
        shop.hold("orders/[2]", "after_last", "none come", order(2, 50), "orders/o1.json")
        differences = shop.differences(punctuations={"orders": {"count": "payments.id"}})
        assert differences["wrongly_rejected"] == ("orders/[2]: no punctuation of its key had come before it",)


def test_ids_that_are_too_long_and_keys_that_postgresql_can_not_hold_have_their_places(
    tmp_path: Path, warehouse_url: str
) -> None:
    tables = TABLES.replace("_id bigint", "_id text")
    definition = DEFINITION.replace("id bigint", "id string")
    shop = LandedStreams(tmp_path, warehouse_url, tables, definition)
    too_long, half, nul = (order(1) | {"id": name} for name in ("x" * 2600, "y" * 1200, "n\0l"))
    waiting, other_half, of_nul = (
        payment(0, None, 5) | {"id": name, "order_id": part["id"]}
        for name, part in (("a", too_long), ("z" * 1200, half), ("b", nul))
    )
    screen_and_hold(shop, "orders", shop.land("orders", "o1.json", too_long, half, nul))
    screen_and_hold(shop, "payments", shop.land("payments", "p1.json", waiting, other_half, of_nul))
    assert shop.rows("SELECT reason FROM freshet.held_tuple ORDER BY 1") == [
        ('a key that can never match: id is "n\\u0000l", which is not UTF-8 or has a NUL byte',),
        ('a key that can never match: order_id is "n\\u0000l", which is not UTF-8 or has a NUL byte',),
        ("event id: its text has more than 2000 characters, too many for a key",),
    ]
    shop.hold_result(None, ("orders", half), ("payments", other_half), fate="unidentified", reason="event id: too long")
    shop.wait("orders")
    shop.wait("payments", waiting)
    shop.tell("orders", -100, arrived=3, rejected=2, joined=1)
    shop.tell("payments", -100, arrived=3, rejected=1, joined=1, waiting=1)
    shop.execute("UPDATE freshet.batch SET arrived = 6, placed = 6, rejected = 4")
    proof = shop.verify()
    assert proof.differences == ()
    assert [(stream.in_result, stream.waiting, stream.rejected) for stream in proof.streams] == [(1, 0, 2), (1, 1, 1)]
    shop.execute("DELETE FROM freshet.held_tuple WHERE event_id LIKE '{%'")
    assert "missing_result" in shop.differences()


def screen_and_hold(shop: LandedStreams, stream: str, path: Path) -> None:
    """Hold what the screening of a stream rejects of a landed file."""
    found = path.stat()
    types = {name: kind.arrow() for name, kind in shop.definition.source.columns.items()}
    with closing(psycopg2.connect(shop.url)) as connection:
        fact = describe_fact_table(connection, shop.definition, {**types, "customer_sk": pa.int64()})
        plan = StreamPlan.of(shop.definition, stream, fact, SliceReader.of_streams(shop.definition)[stream])
        for arrivals in plan.reader(FileSlice(0, str(path), 0, found.st_size, found.st_size, found.st_mtime_ns)):
            _, rejected = screen_part(arrivals.tuples, plan)
            units = [f"{stream}/{path.name}"]
            with connection, connection.cursor() as cursor:
                HeldRows.build(rejected, plan.held.event, fact.key, shop.batch_no, units).store(cursor)
