"""Triggers stand wherever rows of R can change, note the keys of all lookups, and tell where they can't stand."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.lookup.changes.triggers import look_at_relations, unwatch_relations, watch_relations
from tests.lookup.changes.conftest import CustomerLookup, Customers

LOOKUP = CustomerLookup()


def run(connection: extensions.connection, statement: str) -> None:
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)


def test_watching_again_installs_nothing(customers: Customers) -> None:
    once = watch_relations(customers.connection, [LOOKUP])["shop.customer"]
    assert once.refusal is None
    assert watch_relations(customers.connection, [LOOKUP])["shop.customer"] == once


def test_watching_again_waits_for_no_writer(customers: Customers, warehouse_url: str) -> None:
    with closing(psycopg2.connect(warehouse_url)) as writer, writer.cursor() as cursor:
        cursor.execute("UPDATE shop.customer SET city = 'Ulm' WHERE id = 1")
        assert watch_relations(customers.connection, [LOOKUP])["shop.customer"].refusal is None


def test_a_writer_that_is_in_the_way_for_long_is_told(connection: extensions.connection, warehouse_url: str) -> None:
    with closing(psycopg2.connect(warehouse_url)) as writer, writer.cursor() as cursor:
        cursor.execute("UPDATE shop.customer SET city = 'Ulm' WHERE id = 1")
        assert "try again" in str(watch_relations(connection, [LOOKUP])["shop.customer"].refusal)
    assert watch_relations(connection, [LOOKUP])["shop.customer"].refusal is None


def test_the_key_columns_of_all_pipelines_are_noted(customers: Customers) -> None:
    customers.run(
        "INSERT INTO freshet.pipeline (name, freshness_target, definition) VALUES ('mails', '5s', "
        """'{"lookups": [{"relation": "shop.customer", "on": {"address": "email"}}]}')"""
    )
    assert watch_relations(customers.connection, [LOOKUP])["shop.customer"].refusal is None
    customers.run("UPDATE shop.customer SET email = 'new@example.org' WHERE id = 8")
    assert customers.changed() == [8]
    assert customers.rows("SELECT key ->> 'email' FROM freshet.relation_change ORDER BY 1") == [
        ("8@example.org",),
        ("new@example.org",),
    ]


def test_triggers_that_lack_only_columns_of_other_pipelines_are_relied_on(customers: Customers) -> None:
    customers.run(
        "INSERT INTO freshet.pipeline (name, freshness_target, definition) VALUES ('mails', '5s', "
        """'{"lookups": [{"relation": "shop.customer", "on": {"address": "email"}}]}');"""
        "CREATE ROLE driver; GRANT USAGE ON SCHEMA shop, freshet TO driver;"
        "GRANT SELECT ON freshet.pipeline, shop.customer TO driver"
    )
    by_mail = replace(LOOKUP, on={"address": "email"})
    try:
        customers.run("SET ROLE driver")
        assert watch_relations(customers.connection, [LOOKUP])["shop.customer"].refusal is None
        refusal = watch_relations(customers.connection, [by_mail])["shop.customer"].refusal
        assert "permission denied" in str(refusal)
        customers.run("RESET ROLE")
        assert watch_relations(customers.connection, [LOOKUP, by_mail])["shop.customer"].refusal is None
        customers.run("DELETE FROM freshet.pipeline")
        customers.run("SET ROLE driver")
        assert watch_relations(customers.connection, [LOOKUP])["shop.customer"].refusal is None, "more are noted"
    finally:
        customers.run("RESET ROLE; DROP OWNED BY driver; DROP ROLE driver")


def test_two_keys_that_change_places_are_updates_of_both(customers: Customers) -> None:
    customers.run("ALTER TABLE shop.customer DROP CONSTRAINT customer_pkey, ADD PRIMARY KEY (id) DEFERRABLE")
    customers.run("UPDATE shop.customer SET id = CASE id WHEN 1 THEN 2 ELSE 1 END WHERE id IN (1, 2)")
    noted = "SELECT kind, (key ->> 'id')::int, former ->> 'city' FROM freshet.relation_change ORDER BY 2"
    assert customers.rows(noted) == [("update", 1, "city 1"), ("update", 2, "city 2")]


def test_partitions_are_watched_under_the_name_of_the_relation(connection: extensions.connection) -> None:
    run(
        connection,
        "CREATE TABLE shop.article (id bigint PRIMARY KEY, city text) PARTITION BY RANGE (id);"
        "CREATE TABLE shop.article_1 PARTITION OF shop.article FOR VALUES FROM (0) TO (100);"
        "CREATE TABLE shop.article_2 PARTITION OF shop.article DEFAULT PARTITION BY RANGE (id);"
        "CREATE TABLE shop.article_2_1 PARTITION OF shop.article_2 DEFAULT",
    )
    lookup = replace(LOOKUP, relation="shop.article")
    assert watch_relations(connection, [lookup])["shop.article"].refusal is None
    run(connection, "INSERT INTO shop.article VALUES (1), (101); INSERT INTO shop.article_2_1 VALUES (102)")
    run(connection, "UPDATE shop.article SET id = 103 WHERE id = 1; DELETE FROM shop.article_1")
    run(connection, "TRUNCATE shop.article_2")
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT relation FROM freshet.relation_change")
        assert cursor.fetchall() == [("shop.article",)]
        noting = (
            "SELECT kind, (key ->> 'id')::int FROM freshet.relation_change WHERE key IS NOT NULL ORDER BY change_no"
        )
        cursor.execute(noting)
        noted = cursor.fetchall()
        assert noted[:3] == [("insert", 1), ("insert", 101), ("insert", 102)]
        assert sorted(noted[3:]) == [("delete", 1), ("insert", 103)]
    run(connection, "CREATE TABLE shop.article_3 PARTITION OF shop.article FOR VALUES FROM (100) TO (101)")
    assert "shop.article_3 lacks triggers" in str(look_at_relations(connection, [lookup])["shop.article"].refusal)
    assert watch_relations(connection, [lookup])["shop.article"].refusal is None


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE MATERIALIZED VIEW shop.member AS SELECT * FROM shop.customer", "a materialized view"),
        ("CREATE VIEW shop.member AS SELECT * FROM shop.customer", "a view"),
        (
            "CREATE FOREIGN DATA WRAPPER elsewhere; CREATE SERVER far FOREIGN DATA WRAPPER elsewhere;"
            "CREATE FOREIGN TABLE shop.member (id bigint) SERVER far",
            "a foreign table",
        ),
        ("SELECT", "there is no relation shop.member"),
    ],
)
def test_what_is_no_table_is_refused(connection: extensions.connection, statement: str, reason: str) -> None:
    run(connection, statement)
    outcome = watch_relations(connection, [replace(LOOKUP, relation="shop.member")])["shop.member"]
    assert reason in str(outcome.refusal)


def test_a_disabled_trigger_is_told(customers: Customers) -> None:
    customers.run("ALTER TABLE shop.customer DISABLE TRIGGER freshet_update")
    refusal = watch_relations(customers.connection, [LOOKUP])["shop.customer"].refusal
    assert refusal is not None
    assert "ALTER TABLE shop.customer ENABLE ALWAYS TRIGGER freshet_update" in refusal


def test_who_may_not_create_triggers_is_told_and_who_writes_needs_no_rights(connection: extensions.connection) -> None:
    run(
        connection,
        "CREATE ROLE clerk; GRANT USAGE ON SCHEMA shop, freshet TO clerk; GRANT SELECT ON freshet.pipeline TO clerk;"
        "GRANT SELECT, UPDATE ON shop.customer TO clerk",
    )
    try:
        run(connection, "SET ROLE clerk")
        refusal = watch_relations(connection, [LOOKUP])["shop.customer"].refusal
        assert refusal is not None
        assert "permission denied" in refusal
        assert "freshet migrate" in refusal
        run(connection, "RESET ROLE")
        assert watch_relations(connection, [LOOKUP])["shop.customer"].refusal is None
        run(connection, "SET ROLE clerk")
        assert watch_relations(connection, [LOOKUP])["shop.customer"].refusal is None, "they are there"
        run(connection, "UPDATE shop.customer SET city = 'Ulm' WHERE id = 1")
        run(connection, "RESET ROLE")
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT kind, key FROM freshet.relation_change")
            assert cursor.fetchall() == [("update", {"id": 1})]
    finally:
        run(connection, "RESET ROLE; DROP OWNED BY clerk; DROP ROLE clerk")


def test_triggers_of_a_relation_that_nobody_uses_any_more_are_removed(customers: Customers) -> None:
    assert unwatch_relations(customers.connection, [LOOKUP]) == {}
    assert unwatch_relations(customers.connection, []) == {"shop.customer": None}
    customers.run("UPDATE shop.customer SET city = 'Ulm'")
    assert customers.look().nothing


def test_names_that_need_quotes(connection: extensions.connection) -> None:
    run(connection, 'CREATE TABLE shop."Gast ""x""" ("Nr." text PRIMARY KEY, city text)')
    lookup = CustomerLookup('shop.Gast "x"', {"customer": "Nr."})
    assert watch_relations(connection, [lookup])['shop.Gast "x"'].refusal is None
    run(connection, 'INSERT INTO shop."Gast ""x""" VALUES ($$it\'s$$)')
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT relation, key FROM freshet.relation_change")
        assert cursor.fetchall() == [('shop.Gast "x"', {"Nr.": "it's"})]


