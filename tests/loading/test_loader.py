"""Loading: what becomes a fact, what is held, and what is a duplicate."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.control import drivers
from spark_jobs.definition.fates import FATES, MALFORMED, REFUSED, SHED, UNMATCHED
from spark_jobs.definition.stream_tuple import LoadCounts
from spark_jobs.errors import SchemaMismatchError, WriterFencedError
from spark_jobs.loading import chunk, fact_storage, stream_batch
from spark_jobs.loading.fact_storage import StorageMode
from spark_jobs.loading.loader import WorkerSession
from spark_jobs.loading.outcome import Held, Outcome
from spark_jobs.loading.recent_ids import RecentIds
from spark_jobs.loading.stream_batch import BatchTransaction
from spark_jobs.warehouse.fact_staging import stored_facts
from spark_jobs.warehouse.fact_table import FactTable
from tests.loading.stream import Stream

BOTH_WAYS = pytest.mark.parametrize("careful", [False, True], ids=["optimistic", "careful"])


@BOTH_WAYS
def test_facts_are_stored_as_they_are(orders: Stream, careful: bool) -> None:
    rows = [{"id": 1, "amount": Decimal("12.34"), "note": "first"}, {"id": -2, "amount": Decimal(-1), "note": None}]
    counts = orders.load(Outcome(orders.tuples(rows)), careful=careful)
    assert counts == LoadCounts(facts=2)
    assert orders.query("SELECT * FROM warehouse.fact ORDER BY id") == [
        (-2, Decimal("-1.00"), None),
        (1, Decimal("12.34"), "first"),
    ]
    orders.check()


@BOTH_WAYS
def test_held_tuples_keep_place_reason_relation_and_payload(orders: Stream, careful: bool) -> None:
    at = datetime(2024, 2, 29, 12, 0, 0, 5, UTC)
    tuples = orders.tuples([{"id": 7, "amount": Decimal("0.10"), "note": 'a "b"', "at": at}])
    orders.load(Outcome(None, [Held(UNMATCHED, "no such customer", "master.customer", tuples)]), careful=careful)
    rows = orders.query(
        "SELECT event_id, place, reason, relation, payload, payload_encoding, event_time FROM freshet.held_tuple"
    )
    payload = '{"id":7,"amount":0.10,"note":"a \\"b\\"","at":"2024-02-29T12:00:00.000005Z"}'
    assert rows == [("[7]", "unmatched", "no such customer", "master.customer", payload, "json", at)]
    orders.check()


@BOTH_WAYS
def test_all_places_are_counted_apart(orders: Stream, careful: bool) -> None:
    held = [
        Held(FATES[place], "why", None, orders.orders(ids))
        for place, ids in (("shed", [1, 2]), ("unmatched", [3]), ("rejected", [4, 5, 6]))
    ]
    assert orders.load(Outcome(orders.orders([7]), held), careful=careful) == LoadCounts(1, 2, 1, 3, 0)
    orders.check()


@BOTH_WAYS
def test_nothing_to_load_is_no_transaction(orders: Stream, careful: bool) -> None:
    assert orders.load(Outcome(None, []), careful=careful) == LoadCounts()
    assert orders.load(Outcome(orders.orders([]), [Held(SHED, "why", None, orders.orders([]))])) == LoadCounts()
    orders.check()


# Duplicates


@BOTH_WAYS
@pytest.mark.parametrize("first", ["facts", "held"])
@pytest.mark.parametrize("second", ["facts", "held"])
@pytest.mark.parametrize("when", ["same load", "same batch", "next batch"])
def test_an_event_id_is_stored_once(orders: Stream, first: str, second: str, when: str, careful: bool) -> None:
    earlier, later = getattr(orders, first)([1, 2, 3]), getattr(orders, second)([3, 4, 2])
    if when == "next batch":
        orders.load(earlier, careful=careful)
        orders.load(later, careful=careful)
    elif when == "same batch":
        orders.load(earlier, later, careful=careful)
    else:
        facts = [part.facts for part in (earlier, later) if part.facts is not None]
        orders.load(Outcome(pa.concat_tables(facts) if facts else None, earlier.held + later.held), careful=careful)
    orders.check()
    assert orders.query("SELECT sum(facts + shed), sum(duplicates) FROM freshet.batch") == [(4, 2)]
    if when == "next batch":
        stored = orders.fact_ids() if first == "facts" else [int(text[1:-1]) for text in orders.held_reasons()]
        assert set(stored) >= {2, 3}


def test_the_rest_of_a_load_goes_on_with_care_while_duplicates_come(orders: Stream) -> None:
    orders.load(orders.facts(range(100)))
    with orders.batch() as loader:
        assert loader.load(orders.facts(range(50, 150))).duplicates == 50
        assert loader.load(orders.facts(range(60, 160))) == LoadCounts(facts=10, duplicates=90)
        assert loader.load(orders.facts(range(200, 300))) == LoadCounts(facts=100)
        assert loader.load(orders.facts(range(300, 400))) == LoadCounts(facts=100)
    orders.check()


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[StorageMode]:
    """The modes in which it was tried to store chunks."""
    tried: list[StorageMode] = []
    store = BatchTransaction.store

    def noting(transaction: BatchTransaction, session: WorkerSession, mode: StorageMode) -> LoadCounts:
        tried.append(mode)
        return store(transaction, session, mode)

    monkeypatch.setattr(BatchTransaction, "store", noting)
    return tried


def test_where_duplicates_come_what_was_loaded_lately_is_looked_for_before_it_is_refused(
    orders: Stream, modes: list[StorageMode], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def asking(cursor: Any, fact: FactTable, tuples: pa.Table) -> np.ndarray:
        asked.append(tuples.num_rows)
        return stored_facts(cursor, fact, tuples)

    monkeypatch.setattr(fact_storage, "stored_facts", asking)
    recent = RecentIds()
    for module in (fact_storage, stream_batch):
        monkeypatch.setattr(module, "RECENT_IDS", recent)
    with orders.batch() as loader:
        loader.load(orders.facts(range(1000)))
        assert loader.load(orders.facts(range(990, 2000))).duplicates == 10
    with orders.batch() as loader:  # another task
        assert loader.load(orders.facts(range(1950, 3000))).duplicates == 50
    assert modes == [StorageMode.OPTIMISTIC, StorageMode.OPTIMISTIC, StorageMode.WATCHFUL, StorageMode.WATCHFUL]
    assert 10 <= asked[0] < 30
    assert 50 <= asked[1] < 70
    with orders.batch() as loader:
        for chunk_no in range(4, 26):
            loader.load(orders.facts(range(1000 * chunk_no, 1000 * chunk_no + 10)))
    assert modes[4:] == [StorageMode.WATCHFUL] * 20 + [StorageMode.OPTIMISTIC] * 2
    orders.check()


def test_duplicates_of_what_was_loaded_long_ago_are_found_too(
    orders: Stream, modes: list[StorageMode], monkeypatch: pytest.MonkeyPatch
) -> None:
    with orders.batch() as loader:
        loader.load(orders.facts(range(100)))
        monkeypatch.setattr(fact_storage, "RECENT_IDS", RecentIds())
        assert loader.load(orders.facts(range(50, 150))) == LoadCounts(facts=50, duplicates=50)
    assert modes == [StorageMode.OPTIMISTIC, StorageMode.OPTIMISTIC, StorageMode.WATCHFUL, StorageMode.CAREFUL]
    orders.check()


def test_duplicates_of_what_was_loaded_long_ago_are_refused_once_not_in_each_chunk(
    orders: Stream, modes: list[StorageMode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a file is delivered again after a driver's restart."""
    with orders.batch() as loader:
        loader.load(orders.facts(range(100)))
        for first in range(0, 100, 10):
            monkeypatch.setattr(fact_storage, "RECENT_IDS", RecentIds())
            assert loader.load(orders.facts(range(first, first + 10))) == LoadCounts(duplicates=10)
        refused = [StorageMode.OPTIMISTIC, StorageMode.WATCHFUL]
        assert modes == [StorageMode.OPTIMISTIC, *refused, *[StorageMode.CAREFUL] * 10]
        for first in range(1_000, 1_400, 10):
            loader.load(orders.facts(range(first, first + 10)))
    assert modes[13:] == [StorageMode.CAREFUL] * 11 + [StorageMode.WATCHFUL] * 20 + [StorageMode.OPTIMISTIC] * 9
    orders.check()


