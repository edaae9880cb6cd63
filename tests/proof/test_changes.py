"""Master data that changes while the stream runs: facts may have it as it was since their event arrived, not before."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from rich.console import Console
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE
from tests.proof.landed_sales import TABLES, LandedSales, ids, sale, sales_definition

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
    """Let a file land whose arrival is this many seconds from now."""
    sales.land(*records, file=file, modified=time.time() + seconds)


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


# Each changes the city of customer 1 and of a hundredth of the others, and leaves 99 % of the rows as they are.
_NEXT = "SELECT id, sk, CASE WHEN id = 1 OR id % 100 = 0 THEN 'Bonn' ELSE city END AS city FROM shop.customer"
_STAGE = f"CREATE TEMPORARY TABLE staged ON COMMIT DROP AS {_NEXT};"
RELOADS = {
    "update": f"UPDATE shop.customer SET city = next.city FROM ({_NEXT}) AS next WHERE next.id = customer.id",
    "upsert": f"INSERT INTO shop.customer {_NEXT} "
    "ON CONFLICT (id) DO UPDATE SET sk = excluded.sk, city = excluded.city",
    "merge": f"MERGE INTO shop.customer USING ({_NEXT}) AS next ON next.id = customer.id "
    "WHEN MATCHED THEN UPDATE SET city = next.city WHEN NOT MATCHED THEN INSERT VALUES (next.id, next.sk, next.city)",
    "delete and insert": f"{_STAGE} DELETE FROM shop.customer; INSERT INTO shop.customer SELECT * FROM staged",
    "truncate and insert": f"{_STAGE} TRUNCATE shop.customer; INSERT INTO shop.customer SELECT * FROM staged",
}


def fill(sales: LandedSales) -> None:
    """Enough customers for a statement that changes them all to be noted as bulk. They have always been there."""
    sales.execute("INSERT INTO shop.customer SELECT n, n, 'x' FROM generate_series(100, 12099) AS n")
    sales.execute("DELETE FROM freshet.relation_change")


@pytest.mark.parametrize("statement", RELOADS.values(), ids=list(RELOADS))
def test_facts_loaded_before_a_reload_of_the_whole_relation_stay_provable(sales: LandedSales, statement: str) -> None:
    fill(sales)
    sales.execute("GRANT USAGE ON SCHEMA shop TO freshet_change_noter; GRANT SELECT ON shop.customer TO "
                  "freshet_change_noter")  # fmt: skip
    land(sales, -60, sale(1), sale(2), sale(3, customer=2), sale(4, customer=200), sale(5))
    sales.store_sale(1)
    sales.store_sale(2, city="Bonn")
    sales.store_sale(3, customer_sk=12, city=None)
    sales.store_sale(4, customer_sk=200, city="x")
    sales.store_sale(5, city="Rom")
    sales.execute(statement)
    proof = sales.verify()
    assert wrong(sales) == ["[5]"]
    assert (proof.former, proof.unprovable) == (2, 0)
    land(sales, ALLOWANCE + 30, sale(6))
    sales.store_sale(6)
    assert wrong(sales) == ["[5]", "[6]"]


def test_a_tuple_that_is_replaced_within_a_transaction_was_never_absent(tmp_path: Path, warehouse_url: str) -> None:
    default = {"default": {"customer_sk": -1, "city": None}}
    sales = watched(tmp_path, warehouse_url, lookups=[CUSTOMER | {"on_unmatched": default}])
    fill(sales)
    land(sales, -60, sale(1), sale(2, customer=200), sale(3, customer=77))
    sales.execute(RELOADS["delete and insert"] + "; INSERT INTO shop.customer SELECT n, n, 'new' FROM "
                  "generate_series(70, 99) AS n")  # fmt: skip
    for number in (1, 2, 3):
        sales.store_sale(number, customer_sk=-1, city=None)
    assert wrong(sales) == ["[1]", "[2]"]


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE shop.customer",  # which the role that notes changes may not read
        "INSERT INTO freshet.relation_change (relation, kind) VALUES ('shop.customer', 'bulk')",  # as it was once
        "INSERT INTO freshet.relation_change (relation, kind, key, former) VALUES ('shop.customer', 'update', "
        """'{"id": 7}', '{"id": 7, "city": "x"}')""",  # by triggers that noted fewer columns
    ],
)
def test_where_it_is_not_known_what_has_changed_older_facts_cannot_be_proved(
    sales: LandedSales, statement: str
) -> None:
    land(sales, -60, sale(1), sale(2, customer=2), sale(3))
    sales.store_sale(1)
    sales.store_sale(2, customer_sk=12, city="Rom")
    sales.store_sale(3, note="another")
    sales.execute(statement)
    proof = sales.verify()
    # Who says that the city was not Rom when it was loaded? But the note is the event's own.
    assert wrong(sales) == ["[3]"]
    assert proof.unprovable == (2 if "TRUNCATE" in statement else 1)
    assert "of them can't be proved: how their master data was then is not known" in shown(sales)
    land(sales, ALLOWANCE + 30, sale(4))
    sales.store_sale(4, city="Rom")
    assert wrong(sales) == ["[3]", "[4]"]


def test_only_a_strict_proof_fails_for_facts_that_cannot_be_proved(sales: LandedSales, tmp_path: Path) -> None:
    land(sales, -60, sale(1))
    sales.store_sale(1)
    definition = tmp_path / "sales.yaml"
    definition.write_text(json.dumps(sales_definition(tmp_path)))
    environment = {WAREHOUSE_URL_VARIABLE: sales.url, HOME_VARIABLE: str(sales.home.root)}

    def verify(*options: str) -> tuple[int, int]:
        told = CliRunner().invoke(app, ["verify", str(definition), "--json", *options], env=environment)
        return told.exit_code, json.loads(told.stdout)["unprovable"]

    assert verify("--strict") == (0, 0)
    sales.execute("TRUNCATE shop.customer")
    assert verify() == (0, 1)
    assert verify("--strict") == (1, 1)


def test_rows_whose_used_columns_stay_are_not_noted(tmp_path: Path, warehouse_url: str) -> None:
    tables = TABLES.replace("city text);\n    INSERT", "city text, touched timestamptz);\n    INSERT")
    sales = LandedSales(tmp_path, warehouse_url, tables)
    sales.watch()
    sales.execute("UPDATE shop.customer SET touched = now(); UPDATE shop.customer SET touched = now() WHERE id = 1")
    sales.execute("UPDATE shop.customer SET sk = 21, touched = now() WHERE id = 1")
    assert sales.rows("SELECT kind, key, former FROM freshet.relation_change") == [
        ("update", {"id": 1}, {"id": 1, "sk": 11, "city": "Ulm"})
    ]


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