def test_changes_of_sessions_that_replicate_are_noted(customers: Customers) -> None:
    customers.run("SET LOCAL session_replication_role = replica; UPDATE shop.customer SET city = 'Ulm' WHERE id = 1")
    assert customers.changed() == [1]


def test_triggers_that_do_not_fire_in_every_session_are_told_and_mended_by_the_owner(customers: Customers) -> None:
    customers.run(
        "ALTER TABLE shop.customer DISABLE TRIGGER USER, ENABLE TRIGGER USER;"
        "CREATE ROLE driver; GRANT USAGE ON SCHEMA shop, freshet TO driver;"
        "GRANT SELECT ON freshet.pipeline, shop.customer TO driver"
    )
    try:
        customers.run("SET ROLE driver")
        refusal = str(watch_relations(customers.connection, [LOOKUP])["shop.customer"].refusal)
        customers.run("RESET ROLE")
        statement = refusal.split(" run ")[1]
        assert statement.startswith("ALTER TABLE ONLY shop.customer ENABLE ALWAYS TRIGGER freshet_delete, ")
        customers.run(statement)
        assert look_at_relations(customers.connection, [LOOKUP])["shop.customer"].refusal is None
        customers.run("ALTER TABLE shop.customer ENABLE TRIGGER freshet_update")
        assert watch_relations(customers.connection, [LOOKUP])["shop.customer"].refusal is None
    finally:
        customers.run("RESET ROLE; DROP OWNED BY driver; DROP ROLE driver")


