"""Master data that changes while the stream runs: facts may have it as it was since their event arrived, not before."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from rich.console import Console

from tests.warehouse.landed_sales import TABLES, LandedSales, ids, sale

CUSTOMER = {"relation": "shop.customer", "on": {"customer": "id"}, "fetch": {"customer_sk": "sk", "city": "city"}}
NOTICE, TARGET = 10.0, 5.0  # the defaults of a lookup and of a pipeline
ALLOWANCE = NOTICE + 2 * TARGET


@pytest.fixture
def sales(tmp_path: Path, warehouse_url: str) -> LandedSales:
    return watched(tmp_path, warehouse_url)


def watched(folder: Path, url: str, **changes: Any) -> LandedSales:
    sales = LandedSales(folder, url, **changes)
    sales.watch()
    return sales


def land(sales: LandedSales, seconds: float, *records: dict[str, Any], file: str | None = None) -> None:
    """Let a file land that arrived so many seconds from now."""
    path = sales.land(*records, file=file)
    moment = time.time() + seconds
    os.utime(path, (moment, moment))


def wrong(sales: LandedSales) -> list[str]:
    return ids(sales.differences().get("wrong_fact", ()))


def shown(sales: LandedSales) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(sales.verify().render())
    return capture.get()


def test_a_fact_may_have_what_its_master_data_was_when_its_event_arrived(sales: LandedSales) -> None:
    land(sales, -60, sale(1), sale(2))
    sales.store_sale(1)
    sales.store_sale(2, city="Bonn")
    sales.execute("UPDATE shop.customer SET city = 'Bonn' WHERE id = 1")
    proof = sales.verify()
    assert proof.holds
    assert (proof.former, proof.unprovable) == (1, 0)
    assert "1  of them equal their master data as it was when they were loaded" in shown(sales)


def test_a_fact_with_what_had_been_replaced_before_its_event_arrived_is_stale(sales: LandedSales) -> None:
    sales.execute("UPDATE shop.customer SET city = 'Bonn' WHERE id = 1")
    land(sales, ALLOWANCE + 30, sale(1), sale(2))
    sales.store_sale(1)
    sales.store_sale(2, city="Bonn")
    assert sales.differences() == {"wrong_fact": ("[1] of part-0.json: city is Ulm, should be Bonn",)}


@pytest.mark.parametrize(("seconds", "stale"), [(ALLOWANCE - 5, []), (ALLOWANCE + 5, ["[1]"])])
def test_a_change_takes_a_while_to_reach_the_facts(sales: LandedSales, seconds: float, stale: list[str]) -> None:
    sales.execute("UPDATE shop.customer SET city = 'Bonn' WHERE id = 1")
    land(sales, seconds, sale(1))
    sales.store_sale(1)
    assert wrong(sales) == stale


def test_how_long_that_may_take_is_the_lookups_own(tmp_path: Path, warehouse_url: str) -> None:
    slow = watched(tmp_path, warehouse_url, lookups=[CUSTOMER | {"notice_changes": "5m"}], freshness={"target": "1m"})
    slow.execute("UPDATE shop.customer SET city = 'Bonn' WHERE id = 1")
    land(slow, 6 * 60, sale(1))
    land(slow, 8 * 60, sale(2))
    slow.store_sale(1)
    slow.store_sale(2)
    assert wrong(slow) == ["[2]"]


def prompt(folder: Path, url: str) -> LandedSales:
    """A pipeline whose facts must have a change 0.1 s after it was made."""
    lookups, freshness = [CUSTOMER | {"notice_changes": "50ms"}], {"target": "25ms"}
    return watched(folder, url, lookups=lookups, freshness=freshness)


def test_of_several_former_versions_those_since_the_arrival_are_right(tmp_path: Path, warehouse_url: str) -> None:
    sales = prompt(tmp_path, warehouse_url)
    cities = ("Ulm", "Bonn", "Kiel", "Rom")
    land(sales, 0, *(sale(number) for number in range(4)))
    sales.execute("UPDATE shop.customer SET city = 'Bonn' WHERE id = 1")
    time.sleep(0.3)
    land(sales, 0, *(sale(number) for number in range(4, 8)))
    sales.execute("UPDATE shop.customer SET city = 'Kiel' WHERE id = 1")
    for number in range(8):
        sales.store_sale(number, city=cities[number % 4])
    assert wrong(sales) == ["[3]", "[4]", "[7]"]
    assert sales.verify().former == 3


def test_a_tuple_is_there_until_its_change_is_committed(tmp_path: Path, warehouse_url: str) -> None:
    sales = prompt(tmp_path, warehouse_url)
    long_transaction = psycopg2.connect(warehouse_url)
    with long_transaction, long_transaction.cursor() as cursor:
        cursor.execute("UPDATE shop.customer SET city = 'Bonn' WHERE id = 1")
        time.sleep(0.3)
        land(sales, 0, sale(1))
    long_transaction.close()
    time.sleep(0.3)
    land(sales, 0, sale(2))
    sales.store_sale(1)
    sales.store_sale(2)
    assert wrong(sales) == ["[2]"]


def test_a_fact_must_not_mix_two_versions_of_one_tuple(sales: LandedSales) -> None:
    land(sales, -60, sale(1), sale(2))
    sales.execute("UPDATE shop.customer SET city = 'Bonn', sk = 99 WHERE id = 1")
    sales.store_sale(1, city="Ulm", customer_sk=99)
    sales.store_sale(2, city="Ulm", customer_sk=11)
    assert wrong(sales) == ["[1]"]


def test_only_a_columns_own_master_data_is_an_excuse(sales: LandedSales) -> None:
    land(sales, -60, sale(1), sale(2, customer=2))
    sales.execute("UPDATE shop.customer SET city = 'Bonn' WHERE id = 1")
    sales.store_sale(1, note="another")
    sales.store_sale(2)  # customer 1's values, for an event of customer 2
    assert wrong(sales) == ["[1]", "[2]"]


def test_a_tuple_that_has_been_deleted_or_has_got_another_key(sales: LandedSales) -> None:
    land(sales, -60, sale(1), sale(2, customer=3))
    sales.store_sale(1)
    sales.store_sale(2, customer_sk=13, city="Köln")
    sales.execute("DELETE FROM shop.customer WHERE id = 1; UPDATE shop.customer SET id = 33 WHERE id = 3")
    assert sales.verify().former == 2
    assert sales.differences() == {}
    land(sales, ALLOWANCE + 30, sale(3), sale(4, customer=3))
    sales.store_sale(3)
    sales.store_sale(4, customer_sk=13, city="Köln")
    explained = "shop.customer has no tuple with its id"
    assert sales.differences()["wrong_fact"] == tuple(f"[{n}] of part-1.json: {explained}" for n in (3, 4))


def test_defaults_are_right_while_the_tuple_was_not_there(tmp_path: Path, warehouse_url: str) -> None:
    default = {"default": {"customer_sk": -1, "city": None}}
    sales = watched(tmp_path, warehouse_url, lookups=[CUSTOMER | {"on_unmatched": default}])
    land(sales, -60, sale(1, customer=77), sale(2, customer=77), sale(3), sale(4), sale(5, customer=2))
    sales.store_sale(1, customer_sk=-1, city=None)
    sales.store_sale(2, customer_sk=77, city="Rom")
    sales.store_sale(3)
    sales.store_sale(4, customer_sk=-1, city=None)
    sales.store_sale(5, customer_sk=-1, city=None)
    sales.execute("INSERT INTO shop.customer VALUES (77, 77, 'Rom'); DELETE FROM shop.customer WHERE id = 1")
    assert wrong(sales) == ["[5]"]
    land(sales, ALLOWANCE + 30, sale(6, customer=77), sale(7))
    sales.store_sale(6, customer_sk=-1, city=None)
    sales.store_sale(7)
    assert wrong(sales) == ["[5]", "[6]", "[7]"]


TWO_LOOKUPS = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.customer (id bigint PRIMARY KEY, sk bigint NOT NULL, city text);
    INSERT INTO shop.customer VALUES (1, 11, 'Ulm');
    CREATE TABLE shop.city (name text PRIMARY KEY, region text);
    INSERT INTO shop.city VALUES ('a note', 'south');
    CREATE TABLE shop.fact_sales (sale_id bigint PRIMARY KEY, city text, region text);
"""