def test_a_large_outcome_is_cut_into_transactions(orders: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk, "MOST_ROWS", 10)
    held = [Held(SHED, pa.array([f"reason {n}" for n in range(25)]), None, orders.orders(range(100, 125)))]
    batch_no = orders.open()
    assert orders.loader(batch_no).load(Outcome(orders.orders(range(25)), held)) == LoadCounts(facts=25, shed=25)
    assert orders.query("SELECT count(*), max(facts + shed) FROM freshet.batch_part") == [(6, 10)]
    orders.close_batch(batch_no)
    assert orders.held_reasons() == {f"[{100 + n}]": f"reason {n}" for n in range(25)}
    orders.check()


def test_large_tuples_make_small_transactions(orders: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk, "MOST_BYTES", 10_000)
    batch_no = orders.open()
    held = [Held(SHED, "why", None, orders.orders(range(9), note="x" * 4_000))]
    orders.loader(batch_no).load(Outcome(None, held))
    assert orders.query("SELECT count(*), max(shed) FROM freshet.batch_part") == [(5, 2)]
    orders.close_batch(batch_no)
    orders.check()


# Values that do not fit


BAD_VALUES = [
    ({"amount": Decimal("12345678.00")}, "column amount: 12345678.00 does not fit numeric(9,2), which takes 7 digits"),
    ({"amount": None}, "column amount: it is null, and the column takes no nulls"),
    ({"note": "longer than ten"}, "column note: 'longer than ten' does not fit character varying(10), which takes at"),
    ({"note": "a\0b"}, r"column note: 'a\x00b' holds a NUL byte, which character varying(10) can't"),
    ({"id": None}, "column id: it is null"),
]


