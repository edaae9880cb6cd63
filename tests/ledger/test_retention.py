"""Retention: what is old goes, its sums stay, and the balance holds."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

import pytest

from spark_jobs.control.drivers import take_over
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition.stream_tuple import LoadCounts
from spark_jobs.errors import FreshetError
from spark_jobs.ledger import retention as pruning
from spark_jobs.ledger.retention import prune, prune_all
from tests.loading.stream import Stream

FOR_EVER: dict[str, str | None] = {"ledger": None, "rejected": None, "unmatched": None, "shed": None}
_SUMS = "coalesce(sum(facts), 0)::int, coalesce(sum(shed), 0)::int, coalesce(sum(rejected), 0)::int"


@pytest.fixture
def stream(orders: Stream) -> Stream:
    """Four batches: two of forty days ago, two of now; each has facts and held tuples."""
    for first in (0, 10, 20, 30):
        ids = range(first, first + 10)
        orders.load(orders.facts(ids[:5]), orders.held(ids[5:7]), orders.held(ids[7:], "rejected", "bad"))
        if first == 10:
            _age(orders, "40 days")
    return orders


def _age(orders: Stream, age: str) -> None:
    for table, column in [("batch", "closed_at"), ("held_tuple", "held_at"), ("held_tuple", "arrived_at")]:
        orders.query(f"UPDATE freshet.{table} SET {column} = {column} - %s::interval", [age])


def _prune(orders: Stream, **kept: str) -> Counter[str]:
    orders.connection.commit()
    orders.connection.autocommit = True
    try:
        return prune(orders.connection, "orders", FOR_EVER | kept)
    finally:
        orders.connection.autocommit = False


def test_old_batches_go_and_their_sums_stay(stream: Stream) -> None:
    assert _prune(stream, ledger="30d") == {"batch": 2}
    assert stream.query(f"SELECT count(*)::int, {_SUMS} FROM freshet.batch") == [(2, 10, 4, 6)]
    assert stream.query(f"SELECT batches, {_SUMS} FROM freshet.ledger_pruned GROUP BY 1") == [(2, 10, 4, 6)]
    ((latencies,),) = stream.query(
        "SELECT (SELECT sum(n)::int FROM unnest(event_latency) n) FROM freshet.ledger_pruned"
    )
    assert latencies == 10


def test_pruning_again_adds_to_the_sums(stream: Stream) -> None:
    _prune(stream, ledger="30d")
    _age(stream, "40 days")
    assert _prune(stream, ledger="30d") == {"batch": 1}, "the newest batch stays, however old it is"
    ((batches, facts, latencies),) = stream.query(
        "SELECT batches, facts, (SELECT sum(n)::int FROM unnest(event_latency) n) FROM freshet.ledger_pruned"
    )
    assert (batches, facts, latencies) == (3, 15, 15)
    assert _prune(stream, ledger="30d") == {}


def test_a_stream_goes_on_over_a_pruned_ledger(stream: Stream) -> None:
    _age(stream, "40 days")
    _prune(stream, ledger="30d")
    assert stream.load(stream.facts(range(25, 45))).facts == 5, "what is a fact or held already is none again"


TOPIC = "Wg4J+X4tT7aHygb/hMau6g"  # its id


@pytest.mark.parametrize("prefix", ["", "clicks/"])
def test_ranges_of_a_partition_that_follow_on_one_another_become_one(stream: Stream, prefix: str) -> None:
    batches = [number for (number,) in stream.query("SELECT batch_no FROM freshet.batch ORDER BY batch_no")]
    old, new = batches[0], batches[-1]
    ranges = [
        *[(f"t:0@{TOPIC}", first, first + 5, 10, 4, old) for first in (0, 5, 10)],
        (f"t:0@{TOPIC}", 20, 25, 10, 4, old),  # what lies before was lost
        (f"t:0@{TOPIC}", 25, 30, 10, 4, new),
        *[(f"t:1@{TOPIC}", first, first + 5, 10, records, old) for first, records in ((15, None), (20, 5))],
        *[("a/file", first, first + 5, 10, 4, old) for first in (0, 5)],  # before it read a topic
    ]
    for each in ranges:
        stream.query(
            "INSERT INTO freshet.source_range (pipeline, state, unit, first, last, size, records, batch_no) "
            "VALUES ('orders', 'loaded', %s, %s, %s, %s, %s, %s)",
            list(each),
        )
    stream.query("UPDATE freshet.source_range SET unit = %s || unit WHERE unit LIKE 't:%%'", [prefix])
    assert _prune(stream, ledger="30d") == {"batch": 2}, "files are told apart by what they were planned as"
    stream.query("UPDATE freshet.source_range SET kind = 'kafka' WHERE unit LIKE '%%t:_@%%'")
    assert _prune(stream, ledger="30d") == {"source_range": 3}
    left = (
        "SELECT regexp_replace(unit, '^clicks/', ''), first, last, size, records FROM freshet.source_range "
        "WHERE unit ~ '^(clicks/t:|t:|a/)' ORDER BY unit COLLATE \"C\", first"
    )
    assert stream.query(left) == [
        *[("a/file", first, first + 5, 10, 4) for first in (0, 5)],
        *[(f"t:0@{TOPIC}", 0, 15, 30, 12), (f"t:0@{TOPIC}", 20, 25, 10, 4), (f"t:0@{TOPIC}", 25, 30, 10, 4)],
        (f"t:1@{TOPIC}", 15, 25, 20, None),
    ]
    assert _prune(stream, ledger="30d") == {}


def test_old_rejected_tuples_go_and_are_remembered(stream: Stream) -> None:
    assert _prune(stream, rejected="30d") == {"rejected": 6}
    held = dict(stream.query("SELECT place, count(*) FROM freshet.held_tuple GROUP BY place"))  # type: ignore[arg-type]
    assert held == {"shed": 8, "rejected": 6}
    remembered = stream.query("SELECT event_id FROM freshet.pruned_tuple WHERE place = 'rejected' ORDER BY event_id")
    assert remembered == [(f"[{number}]",) for number in (17, 18, 19, 7, 8, 9)]


def test_what_was_pruned_and_is_sent_again_is_a_duplicate(stream: Stream) -> None:
    broken = stream.malformed(b"no json")
    stream.load(broken)
    _age(stream, "40 days")
    assert _prune(stream, rejected="30d", shed="30d") == {"rejected": 13, "shed": 8}
    again = range(5, 10)  # shed and rejected ones
    assert stream.load(stream.facts(again)) == LoadCounts(duplicates=5)
    assert stream.load(stream.held(again), broken) == LoadCounts(duplicates=6)
    assert stream.load(stream.held(range(5, 41)), careful=True) == LoadCounts(shed=1, duplicates=35)
    # To a driver that has just begun, and to one that has looked before.
    stream.epoch = take_over(stream.connection, "orders", log_file=None)
    assert stream.load(stream.facts(again)) == LoadCounts(duplicates=5)
    assert stream.query("SELECT count(*) FROM freshet.held_tuple JOIN freshet.pruned_tuple USING (event_id)") == [(0,)]


def test_a_tuple_that_is_pruned_while_its_event_is_sent_again_is_known(stream: Stream) -> None:
    """The loader has looked into its filter, which knows the tuple from when it was held."""
    with stream.batch() as loader:
        loader.load(stream.held([100]))
        _prune(stream, rejected="0s", shed="0s")
        assert loader.load(stream.facts(range(5, 10))) == LoadCounts(duplicates=5)
        assert loader.load(stream.held(range(5, 10))) == LoadCounts(duplicates=5)


def test_an_event_with_two_places_does_not_keep_others_from_being_pruned(orders: Stream) -> None:
    orders.load(orders.held([1, 7], "rejected"))
    orders.query("INSERT INTO freshet.pruned_tuple SELECT pipeline, event_id, place, now(), event_hash, batch_no "
                 "FROM freshet.held_tuple WHERE event_id = '[7]'")  # fmt: skip
    _age(orders, "40 days")
    assert _prune(orders, rejected="30d") == {"rejected": 2}
    assert orders.query("SELECT rejected::int, duplicates::int FROM freshet.ledger_pruned") == [(-1, 1)]


def test_what_is_kept_for_ever_is_kept(stream: Stream) -> None:
    _age(stream, "4000 days")
    assert _prune(stream) == {}
    assert stream.query("SELECT count(*) FROM freshet.held_tuple") == [(20,)]


def test_tuples_of_an_open_batch_are_left_alone(orders: Stream) -> None:
    batch_no = orders.open()
    orders.loader(batch_no).load(orders.held([1], "rejected", "bad"))
    _age(orders, "40 days")
    assert _prune(orders, rejected="30d", ledger="30d") == {}


def test_much_is_deleted_in_many_short_transactions(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "ROWS_AT_ONCE", 2)
    _age(stream, "40 days")
    assert _prune(stream, rejected="30d", shed="30d") == {"rejected": 12, "shed": 8}


def test_a_finished_run_of_reprocessing_goes_with_its_sums(stream: Stream) -> None:
    stream.query(
        "INSERT INTO freshet.reprocessing_run (pipeline, state, algorithm, places, tuple_limit, closed_at, facts, "
        "shed) VALUES ('orders', 'finished', 'auto', '{shed}', 10, now() - interval '40 days', 3, -3), "
        "('orders', 'running', 'auto', '{shed}', 10, NULL, 1, -1)"
    )
    assert _prune(stream, ledger="30d") == {"batch": 2, "reprocessing_run": 1}
    assert stream.query("SELECT batches::int, facts::int, shed::int FROM freshet.ledger_pruned") == [(2, 13, 1)]


def test_drivers_go_but_for_the_newest(orders: Stream) -> None:
    take_over(orders.connection, "orders", log_file=None)
    take_over(orders.connection, "orders", log_file=None)
    orders.query("UPDATE freshet.driver SET stopped_at = now() - interval '40 days'")
    assert _prune(orders, ledger="30d") == {"driver": 2}


def test_each_pipeline_is_pruned_by_its_own_definition(stream: Stream) -> None:
    register_pipeline(
        stream.connection, "orders", timedelta(seconds=5), json.dumps({"retention": FOR_EVER | {"shed": "30d"}})
    )
    register_pipeline(stream.connection, "older", timedelta(seconds=5), "{}")
    stream.connection.commit()
    stream.connection.autocommit = True
    assert prune_all(stream.connection) == {"older": {}, "orders": {"shed": 4}}
    stream.connection.autocommit = False


def test_a_pipeline_that_cannot_be_pruned_is_named_when_the_others_are_pruned(stream: Stream) -> None:
    for name, retention in [
        ("gifts", {"ledger": "long"}),
        ("orders", {"ledger": "9999999d"}),  # before there were years
        ("returns", {"ledger": "30d", "shed": "30d"}),
    ]:
        register_pipeline(
            stream.connection, name, timedelta(seconds=5), json.dumps({"retention": FOR_EVER | retention})
        )
    stream.query("UPDATE freshet.held_tuple SET pipeline = 'returns' WHERE place = 'shed'")
    stream.connection.commit()
    stream.connection.autocommit = True
    with pytest.raises(FreshetError) as error:
        prune_all(stream.connection)
    stream.connection.autocommit = False
    told = str(error.value)
    assert "orders: DatetimeFieldOverflow: timestamp out of range" in told
    assert "gifts: ValueError: 'long' is not a duration." in told
    assert "Pruned all the same: returns." in told
    assert stream.query("SELECT count(*)::int FROM freshet.batch") == [(4,)]
    assert stream.query("SELECT count(*)::int FROM freshet.held_tuple WHERE place = 'shed'") == [(4,)]
