"""A fact column that gets the number of the load which stored the fact."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest

from spark_jobs.definition.stream_tuple import BATCH_NO
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.loading.outcome import Outcome
from spark_jobs.warehouse.fact_table_check import describe_fact_table
from tests.loading.stream import ORDER_TYPES, Stream, definition

NUMBERED = (
    "CREATE TABLE warehouse.fact (id bigint PRIMARY KEY, amount numeric(9, 2) CHECK (amount < 100), "
    "note varchar(10), load {type})"
)
COLUMNS = {"id": "id", "amount": "amount", "note": "note", "load": BATCH_NO}


@pytest.fixture
def numbered(clean_warehouse: str) -> Iterator[Stream]:
    """A pipeline whose facts have the number of their load."""
    stream = Stream(clean_warehouse, NUMBERED.format(type="bigint"))
    stream.fact = describe_fact_table(stream.connection, definition("warehouse.fact", COLUMNS, ("id",)), stream.types)
    yield stream
    stream.close()


def loads(stream: Stream) -> dict[int, int]:
    return dict(stream.query("SELECT id, load FROM warehouse.fact"))  # type: ignore[arg-type]


def test_each_fact_has_the_number_of_its_batch(numbered: Stream) -> None:
    numbered.load(numbered.facts([1, 2]))
    numbered.load(numbered.facts([3]))
    ((first,), (second,)) = numbered.query("SELECT batch_no FROM freshet.batch ORDER BY batch_no")
    assert loads(numbered) == {1: first, 2: first, 3: second}


def test_facts_that_come_again_keep_their_number(numbered: Stream) -> None:
    numbered.load(numbered.facts([1, 2]))
    before = loads(numbered)
    assert numbered.load(numbered.facts([1, 2, 3])).duplicates == 2
    assert numbered.load(numbered.facts([2, 3, 4]), careful=True).facts == 1
    assert {number: loads(numbered)[number] for number in before} == before
    assert len(set(loads(numbered).values())) == 3
    numbered.check()


def test_facts_that_the_table_refuses_do_not_take_the_number_from_the_others(numbered: Stream) -> None:
    counts = numbered.load(numbered.facts([1, 2]), Outcome(numbered.orders([3], amount=500)))
    assert (counts.facts, counts.rejected) == (2, 1)
    assert set(loads(numbered)) == {1, 2}
    ((payload,),) = numbered.query("SELECT payload FROM freshet.held_tuple")
    assert BATCH_NO not in payload


@pytest.mark.parametrize("kind", ["integer", "text", "numeric"])
def test_the_column_must_be_a_bigint(clean_warehouse: str, kind: str) -> None:
    connection = psycopg2.connect(clean_warehouse)
    with connection, connection.cursor() as cursor:
        cursor.execute(NUMBERED.format(type=kind))
    with pytest.raises(SchemaMismatchError, match=f"column load is to get the load's number, but is of type {kind}"):
        describe_fact_table(connection, definition("warehouse.fact", COLUMNS, ("id",)), ORDER_TYPES)
    connection.close()


def test_the_shipped_fact_tables_find_a_loads_facts_by_an_index(warehouse_url: str) -> None:
    connection = psycopg2.connect(warehouse_url)
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT tablename FROM pg_indexes "
            "WHERE schemaname = 'warehouse' AND indexdef LIKE '%USING brin (batch_no)%'"
        )
        assert {table for (table,) in cursor.fetchall()} == {
            "fact_orders",
            "fact_order_lines",
            "fact_auction_bids",
            "fact_fulfilment",
        }
    connection.close()