@BOTH_WAYS
@pytest.mark.parametrize(("bad", "reason"), BAD_VALUES)
def test_one_bad_value_rejects_one_tuple(orders: Stream, bad: dict, reason: str, careful: bool) -> None:
    good = {"amount": Decimal("1.00"), "note": "ok"}
    rows = [{"id": 1, **good}, {"id": 2, **good, **bad}, {"id": 3, **good}]
    assert orders.load(Outcome(orders.tuples(rows)), careful=careful) == LoadCounts(facts=2, rejected=1)
    assert orders.fact_ids() == [1, 3]
    ((event_id, found),) = orders.held_reasons().items()
    assert found.startswith(reason)
    assert event_id == "[2]" or ("id" in bad and event_id.startswith('{"sha256":"'))
    orders.check()


def test_text_that_is_not_utf8_is_rejected_and_kept_byte_by_byte(orders: Stream) -> None:
    tuples = orders.orders([1])
    broken = pa.array([b"\xffab"], pa.binary()).view(pa.string())
    orders.load(Outcome(tuples.set_column(tuples.column_names.index("note"), "note", broken)))
    ((encoding, reason, raw),) = orders.query(
        "SELECT payload_encoding, reason, decode(payload, 'base64') FROM freshet.held_tuple"
    )
    assert (encoding, reason) == (
        "json.base64",
        r"column note: b'\xffab' is not valid UTF-8, which character varying(10) must be",
    )
    assert b'"note":"\xffab"' in bytes(raw)
    orders.check()


def test_every_bad_tuple_gets_a_reason_of_its_own(orders: Stream) -> None:
    rows = [{"id": n, "amount": Decimal(10) ** n} for n in range(12)]
    assert orders.load(Outcome(orders.tuples(rows))) == LoadCounts(facts=7, rejected=5)
    assert orders.held_reasons() == {
        f"[{n}]": f"column amount: {10**n}.00 does not fit numeric(9,2), which takes 7 digits before the point "
        "and 2 behind it"
        for n in range(7, 12)
    }
    orders.check()


def test_malformed_records_are_told_apart_by_their_digest(orders: Stream) -> None:
    records = [b"{broken", b"{broken", b"\xff\xfe", b"nul\0"]
    assert orders.load(orders.malformed(*records)) == LoadCounts(rejected=3, duplicates=1)
    found = orders.query('SELECT payload, payload_encoding FROM freshet.held_tuple ORDER BY payload COLLATE "C"')
    assert found == [("//4=", "json.base64"), ("bnVsAA==", "json.base64"), ("{broken", "json")]
    orders.check()


def test_what_could_be_read_of_a_malformed_record_is_not_its_id(orders: Stream) -> None:
    tuples = orders.tuples([{"_record": b'{"id":5,', "id": 5}])
    orders.load(Outcome(None, [Held(MALFORMED, "malformed", None, tuples, identified=False)]))
    assert orders.load(orders.facts([5])) == LoadCounts(facts=1)
    orders.check()


