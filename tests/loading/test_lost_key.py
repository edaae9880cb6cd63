"""That an event is stored once rests on the fact table's key: without it nothing is loaded."""

from __future__ import annotations

import psycopg2
import pytest

from spark_jobs.errors import LoadBlockedError
from spark_jobs.loading.refusals import ErrorKind, kind_of_error
from tests.loading.stream import Stream

DROP = "ALTER TABLE warehouse.fact DROP CONSTRAINT fact_pkey"


@pytest.mark.parametrize(
    "instead",
    [
        "",
        "ALTER TABLE warehouse.fact ADD UNIQUE (id) DEFERRABLE",
        "CREATE UNIQUE INDEX ON warehouse.fact (id) WHERE id > 0",
        "CREATE UNIQUE INDEX ON warehouse.fact (id, note)",
        "CREATE INDEX ON warehouse.fact (id)",
    ],
)
def test_nothing_is_loaded_while_the_key_is_gone(orders: Stream, instead: str) -> None:
    orders.load(orders.facts(range(10)))
    batch_no = orders.open()
    orders.query(f"{DROP}; {instead}")
    with pytest.raises(LoadBlockedError, match=r"lost its key.*ADD PRIMARY KEY \(id\)"):
        orders.loader(batch_no).load(orders.facts(range(5, 15)))
    assert orders.fact_ids() == list(range(10))
    orders.query("ALTER TABLE warehouse.fact ADD PRIMARY KEY (id)")
    orders.loader(batch_no, careful=True).load(orders.facts(range(5, 15)))
    orders.close_batch(batch_no)
    orders.check()
    assert orders.fact_ids() == list(range(15))


def test_a_batch_is_closed_for_good_where_the_database_does_not_wait_for_the_disk(orders: Stream) -> None:
    """What was loaded is removed from the landing folder after that."""
    orders.query(
        "CREATE TABLE warehouse.told (setting text);"
        "CREATE FUNCTION warehouse.tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO warehouse.told VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;"
        "CREATE CONSTRAINT TRIGGER tell AFTER UPDATE ON freshet.batch DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION warehouse.tell(); SET synchronous_commit TO off"
    )
    orders.load(orders.facts([1]))
    orders.query("SET synchronous_commit TO on")
    orders.load(orders.facts([2]))
    orders.query("DROP TRIGGER tell ON freshet.batch")
    assert set(orders.query("SELECT setting FROM warehouse.told")) == {("local",), ("on",)}


@pytest.mark.parametrize("error", [psycopg2.OperationalError, psycopg2.DatabaseError])
def test_a_server_that_closes_the_connection_while_rows_are_copied_is_away(error: type[psycopg2.Error]) -> None:
    """The connection does not know that it is closed, and the error has no SQLSTATE."""
    told = error("server closed the connection unexpectedly")
    assert kind_of_error(told, connection_lost=False) is ErrorKind.CONNECTION_LOST