def two_lookups(folder: Path, url: str) -> LandedSales:
    lookups = [
        CUSTOMER | {"fetch": {"city": "city"}},
        {"relation": "shop.city", "on": {"note": "name"}, "fetch": {"region": "region"}},
    ]
    columns = {"sale_id": "sale_id", "city": "city", "region": "region"}
    sales = LandedSales(
        folder, url, TWO_LOOKUPS, lookups=lookups, fact={"table": "shop.fact_sales", "columns": columns}
    )
    sales.watch()
    return sales


def test_each_of_two_relations_may_be_at_another_version(tmp_path: Path, warehouse_url: str) -> None:
    sales = two_lookups(tmp_path, warehouse_url)
    land(sales, -60, *(sale(number) for number in range(6)))
    sales.execute("UPDATE shop.customer SET city = 'Bonn'; UPDATE shop.city SET region = 'west'")
    combinations = [(city, region) for city in ("Ulm", "Bonn") for region in ("south", "west")]
    for number, (city, region) in enumerate([*combinations, ("Ulm", "north"), ("Rom", "west")]):
        sales.store(sale_id=number, city=city, region=region)
    assert wrong(sales) == ["[4]", "[5]"]
    assert sales.verify().former == 3


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO shop.customer SELECT n, n, 'x' FROM generate_series(100, 10200) AS n",
        "UPDATE shop.customer SET sk = sk + 100",
        "TRUNCATE shop.customer",
    ],
)
def test_after_a_mass_change_older_facts_that_differ_cannot_be_proved(sales: LandedSales, statement: str) -> None:
    sales.execute("ALTER TABLE shop.customer DISABLE TRIGGER USER")
    sales.execute("INSERT INTO shop.customer SELECT n, n, 'x' FROM generate_series(20000, 31000) AS n")
    sales.execute("ALTER TABLE shop.customer ENABLE TRIGGER USER")
    land(sales, -60, sale(1), sale(2, customer=2), sale(3))
    sales.store_sale(1)
    sales.store_sale(2, customer_sk=12, city="Rom")
    sales.store_sale(3, note="another")
    sales.execute(statement)
    proof = sales.verify()
    # Who says that the city was not Rom when it was loaded? But the note is the event's own.
    unchanged = "INSERT" in statement
    assert wrong(sales) == ["[3]"]
    assert proof.unprovable == (1 if unchanged else 2)
    assert "of them can't be proved: too much master data has changed since" in shown(sales)
    land(sales, ALLOWANCE + 30, sale(4))
    sales.store_sale(4, city="Rom")
    assert wrong(sales) == ["[3]", "[4]"]