def test_reasons_are_stored_whatever_they_quote(orders: Stream) -> None:
    reasons = pa.array([b"nul \0 and \xff", b"fine"], pa.binary()).view(pa.string())
    orders.load(Outcome(None, [Held(REFUSED, reasons, None, orders.orders([1, 2]))]))
    assert orders.held_reasons() == {"[1]": r"nul \0 and \xff", "[2]": "fine"}


def test_times_beyond_the_calendar_are_held_without_an_event_time(orders: Stream) -> None:
    tuples = orders.orders([1])
    beyond = pa.array([-(2**62)]).cast(pa.timestamp("us", tz="UTC"))
    tuples = tuples.set_column(tuples.column_names.index("at"), "at", beyond)
    orders.load(Outcome(None, [Held(SHED, "why", None, tuples)]))
    assert orders.query("SELECT event_time FROM freshet.held_tuple") == [(None,)]


# Fencing


def test_an_older_driver_can_not_write(orders: Stream) -> None:
    batch_no = orders.open()
    loader = orders.loader(batch_no)
    loader.load(orders.facts([1]))
    drivers.take_over(orders.connection, "orders", log_file=None)
    with pytest.raises(WriterFencedError, match="A newer driver of pipeline orders"):
        loader.load(orders.facts([2]))
    with pytest.raises(WriterFencedError, match="A newer driver"):
        orders.close_batch(batch_no)
    with pytest.raises(WriterFencedError, match="A newer driver"):
        orders.open()
    assert orders.fact_ids() == [1]


def test_a_driver_can_not_write_into_a_warehouse_that_was_restored_from_before_its_time(orders: Stream) -> None:
    loader = orders.loader(orders.open())
    orders.query("UPDATE freshet.pipeline SET epoch = epoch - 1")
    with pytest.raises(WriterFencedError, match="restored to an earlier time"):
        loader.load(orders.facts([1]))
    with pytest.raises(WriterFencedError, match="restored to an earlier time"):
        orders.open()


def test_a_left_over_task_can_not_write_into_a_closed_batch(orders: Stream) -> None:
    committed = orders.open()
    orders.close_batch(committed)
    with pytest.raises(WriterFencedError, match=f"Batch {committed} of pipeline orders is committed"):
        orders.loader(committed).load(orders.facts([1]))
    with pytest.raises(WriterFencedError, match="has no batch 99"):
        orders.loader(99).load(orders.facts([1]))
    orders.check()


# Other shapes of fact tables


def test_identifiers_are_quoted(clean_warehouse: str) -> None:
    ddl = (
        'DROP SCHEMA IF EXISTS "Ware House" CASCADE; CREATE SCHEMA "Ware House";'
        'CREATE TABLE "Ware House"."fact ""orders""" '
        '("Größe ""x""" integer, "select" text, number bigint, PRIMARY KEY ("select", "Größe ""x"""))'
    )
    types = {'Größe "x"': pa.int32(), "select": pa.string(), "number": pa.int64()}
    stream = Stream(clean_warehouse, ddl, types, ('Größe "x"', "select"), 'Ware House.fact "orders"')
    rows = [{'Größe "x"': 1, "select": "a'b", "number": 5}, {'Größe "x"': 2, "select": "%s", "number": 6}]
    assert stream.load(Outcome(stream.tuples(rows))) == LoadCounts(facts=2)
    rows.append({'Größe "x"': 1, "select": "%s", "number": 7})
    assert stream.load(Outcome(stream.tuples(rows))) == LoadCounts(facts=1, duplicates=2)
    assert len(stream.query('SELECT * FROM "Ware House"."fact ""orders"""')) == 3
    stream.close()


