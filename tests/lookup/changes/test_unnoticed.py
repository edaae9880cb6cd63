"""Every committed change of R is noticed once, by any writer and in whatever order transactions commit."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg2

from spark_jobs.lookup.changes.staleness import STALENESS
from spark_jobs.lookup.changes.unnoticed import unnoticed
from tests.lookup.changes.conftest import Customers

NOTED = "INSERT INTO freshet.relation_change (relation, kind, key) VALUES ('shop.customer', 'insert', '{}')"


def test_nothing_has_changed(customers: Customers) -> None:
    assert customers.look().nothing


def test_updates_inserts_and_deletes_are_noticed_once(customers: Customers) -> None:
    customers.run("UPDATE shop.customer SET city = 'Ulm' WHERE id IN (3, 4)")
    customers.run("DELETE FROM shop.customer WHERE id = 5; INSERT INTO shop.customer VALUES (500, 'Bonn')")
    assert customers.changed() == [3, 4, 5, 500]
    assert customers.look().nothing


def test_a_changed_key_is_noticed_under_both_names(customers: Customers) -> None:
    customers.run("UPDATE shop.customer SET id = 1007 WHERE id = 7")
    assert customers.changed() == [7, 1007]
    kinds = "SELECT kind, (key ->> 'id')::int, former ->> 'id' FROM freshet.relation_change ORDER BY kind"
    assert customers.rows(kinds) == [("delete", 7, "7"), ("insert", 1007, None)]


def test_what_is_rolled_back_has_not_changed(customers: Customers) -> None:
    with customers.connection.cursor() as cursor:
        cursor.execute("UPDATE shop.customer SET city = 'Ulm'")
    customers.connection.rollback()
    assert customers.look().nothing


def test_a_transaction_that_began_earlier_and_commits_later_is_noticed(
    customers: Customers, warehouse_url: str
) -> None:
    with closing(psycopg2.connect(warehouse_url)) as slow, slow.cursor() as cursor:
        cursor.execute("UPDATE shop.customer SET city = 'Ulm' WHERE id = 1")
        customers.run("UPDATE shop.customer SET city = 'Bonn' WHERE id = 2")
        assert customers.changed() == [2]
        assert customers.look().nothing
        slow.commit()
    numbers = "SELECT array_agg((key ->> 'id')::int ORDER BY change_no) FROM freshet.relation_change"
    assert customers.rows(numbers) == [([1, 2],)], "the late one has the lower number"
    assert customers.changed() == [1]
    assert customers.look().nothing


def test_changes_within_a_subtransaction_are_noticed(customers: Customers) -> None:
    customers.run("SAVEPOINT part; UPDATE shop.customer SET city = 'Ulm' WHERE id = 9; RELEASE part")
    assert customers.changed() == [9]


def test_after_a_truncation_anything_may_have_changed(customers: Customers) -> None:
    customers.run("TRUNCATE shop.customer")
    assert customers.look().anything


def test_a_statement_that_changes_very_many_rows_is_noted_by_thousands(customers: Customers) -> None:
    customers.run("INSERT INTO shop.customer SELECT id FROM generate_series(1001, 11000) id")
    assert len(customers.changed()) == 10_000
    for statement in (
        "INSERT INTO shop.customer SELECT id FROM generate_series(20001, 30001) id",
        "UPDATE shop.customer SET city = 'Ulm'",
        "DELETE FROM shop.customer",
    ):
        customers.run(statement)
        assert customers.look().anything
    kinds = "SELECT kind, count(*) FROM freshet.relation_change GROUP BY kind ORDER BY 1"
    assert customers.rows(kinds) == [("bulk", 11 + 21 + 21), ("insert", 10_000)]


def test_too_many_changes_are_not_read_one_by_one(customers: Customers) -> None:
    customers.run("UPDATE shop.customer SET city = 'Ulm' WHERE id <= 11")
    with customers.connection:
        assert unnoticed(customers.connection, customers.spec, customers.noticed, most=10).anything
        assert not unnoticed(customers.connection, customers.spec, customers.noticed, most=11).anything


def test_a_change_noted_without_the_key_may_be_of_anything(customers: Customers) -> None:
    customers.run(NOTED.format("""{"email": "x"}"""))
    assert customers.look().anything


def test_a_key_of_another_type_may_be_any(customers: Customers) -> None:
    customers.run(NOTED.format("""{"id": "x"}"""))
    assert customers.look().anything
    assert customers.look().nothing


def test_a_server_that_forgot_transactions_may_have_forgotten_changes(customers: Customers) -> None:
    customers.noticed = "1000000000:1000000000:"
    assert customers.look().anything
    assert customers.look().nothing


def test_a_front_stage_is_stale_since_the_oldest_change_that_it_has_not_noticed(customers: Customers) -> None:
    customers.run(
        "INSERT INTO freshet.pipeline (name, freshness_target, definition) VALUES ('sales', '5s', '{}');"
        "INSERT INTO freshet.cache (pipeline, lookup, relation, watched, noticed, noticed_at, notice_changes) "
        f"VALUES ('sales', 0, 'shop.customer', 'triggers', '{customers.noticed}', clock_timestamp(), '1s')"
    )
    stale = f"SELECT {STALENESS} FROM freshet.cache"
    assert customers.rows(f"SELECT ({stale}) = interval '0'") == [(True,)]
    customers.run("UPDATE shop.customer SET city = 'Ulm' WHERE id = 1")
    customers.run("UPDATE shop.customer SET city = 'Ulm' WHERE id = 2")
    oldest = "SELECT clock_timestamp() - min(changed_at) FROM freshet.relation_change"
    assert customers.rows(f"SELECT ({stale}) <= ({oldest}), ({stale}) > interval '0'") == [(True, True)]
    customers.look()
    customers.run(f"UPDATE freshet.cache SET noticed = '{customers.noticed}'")
    assert customers.rows(f"SELECT ({stale}) = interval '0'") == [(True,)]
    customers.run("UPDATE freshet.cache SET watched = 'rereading'")
    assert customers.rows(f"SELECT ({stale}) > interval '0' FROM freshet.cache") == [(True,)]


def test_how_stale_a_front_stage_is_takes_one_change_to_tell(customers: Customers) -> None:
    customers.run(
        "INSERT INTO freshet.pipeline (name, freshness_target, definition) VALUES ('sales', '5s', '{}');"
        "INSERT INTO freshet.cache (pipeline, lookup, relation, watched, noticed, noticed_at, notice_changes) "
        f"VALUES ('sales', 0, 'shop.customer', 'triggers', '{customers.noticed}', clock_timestamp(), '1s')"
    )
    for _ in range(3):
        customers.run(
            "INSERT INTO shop.customer SELECT max(id) + n FROM shop.customer, generate_series(1, 5000) n GROUP BY n"
        )
    customers.run("ANALYZE freshet.relation_change")
    assert most_rows(plan(customers, f"SELECT {STALENESS} FROM freshet.cache")) == 1


def test_the_newest_new_row_among_many_updates_is_found_at_once(customers: Customers) -> None:
    customers.run("INSERT INTO shop.customer SELECT generate_series(1001, 6000)")
    for _ in range(3):
        customers.run("UPDATE shop.customer SET city = 'Ulm'")
    customers.run("ANALYZE freshet.relation_change")
    newest = (
        "SELECT xid FROM freshet.relation_change WHERE relation = 'shop.customer' "
        "AND kind = ANY (ARRAY['bulk', 'insert']) ORDER BY xid DESC LIMIT 1"
    )
    assert most_rows(plan(customers, newest)) == 1


def plan(customers: Customers, query: str) -> dict[str, Any]:
    """How a query was executed."""
    with customers.connection, customers.connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}")
        [[[explained]]] = cursor.fetchall()
    return dict(explained["Plan"])


def most_rows(plan: dict[str, Any]) -> int:
    """The most rows that a step of a plan read."""
    own = int(plan["Actual Rows"]) + int(plan.get("Rows Removed by Filter", 0))
    return max([own, *map(most_rows, plan.get("Plans", []))])