def test_a_mass_change_of_one_relation_excuses_nothing_of_another(tmp_path: Path, warehouse_url: str) -> None:
    sales = two_lookups(tmp_path, warehouse_url)
    land(sales, -60, *(sale(number) for number in range(4)))
    sales.execute(
        "UPDATE shop.customer SET city = 'Bonn'; TRUNCATE shop.city; INSERT INTO shop.city VALUES ('a note', 'w')"
    )
    for number, (city, region) in enumerate([("Ulm", "?"), ("Bonn", "w"), ("Rom", "w"), ("Rom", "?")]):
        sales.store(sale_id=number, city=city, region=region)
    proof = sales.verify()
    assert wrong(sales) == ["[2]", "[3]"]
    assert (proof.former, proof.unprovable) == (0, 1)


def test_columns_of_r_may_have_the_names_of_those_of_the_noted_changes(tmp_path: Path, warehouse_url: str) -> None:
    names = "key text, former text, relation text, kind text, xid bigint, changed_at timestamptz"
    sales = LandedSales(
        tmp_path, warehouse_url, TABLES.replace("city text);\n    INSERT", f"city text, {names});\n    INSERT")
    )
    sales.watch()
    land(sales, -60, sale(1))
    sales.store_sale(1)
    sales.execute("UPDATE shop.customer SET city = 'Bonn' WHERE id = 1")
    assert sales.verify().former == 1


def test_what_a_virtual_column_was_before_a_change_is_not_known(tmp_path: Path, warehouse_url: str) -> None:
    with closing(psycopg2.connect(warehouse_url)) as connection:
        if connection.server_version < 180_000:
            pytest.skip("PostgreSQL before 18 has no virtual columns")
    tables = TABLES.replace(
        "sk bigint NOT NULL, city text", "sk bigint NOT NULL, town text, city text GENERATED ALWAYS AS (town || '!')"
    )
    sales = LandedSales(tmp_path, warehouse_url, tables)
    sales.watch()
    land(sales, -60, sale(1), sale(2), sale(3), sale(4, customer=3))
    sales.store_sale(1, city="Ulm!")
    sales.store_sale(2, city="Bonn!")
    sales.store_sale(3, city="Bonn!", note="another")
    sales.store_sale(4, customer_sk=13, city="Rom!")
    sales.execute("INSERT INTO shop.customer VALUES (77, 77, 'Rom')")
    assert wrong(sales) == ["[2]", "[3]", "[4]"]
    sales.execute("UPDATE shop.customer SET town = 'Bonn' WHERE id = 1")
    proof = sales.verify()
    assert wrong(sales) == ["[3]"]
    assert (proof.former, proof.unprovable) == (0, 2)
    land(sales, ALLOWANCE + 30, sale(5))
    sales.store_sale(5, city="Ulm!")
    assert wrong(sales) == ["[3]", "[5]"]


def test_changes_that_retention_has_deleted_leave_older_facts_unprovable(sales: LandedSales) -> None:
    month = 30 * 24 * 3600
    land(sales, -month - 3600, sale(1))
    land(sales, -month + 3600, sale(2))
    sales.store_sale(1, city="Rom")
    sales.store_sale(2, city="Rom")
    assert wrong(sales) == ["[1]", "[2]"]
    sales.execute("INSERT INTO freshet.ledger_pruned (pipeline) VALUES ('sales')")
    assert wrong(sales) == ["[2]"]
    assert sales.verify().unprovable == 1


def test_changes_of_a_relation_that_is_not_looked_up_mean_nothing(sales: LandedSales) -> None:
    land(sales, -60, sale(1))
    sales.store_sale(1, city="Rom")
    sales.execute("INSERT INTO freshet.relation_change (relation, kind) VALUES ('shop.other', 'truncate')")
    assert wrong(sales) == ["[1]"]


def test_unmatched_events_stay_resolvable_when_their_tuple_has_come(sales: LandedSales) -> None:
    land(sales, -60, sale(1, customer=77))
    sales.hold("[1]", "unmatched")
    sales.execute("INSERT INTO shop.customer VALUES (77, 77, 'Rom')")
    proof = sales.verify()
    assert proof.holds
    assert proof.resolvable == 1