def test_composite_keys_of_many_types(clean_warehouse: str) -> None:
    ddl = (
        "CREATE TABLE warehouse.fact (u uuid, d date, n numeric(12, 3), b boolean, t text, amount bigint, "
        "PRIMARY KEY (u, d, n, b, t))"
    )
    types = {
        "u": pa.string(), "d": pa.date32(), "n": pa.decimal128(12, 3), "b": pa.bool_(), "t": pa.string(),
        "amount": pa.int64(),
    }  # fmt: skip
    key = ("t", "u", "d", "n", "b")
    stream = Stream(clean_warehouse, ddl, types, key)
    day = datetime(2024, 5, 6, tzinfo=UTC).date()
    rows = [
        {
            "u": "550E8400-E29B-41D4-A716-446655440000",
            "d": day,
            "n": Decimal("1.500"),
            "b": True,
            "t": "é\t",
            "amount": 1,
        },
        {"u": "550e8400-e29b-41d4-a716-446655440001", "d": day, "n": Decimal(-2), "b": False, "t": "", "amount": 2},
    ]
    stream.load(Outcome(stream.tuples(rows[:1])))
    stream.load(Outcome(None, [Held(SHED, "why", None, stream.tuples(rows[1:]))]))
    same = [{**rows[0], "u": "{550e8400e29b41d4a716446655440000}"}, {**rows[1], "u": rows[1]["u"].upper()}]
    for careful in (False, True):
        assert stream.load(Outcome(stream.tuples(same)), careful=careful) == LoadCounts(duplicates=2)
        stream.load(Outcome(None, [Held(UNMATCHED, "why", None, stream.tuples(same))]), careful=careful)
        stream.check()
    assert stream.query("SELECT sum(facts), sum(shed), sum(unmatched), sum(duplicates) FROM freshet.batch") == [
        (1, 1, 0, 8)
    ]
    stream.close()


def test_event_ids_too_long_for_a_key_are_rejected(clean_warehouse: str) -> None:
    stream = Stream(clean_warehouse, "CREATE TABLE warehouse.fact (id text PRIMARY KEY)", {"id": pa.string()}, ("id",))
    rows = [{"id": "a" * 1_900}, {"id": "b" * 5_000}, {"id": "b" * 5_000}, {"id": "c"}]
    assert stream.load(Outcome(stream.tuples(rows))) == LoadCounts(facts=2, rejected=1, duplicates=1)
    assert list(stream.held_reasons().values()) == [
        "event id: its text has more than 2000 characters, too many for a key"
    ]
    stream.check()
    stream.close()


def test_partitioned_fact_tables_take_facts_and_reject_what_has_no_partition(clean_warehouse: str) -> None:
    ddl = (
        "CREATE TABLE warehouse.fact (id bigint PRIMARY KEY) PARTITION BY RANGE (id);"
        "CREATE TABLE warehouse.fact_low PARTITION OF warehouse.fact FOR VALUES FROM (0) TO (100)"
    )
    stream = Stream(clean_warehouse, ddl, {"id": pa.int64()})
    rows = [{"id": n} for n in (1, 2, 100, 3)]
    assert stream.load(Outcome(stream.tuples(rows))) == LoadCounts(facts=3, rejected=1)
    assert stream.load(Outcome(stream.tuples(rows))) == LoadCounts(duplicates=4)
    assert 'no partition of relation "fact" found' in stream.held_reasons()["[100]"]
    stream.check()
    stream.close()


@pytest.mark.parametrize(
    "change",
    ["RENAME note TO remark", "RENAME TO facts", "ALTER id TYPE integer", "ALTER amount TYPE double precision"],
)
def test_a_table_that_changed_meanwhile_is_reported(orders: Stream, change: str) -> None:
    orders.query(f"ALTER TABLE warehouse.fact {change}")
    batch_no = orders.open()
    with pytest.raises(SchemaMismatchError, match=r"warehouse\.fact, or Freshet's own tables, have changed"):
        orders.loader(batch_no).load(orders.facts([1]))


def test_latencies_are_measured_to_the_commit(orders: Stream) -> None:
    now = datetime.now(UTC)
    rows = [
        {"id": 1, "amount": 1, "at": now - timedelta(hours=1)},
        {"id": 2, "amount": 1, "at": now + timedelta(hours=1)},
    ]
    orders.load(Outcome(orders.tuples(rows)))
    ((event, arrival),) = orders.query("SELECT event_latency, arrival_latency FROM freshet.batch")
    assert (sum(event), sum(arrival)) == (2, 2)
    assert event[0] == 1  # clocks differ: it can't have been loaded before it happened
    assert sum(event[150:170]) == 1  # about an hour
    orders.check()


def test_loaders_of_one_thread_share_a_connection(orders: Stream) -> None:
    sessions = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE application_name = 'freshet load orders' AND datname = current_database()"
    )
    for _ in range(3):
        orders.load(orders.facts([]), orders.held([1]))
    assert orders.query(sessions) == [(1,)]


def test_the_facts_of_a_chunk_are_stored_in_the_order_of_their_ids(orders: Stream) -> None:
    orders.load(orders.facts([30, 10, 20]))
    assert orders.query("SELECT id FROM warehouse.fact ORDER BY ctid") == [(10,), (20,), (30,)]
