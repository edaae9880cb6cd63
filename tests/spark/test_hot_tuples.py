"""Hot tuples are as R is, whatever changes, and whatever the running batch has found."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import psycopg2
import pytest

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.definition import Lookup, load_definition
from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.lookup.changes.triggers import look_at_relations
from spark_jobs.lookup.changes.unnoticed import unnoticed
from spark_jobs.lookup.hot_keys.learned import Reread
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.relation_rows import RelationRows
from tests.spark.conftest import Shop
from tests.spark.hot_customers import HotCustomers
from tests.spark.shop import query, sales_definition


@pytest.fixture
def hot(shop: Shop) -> Iterator[HotCustomers]:
    definition = load_definition(shop.path)
    with closing(psycopg2.connect(shop.url)) as connection:
        customers = HotCustomers(definition, shop.url, shop.spark, connection)
        yield customers
        customers.hot_set.close()


def set_city(shop: Shop, customer: int, city: str) -> None:
    query(shop.url, "UPDATE shop.customer SET city = %s WHERE id = %s", [city, customer])


def test_an_updated_tuple_is_new_in_every_later_batch(shop: Shop, hot: HotCustomers) -> None:
    hot.batch([7, 8])
    set_city(shop, 7, "Ulm")
    assert hot.hot() == {7: "city 7", 8: "city 8"}
    hot.look()
    assert hot.hot() == {7: "Ulm", 8: "city 8"}


def test_a_deleted_tuple_is_hot_no_longer(shop: Shop, hot: HotCustomers) -> None:
    hot.batch([7, 8, 9])
    query(shop.url, "DELETE FROM shop.customer WHERE id = 8")
    hot.look()
    assert hot.hot() == {7: "city 7", 9: "city 9"}
    hot.batch([10])
    assert hot.hot() == {7: "city 7", 9: "city 9", 10: "city 0"}


def test_a_tuple_under_another_key_is_hot_under_neither_until_it_is_found(shop: Shop, hot: HotCustomers) -> None:
    hot.batch([7, 8])
    query(shop.url, "UPDATE shop.customer SET id = 7007 WHERE id = 7")
    hot.look()
    assert hot.hot() == {8: "city 8"}


@pytest.mark.parametrize("statement", ["UPDATE shop.customer SET city = 'Ulm'", "INSERT"])
def test_after_a_bulk_change_all_hot_tuples_are_read_again(shop: Shop, hot: HotCustomers, statement: str) -> None:
    hot.batch([7, 8])
    query(shop.url, "INSERT INTO shop.customer SELECT id, id FROM generate_series(5000, 15000) id")
    if statement != "INSERT":
        query(shop.url, statement)
    hot.look()
    assert hot.hot() == ({7: "city 7", 8: "city 8"} if statement == "INSERT" else {7: "Ulm", 8: "Ulm"})


def test_after_a_truncation_nothing_is_hot(shop: Shop, hot: HotCustomers) -> None:
    hot.batch([7, 8])
    query(shop.url, "TRUNCATE shop.customer")
    hot.look()
    assert hot.hot() == {}


def test_what_a_batch_found_before_a_change_does_not_become_hot_after_it(shop: Shop, hot: HotCustomers) -> None:
    hot.begin_batch()
    found = hot.read([7, 8])
    set_city(shop, 7, "Ulm")
    hot.look()
    hot.end_batch(found)
    assert hot.hot() == {8: "city 8"}
    hot.batch([7])
    assert hot.hot() == {7: "Ulm", 8: "city 8"}


def test_a_later_batch_that_knows_a_change_leaves_an_earlier_one_without_it(shop: Shop, hot: HotCustomers) -> None:
    hot.begin_batch()
    earlier, found_earlier = hot.batch_no, hot.read([7, 8])
    set_city(shop, 7, "Ulm")
    hot.look()
    hot.begin_batch()
    found_later = hot.read([7])
    hot.end_batch(found_earlier, batch_no=earlier)
    assert hot.hot() == {8: "city 8"}
    hot.end_batch(found_later)
    assert hot.hot() == {7: "Ulm", 8: "city 8"}


def test_a_change_keeps_what_both_batches_under_way_found_from_becoming_hot(shop: Shop, hot: HotCustomers) -> None:
    plans = [hot.begin_batch(), hot.begin_batch()]
    assert all(plan.hot is None for plan in plans)
    later, found = hot.batch_no, hot.read([7])
    set_city(shop, 7, "Ulm")
    hot.look()
    for batch_no in (later, later - 1):
        hot.end_batch(found, batch_no=batch_no)
    assert hot.hot() == {}


def test_what_a_batch_found_before_a_bulk_change_does_not_become_hot_after_it(shop: Shop, hot: HotCustomers) -> None:
    hot.batch([9])
    hot.begin_batch()
    found = hot.read([7, 8])
    query(shop.url, "INSERT INTO shop.customer SELECT id, id FROM generate_series(5000, 15000) id")
    hot.look()
    hot.end_batch(found)
    assert hot.hot() == {9: "city 9"}


def test_a_batch_that_ends_while_changed_tuples_are_read_brings_none_of_them(shop: Shop, hot: HotCustomers) -> None:
    hot.batch([6])
    hot.begin_batch()
    found = hot.read([7, 8])
    set_city(shop, 6, "Ulm")
    set_city(shop, 7, "Ulm")

    def while_the_batch_ends(reread: Reread) -> Reread:
        def read(keys: KeyColumns) -> RelationRows:
            rows = reread(keys)
            hot.end_batch(found)
            return rows

        return read

    assert hot.noticing.noticed is not None
    changes = unnoticed(hot.connection, hot.plan.spec, hot.noticing.noticed)
    hot.hot_set.refresh(changes, while_the_batch_ends(hot.noticing.reread))
    assert hot.hot() == {6: "Ulm", 8: "city 8"}


def test_a_version_can_be_used_until_its_batch_has_ended(shop: Shop, hot: HotCustomers) -> None:
    hot.batch([7])
    running = hot.begin_batch()
    assert running.hot is not None
    for city in ("Ulm", "Bonn", "Kiel"):
        set_city(shop, 7, city)
        hot.look()
    assert running.hot.value().columns["city"].to_pylist() == ["city 7"]
    assert hot.hot() == {7: "Kiel"}


def test_a_change_of_a_column_that_is_not_fetched_publishes_nothing(shop: Shop, hot: HotCustomers) -> None:
    query(shop.url, "ALTER TABLE shop.customer ADD note text")
    hot.batch([7])
    before = hot.begin_batch().hot
    query(shop.url, "UPDATE shop.customer SET note = 'seen' WHERE id = 7")
    hot.look()
    after = hot.begin_batch().hot
    assert before is not None
    assert after is not None
    assert before.version == after.version


def test_hits_of_a_version_count_for_the_tuples_that_it_had(shop: Shop, hot: HotCustomers) -> None:
    hot.batch([7, 8, 9])
    plan = hot.begin_batch()
    assert plan.hot is not None
    slots = plan.hot.value().hot_set.keys.tolist()
    query(shop.url, "DELETE FROM shop.customer WHERE id = 7")
    hot.look()
    hits = np.array([{7: 5, 8: 70, 9: 1}[customer] for customer in slots])
    hot.end_batch(hot.read([]), hits=hits)
    exported = hot.hot_set.export(None)
    assert exported is not None
    frequencies = dict(zip(exported.rows.keys.codes.tolist(), exported.frequencies.tolist(), strict=True))
    assert frequencies[8] - frequencies[9] == 8 * 69, "hits are counted in one batch of eight"


def test_hits_count_for_the_version_of_their_own_batch(shop: Shop, hot: HotCustomers) -> None:
    hot.batch([7, 8, 9])
    earlier = hot.begin_batch()
    earlier_no = hot.batch_no
    hot.batch([10])
    hot.begin_batch()
    assert earlier.hot is not None
    hits = np.array([{7: 5, 8: 70, 9: 1}[customer] for customer in earlier.hot.value().hot_set.keys.tolist()])
    hot.end_batch(hot.read([]), hits=hits, batch_no=earlier_no)
    hot.end_batch(hot.read([]))
    exported = hot.hot_set.export(None)
    assert exported is not None
    frequencies = dict(zip(exported.rows.keys.codes.tolist(), exported.frequencies.tolist(), strict=True))
    assert frequencies[8] - frequencies[9] == 8 * 69


def test_hits_are_counted_in_one_batch_of_eight_however_many_are_under_way(hot: HotCustomers) -> None:
    counting = []
    for _ in range(16):
        counting.append(hot.begin_batch().count_hits)
        if hot.batch_no > 1:
            hot.end_batch(hot.read([]), batch_no=hot.batch_no - 1)
    assert counting == [number % 8 == 0 for number in range(16)]


def test_where_a_batch_that_counted_hits_failed_the_next_one_counts(hot: HotCustomers) -> None:
    assert hot.begin_batch().count_hits
    hot.release(hot.batch_no)
    assert hot.begin_batch().count_hits


def test_without_triggers_all_hot_tuples_are_read_again_after_half_of_the_time(shop: Shop, hot: HotCustomers) -> None:
    hot.batch([7, 8])
    query(shop.url, "ALTER TABLE shop.customer DISABLE TRIGGER ALL")
    [lookup] = load_definition(shop.path).lookups
    hot.noticing.watch(hot.connection, hot.outcome(lookup))
    assert hot.mode() == "rereading"
    set_city(shop, 7, "Ulm")
    hot.look()
    assert hot.hot()[7] == "city 7", "it is not time yet"
    hot.seconds_passed += 0.51 * lookup.notice_changes.total_seconds()
    hot.look()
    assert hot.hot() == {7: "Ulm", 8: "city 8"}
    query(shop.url, "ALTER TABLE shop.customer ENABLE TRIGGER ALL")
    set_city(shop, 8, "Bonn")
    hot.noticing.watch(hot.connection, hot.outcome(lookup))
    assert hot.mode() == "triggers"
    assert hot.hot() == {7: "Ulm", 8: "Bonn"}, "what changed before is not noted anywhere"


def look_at_tables(shop: Shop, hot: HotCustomers) -> None:
    """What the watch does before it looks for changes."""
    outcomes = look_at_relations(hot.connection, load_definition(shop.path).lookups)
    hot.noticing.watch(hot.connection, outcomes["shop.customer"])


@pytest.mark.parametrize(
    "unnoted",
    [
        "ALTER TABLE shop.customer ALTER city TYPE text USING upper(city)",
        "ALTER TABLE shop.customer DISABLE TRIGGER ALL; UPDATE shop.customer SET city = upper(city);"
        "ALTER TABLE shop.customer ENABLE ALWAYS TRIGGER freshet_update, ENABLE ALWAYS TRIGGER freshet_insert,"
        "ENABLE ALWAYS TRIGGER freshet_delete, ENABLE ALWAYS TRIGGER freshet_truncate",
    ],
)
def test_what_changes_without_a_note_is_read_again_at_the_next_look(
    shop: Shop, hot: HotCustomers, unnoted: str
) -> None:
    hot.batch([7, 8])
    query(shop.url, unnoted)
    look_at_tables(shop, hot)
    hot.look()
    assert hot.mode() == "triggers"
    assert hot.hot() == {7: "CITY 7", 8: "CITY 8"}


@pytest.mark.parametrize(
    ("statement", "undone"),
    [
        ("ALTER TABLE shop.customer RENAME city TO town", "ALTER TABLE shop.customer RENAME town TO city"),
        ("ALTER TABLE shop.customer RENAME TO client", "ALTER TABLE shop.client RENAME TO customer"),
    ],
)
def test_nothing_stays_hot_of_a_relation_that_can_no_longer_be_read(
    shop: Shop, hot: HotCustomers, statement: str, undone: str
) -> None:
    hot.batch([7, 8])
    query(shop.url, statement)
    with pytest.raises(psycopg2.ProgrammingError, match="does not exist"):
        look_at_tables(shop, hot)
    hot.connection.rollback()
    assert hot.hot() == {}
    query(shop.url, undone)
    look_at_tables(shop, hot)
    assert hot.mode() == "triggers"
    hot.batch([7])
    assert hot.hot() == {7: "city 7"}


def reads_of(hot: HotCustomers, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.0) -> list[int]:
    """How many tuples each read of R asks for, from now on; each takes so long."""
    reads: list[int] = []
    lookup_keys = LiveRelation.lookup_keys

    def read(relation: LiveRelation, keys: KeyColumns) -> Page:
        reads.append(len(keys))
        hot.seconds_passed += seconds
        return lookup_keys(relation, keys)

    monkeypatch.setattr(LiveRelation, "lookup_keys", read)
    return reads


def do_without_triggers(shop: Shop, hot: HotCustomers) -> Lookup:
    query(shop.url, "ALTER TABLE shop.customer DISABLE TRIGGER ALL")
    [lookup] = load_definition(shop.path).lookups
    hot.noticing.watch(hot.connection, hot.outcome(lookup))
    assert hot.mode() == "rereading"
    return lookup


def test_what_a_batch_found_before_triggers_stood_does_not_become_hot(shop: Shop, hot: HotCustomers) -> None:
    lookup = do_without_triggers(shop, hot)
    hot.begin_batch()
    found = hot.read([7])
    set_city(shop, 7, "Ulm")
    query(shop.url, "ALTER TABLE shop.customer ENABLE TRIGGER ALL")
    hot.noticing.watch(hot.connection, hot.outcome(lookup))
    hot.end_batch(found)
    hot.look()
    assert hot.hot() == {}, "it would not be read again"
    hot.batch([7])
    assert hot.hot() == {7: "Ulm"}


def test_triggers_are_relied_on_when_all_has_been_read_since_they_stand(
    shop: Shop, hot: HotCustomers, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot.batch([7])
    [lookup] = load_definition(shop.path).lookups
    query(shop.url, "DROP TRIGGER freshet_update ON shop.customer")
    set_city(shop, 7, "Ulm")
    outcome = hot.outcome(lookup)
    with monkeypatch.context() as broken:
        broken.setattr(LiveRelation, "lookup_keys", refuse)
        with pytest.raises(psycopg2.OperationalError):
            hot.noticing.watch(hot.connection, outcome)
    hot.noticing.watch(hot.connection, hot.outcome(lookup))
    assert hot.hot() == {7: "Ulm"}, "they were there already at the second time"


def refuse(relation: LiveRelation, keys: KeyColumns) -> Page:
    raise psycopg2.OperationalError("the server went away")


def test_the_pause_between_two_readings_of_all_hot_tuples_counts_from_the_end_of_the_first(
    shop: Shop, hot: HotCustomers, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot.batch([7, 8])
    lookup = do_without_triggers(shop, hot)
    pause = lookup.notice_changes.total_seconds() / 2
    reads = reads_of(hot, monkeypatch, seconds=3 * pause)
    hot.seconds_passed += 1.1 * pause
    for _ in range(3):
        hot.look()
    assert reads == [2]
    hot.seconds_passed += 1.1 * pause
    hot.look()
    assert reads == [2, 2]


def test_reading_all_hot_tuples_again_keeps_to_the_read_limit_and_lets_the_watch_go_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.define(lookups=[sales_definition(shop.folder)["lookups"][0] | {"read_limit": "8/s"}])
    with closing(psycopg2.connect(shop.url)) as connection:
        definition = load_definition(shop.path)
        hot = HotCustomers(definition, shop.url, shop.spark, connection)
        customers = list(range(1, 31))
        hot.batch(customers)
        lookup = do_without_triggers(shop, hot)
        query(shop.url, "UPDATE shop.customer SET city = 'Ulm'")
        reads = reads_of(hot, monkeypatch)
        hot.seconds_passed += 1.1 * lookup.notice_changes.total_seconds() / 2
        before = hot.noticing.noticed_at
        looks = 0
        while hot.noticing.noticed_at == before:
            hot.look()
            hot.seconds_passed += 0.25
            looks += 1
            assert looks < 30
        assert sum(reads) == 30
        assert max(reads) == 2, "a quarter of a second's"
        assert looks >= 5, "two seconds' were saved up, the other 14 tuples take 7 looks"
        assert hot.hot() == dict.fromkeys(customers, "Ulm")
        hot.hot_set.close()


def test_a_look_that_failed_is_made_up_for(shop: Shop, hot: HotCustomers) -> None:
    hot.batch([7])
    set_city(shop, 7, "Ulm")

    def fail(keys: KeyColumns) -> RelationRows:
        raise psycopg2.OperationalError("the server went away")

    assert hot.noticing.noticed is not None
    changes = unnoticed(hot.connection, hot.plan.spec, hot.noticing.noticed)
    with pytest.raises(psycopg2.OperationalError):
        hot.hot_set.refresh(changes, fail)
    assert hot.hot() == {7: "city 7"}
    hot.look()
    assert hot.hot() == {7: "Ulm"}


def test_writers_batches_and_looks_at_once_leave_nothing_stale(shop: Shop, hot: HotCustomers) -> None:
    ended = threading.Event()

    def write() -> None:
        random = np.random.default_rng(1)
        with closing(psycopg2.connect(shop.url)) as connection, connection.cursor() as cursor:
            for number in range(600):
                customer = int(random.integers(1, 40))
                cursor.execute("UPDATE shop.customer SET city = %s WHERE id = %s", [str(number), customer])
                connection.commit()
        ended.set()

    def look() -> None:
        while not ended.is_set():
            hot.look()

    threads = [threading.Thread(target=target) for target in (write, look)]
    for thread in threads:
        thread.start()
    random = np.random.default_rng(2)
    while not ended.is_set():
        hot.batch(random.integers(1, 40, 5).tolist())
    for thread in threads:
        thread.join()
    hot.look()
    hot_now = hot.hot()
    assert hot_now
    assert hot_now == {
        id_: city for id_, city in query(shop.url, "SELECT id, city FROM shop.customer") if id_ in hot_now
    }