PARTS = """
    CREATE TABLE shop.article (id bigint PRIMARY KEY, city text) PARTITION BY RANGE (id);
    CREATE TABLE shop.article_1 PARTITION OF shop.article FOR VALUES FROM (0) TO (100);
    CREATE TABLE shop.article_2 PARTITION OF shop.article FOR VALUES FROM (100) TO (200);
    CREATE TABLE shop.other (LIKE shop.article INCLUDING ALL)
"""


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE shop.article DETACH PARTITION shop.article_1",
        "DROP TABLE shop.article_1",
        "ALTER TABLE shop.article ATTACH PARTITION shop.other FOR VALUES FROM (200) TO (300)",
        "ALTER TABLE shop.article ALTER city TYPE text USING upper(city)",
        "ALTER TABLE shop.article RENAME city TO town",
        "ALTER TABLE shop.article RENAME TO goods",
        "ALTER TABLE shop.article RENAME TO goods; ALTER TABLE shop.other RENAME TO article",
        "ALTER TABLE shop.article_2 DISABLE TRIGGER USER; ALTER TABLE shop.article_2 ENABLE TRIGGER USER",
    ],
)
def test_what_changes_rows_without_firing_a_trigger_is_seen_in_the_tables(
    connection: extensions.connection, statement: str
) -> None:
    run(connection, PARTS)
    lookup = replace(LOOKUP, relation="shop.article")
    before = watch_relations(connection, [lookup])["shop.article"]
    run(connection, "INSERT INTO shop.article VALUES (1, 'Ulm'), (101, 'Bonn'); ANALYZE shop.article")
    assert look_at_relations(connection, [lookup])["shop.article"] == before
    run(connection, statement)
    assert look_at_relations(connection, [lookup])["shop.article"].tables != before.tables


def test_a_renamed_column_keeps_nobody_from_writing(customers: Customers) -> None:
    customers.run("ALTER TABLE shop.customer RENAME city TO town; ALTER TABLE shop.customer RENAME email TO mail")
    customers.run("UPDATE shop.customer SET town = 'Ulm' WHERE id = 1; UPDATE shop.customer SET town = 'Ulm'")
    assert len(set(customers.changed())) == 100
    customers.run("ALTER TABLE shop.customer RENAME id TO number")
    customers.run("UPDATE shop.customer SET town = 'Bonn'; TRUNCATE shop.customer")
    assert customers.look().anything


def test_triggers_of_an_older_version_note_all_rows_until_they_are_replaced(customers: Customers) -> None:
    customers.run(
        "CREATE OR REPLACE TRIGGER freshet_update AFTER UPDATE ON shop.customer REFERENCING OLD TABLE AS former_rows "
        "NEW TABLE AS present_rows FOR EACH STATEMENT "
        "EXECUTE FUNCTION freshet.note_relation_change('shop.customer', 'id');"
        "CREATE OR REPLACE TRIGGER freshet_truncate AFTER TRUNCATE ON shop.customer "
        "FOR EACH STATEMENT EXECUTE FUNCTION freshet.note_relation_change('shop.customer', 'id')"
    )
    customers.run(
        "UPDATE shop.customer SET city = 'Ulm' WHERE id < 3; UPDATE shop.customer SET city = 'x' WHERE id = 3"
    )
    assert customers.changed() == [1, 2, 3]
    customers.run("TRUNCATE shop.customer")
    assert customers.look().anything
    assert "lacks triggers" in str(look_at_relations(customers.connection, [LOOKUP])["shop.customer"].refusal)
    assert watch_relations(customers.connection, [LOOKUP])["shop.customer"].refusal is None


def test_columns_of_domains_are_noted(connection: extensions.connection) -> None:
    run(
        connection,
        "CREATE DOMAIN shop.number AS bigint; CREATE DOMAIN shop.positive AS shop.number CHECK (VALUE > 0);"
        "CREATE TABLE shop.member (id shop.positive PRIMARY KEY, city text); INSERT INTO shop.member VALUES (1, 'Ulm')",
    )
    assert watch_relations(connection, [replace(LOOKUP, relation="shop.member")])["shop.member"].refusal is None
    run(connection, "UPDATE shop.member SET city = 'Bonn'")
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT kind, key, former FROM freshet.relation_change")
        assert cursor.fetchall() == [("update", {"id": 1}, {"id": 1, "city": "Ulm"})]
