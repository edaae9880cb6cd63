"""What a pipeline is known by: no two may load one fact table, and none may change its event id while ids are held."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from datetime import timedelta

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.control import drivers
from spark_jobs.control.registration import register_pipeline, retire_pipeline
from spark_jobs.errors import PipelineDefinitionError
from spark_jobs.reprocessing import run_ledger
from spark_jobs.reprocessing.request import ReprocessingRequest
from tests.ledger.ledger_rows import execute
from tests.loading.stream import wait_for_waiters

SALES = "CREATE TABLE warehouse.sales (sale_id bigint PRIMARY KEY)"
PARTITIONED = """
    CREATE TABLE warehouse.sales (sale_id bigint PRIMARY KEY) PARTITION BY RANGE (sale_id);
    CREATE TABLE warehouse.sales_1 PARTITION OF warehouse.sales FOR VALUES FROM (0) TO (100);
    CREATE TABLE warehouse.sales_2 PARTITION OF warehouse.sales FOR VALUES FROM (100) TO (200);
"""


def register(
    connection: extensions.connection,
    name: str = "sales",
    table: str = "warehouse.sales",
    schema: str = "sale_id bigint, shop string",
    event_id: tuple[str, ...] = ("sale_id",),
) -> None:
    columns = {part: part for part in event_id}
    definition = {
        "source": {"schema": schema, "event_id": list(event_id)},
        "fact": {"table": table, "columns": columns},
    }
    register_pipeline(connection, name, timedelta(seconds=5), json.dumps(definition))


def hold(connection: extensions.connection, event_id: str = "[1]", place: str = "unmatched") -> None:
    execute(
        connection,
        "INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, fate, reason, payload, "
        "payload_encoding, arrived_at, batch_no) VALUES ('sales', %s, 0, %s, %s, 'why', '{}', 'json', now(), 1)",
        event_id,
        place,
        place,
    )


def registered(connection: extensions.connection) -> list[str]:
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT name FROM freshet.pipeline ORDER BY name")
        return [name for (name,) in cursor]


def test_a_second_pipeline_of_a_fact_table_is_refused_by_name(connection: extensions.connection) -> None:
    execute(connection, SALES)
    register(connection)
    told = r"returns can't load warehouse\.sales: that is the fact table of pipeline sales.*`freshet retire sales`"
    with pytest.raises(PipelineDefinitionError, match=told):
        register(connection, "returns")
    register(connection)
    assert registered(connection) == ["sales"]


@pytest.mark.parametrize(("first", "second"), [("sales", "sales_1"), ("sales_1", "sales")])
def test_a_partition_and_its_table_are_of_one_pipeline(
    connection: extensions.connection, first: str, second: str
) -> None:
    execute(connection, PARTITIONED)
    register(connection, "one", f"warehouse.{first}")
    with pytest.raises(PipelineDefinitionError, match=rf"which has rows in common with warehouse\.{first}: "):
        register(connection, "two", f"warehouse.{second}")


def test_tables_without_common_rows_are_free(connection: extensions.connection) -> None:
    execute(connection, PARTITIONED)
    execute(connection, 'CREATE TABLE warehouse."Sales_1" (sale_id bigint PRIMARY KEY)')
    for name, table in (("one", "sales_1"), ("two", "sales_2"), ("three", "Sales_1")):
        register(connection, name, f"warehouse.{table}")
    assert registered(connection) == ["one", "three", "two"]


def test_of_two_that_start_at_once_one_is_refused(connection: extensions.connection, clean_warehouse: str) -> None:
    execute(connection, SALES)
    execute(
        connection,
        "CREATE FUNCTION warehouse.wait() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;"
        "CREATE TRIGGER wait BEFORE INSERT ON freshet.pipeline FOR EACH ROW EXECUTE FUNCTION warehouse.wait()",
    )
    refused: list[str] = []

    def start(name: str) -> None:
        with closing(psycopg2.connect(clean_warehouse)) as own:
            try:
                register(own, name)
            except PipelineDefinitionError:
                refused.append(name)

    threads = [threading.Thread(target=start, args=[name]) for name in ("sales", "returns")]
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(1)")
        for thread in threads:
            thread.start()
        wait_for_waiters(clean_warehouse, 2)
    for thread in threads:
        thread.join()
    assert sorted(refused + registered(connection)) == ["returns", "sales"]
    assert len(refused) == 1


def test_a_retired_pipeline_leaves_its_fact_table_to_another(connection: extensions.connection) -> None:
    execute(connection, SALES)
    register(connection)
    epoch = drivers.take_over(connection, "sales", log_file=None)
    with pytest.raises(PipelineDefinitionError, match=r"is in use: its driver runs on .* Drain it first"):
        retire_pipeline(connection, "sales")
    drivers.finish(connection, "sales", epoch, "stopped")
    retire_pipeline(connection, "sales")
    register(connection, "returns")
    with pytest.raises(PipelineDefinitionError, match="the fact table of pipeline returns"):
        register(connection)
    retire_pipeline(connection, "returns")
    register(connection)
    with pytest.raises(PipelineDefinitionError, match="the fact table of pipeline sales"):
        register(connection, "returns")


def test_a_driver_that_was_only_paused_can_write_no_more_for_a_retired_pipeline(
    connection: extensions.connection,
) -> None:
    execute(connection, SALES)
    register(connection)
    epoch = drivers.take_over(connection, "sales", log_file=None)
    execute(connection, "UPDATE freshet.driver SET heartbeat_at = now() - interval '1 minute'")
    retire_pipeline(connection, "sales")
    assert drivers.heartbeat(connection, "sales", epoch) == "fenced"
    assert execute(connection, "SELECT epoch FROM freshet.pipeline") > (epoch,)


def test_a_pipeline_that_is_retired_while_its_driver_warms_up_leaves_its_fact_table_to_the_next(
    connection: extensions.connection,
) -> None:
    execute(connection, SALES)
    register(connection)
    retire_pipeline(connection, "sales")
    register(connection, "returns")
    drivers.take_over(connection, "returns", log_file=None)
    with pytest.raises(PipelineDefinitionError, match="Pipeline sales was retired meanwhile"):
        drivers.take_over(connection, "sales", log_file=None)
    assert execute(connection, "SELECT count(*) FROM freshet.driver") == (1,)


def test_a_reprocessing_run_of_a_pipeline_that_is_being_retired_is_not_opened(
    connection: extensions.connection, clean_warehouse: str
) -> None:
    register(connection)
    refused: list[str] = []

    def open_run() -> None:
        with closing(psycopg2.connect(clean_warehouse)) as own:
            try:
                run_ledger.open_run(own, "sales", ReprocessingRequest(limit=1))
            except PipelineDefinitionError as error:
                refused.append(str(error))

    thread = threading.Thread(target=open_run)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT FROM freshet.pipeline FOR UPDATE")
        cursor.execute("UPDATE freshet.pipeline SET retired_at = clock_timestamp()")
        thread.start()
        wait_for_waiters(clean_warehouse)
    thread.join()
    assert refused == ["Pipeline sales was retired. Start its stream, and it is one again."]
    assert execute(connection, "SELECT count(*) FROM freshet.reprocessing_run") == (0,)


CHANGES = [
    ("sale_id string, shop string", ("sale_id",), r"was \(sale_id bigint\) and is now \(sale_id string\)"),
    ("sale_id bigint, shop string", ("sale_id", "shop"), r"is now \(sale_id bigint, shop string\)"),
    ("id bigint, shop string", ("id",), r"is now \(id bigint\)"),  # held payloads have the column's name
    ("sale_id decimal(9,2)", ("sale_id",), r"is now \(sale_id decimal\(9,2\)\)"),
]


@pytest.mark.parametrize("place", ["shed", "rejected"])
@pytest.mark.parametrize(("schema", "event_id", "told"), CHANGES)
def test_another_event_id_is_refused_while_tuples_are_held(
    connection: extensions.connection, schema: str, event_id: tuple[str, ...], told: str, place: str
) -> None:
    register(connection)
    hold(connection, place=place)
    with pytest.raises(PipelineDefinitionError, match=rf"{told}, but tuples are held .*\(1 {place}\)"):
        register(connection, schema=schema, event_id=event_id)
    execute(connection, "DELETE FROM freshet.held_tuple")
    hold(connection, '{"sha256":"00"}', "rejected")  # has no event id
    register(connection, schema=schema, event_id=event_id)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("sale_id bigint", "sale_id smallint"),
        ("sale_id int", "sale_id bigint, more string"),
        ("sale_id decimal(9,2)", "sale_id decimal(15,2)"),
    ],
)
def test_types_that_write_an_id_alike_may_be_exchanged(
    connection: extensions.connection, before: str, after: str
) -> None:
    register(connection, schema=before)
    hold(connection)
    register(connection, schema=after)


def test_a_fact_column_that_has_become_a_uuid_changes_the_event_id(connection: extensions.connection) -> None:
    execute(connection, "CREATE TABLE warehouse.sales (shop text PRIMARY KEY)")
    register(connection, event_id=("shop",))
    hold(connection, '["5F7A1B6E-0D9C-4C39-8E2B-0C5C3D0A9C11"]')
    execute(connection, "ALTER TABLE warehouse.sales ALTER shop TYPE uuid USING shop::uuid")
    with pytest.raises(PipelineDefinitionError, match=r"was \(shop string\) and is now \(shop uuid\)"):
        register(connection, event_id=("shop",))


@pytest.mark.parametrize("change", [{"table": "warehouse.other"}, {"schema": "sale_id string"}])
def test_what_a_living_driver_loads_does_not_change_under_it(
    connection: extensions.connection, change: dict[str, str]
) -> None:
    register(connection)
    epoch = drivers.take_over(connection, "sales", log_file=None, spark_application_id="local-1")
    with pytest.raises(PipelineDefinitionError, match="Drain the driver first"):
        register(connection, **change)
    drivers.finish(connection, "sales", epoch, "stopped")
    register(connection, **change)


def test_a_pipeline_from_before_event_ids_were_kept_is_known_by_its_definition(
    connection: extensions.connection,
) -> None:
    register(connection)
    hold(connection)
    execute(connection, "UPDATE freshet.pipeline SET event_id = NULL")
    with pytest.raises(PipelineDefinitionError, match=r"was \(sale_id bigint\)"):
        register(connection, schema="sale_id string")
