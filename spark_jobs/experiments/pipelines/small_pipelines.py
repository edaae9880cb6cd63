"""Copies of the two shipped pipelines, with names, folders and fact tables of their own, and a driver in common."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import psycopg2
import pyarrow as pa
import yaml
from psycopg2 import sql

from spark_jobs.control import driver_requests
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import PipelineDefinition, load_definition
from spark_jobs.definition.problems import read_yaml
from spark_jobs.settings import SHIPPED
from spark_jobs.workload.landing import land, land_parquet

DRIVER = "many"
_SHIPPED = SHIPPED / "dags" / "pipelines"
_CUSTOMERS, _PARTS, _SUPPLIERS = 15_000, 20_000, 1_000  # as of TPC-H at scale 0.1

_MASTER_DATA = f"""
    INSERT INTO master.customer SELECT key, key + 1000000, 'Customer ' || key, 'street', key % 25, 'phone', 1.5,
        'BUILDING', 'none' FROM generate_series(1, {_CUSTOMERS}) key;
    INSERT INTO master.part SELECT key, key + 1000000, 'Part ' || key, 'maker', 'Brand#' || key % 50, 'type', 1, 'box',
        1.5, 'none' FROM generate_series(1, {_PARTS}) key;
    INSERT INTO master.supplier SELECT key, key + 1000000, 'Supplier ' || key, 'street', key % 25, 'phone', 1.5, 'none'
        FROM generate_series(1, {_SUPPLIERS}) key;
    ANALYZE master.customer, master.part, master.supplier;
"""


def make_pipelines(count: int, folder: Path, warehouse_url: str) -> list[PipelineDefinition]:
    """Make as many pipelines, every second one of order lines, and ask their driver for them.

    Args:
        count: how many.
        folder: of their YAML files.
        warehouse_url: libpq URL of a warehouse that has no master data yet.
    """
    folder.mkdir(parents=True)
    made = []
    with psycopg2.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute(_MASTER_DATA)
        for number in range(count):
            shipped = ("orders", "order_lines")[number % 2]
            content = read_yaml(_SHIPPED / f"{shipped}.yaml")
            name = content["name"] = f"{shipped}_{number}"
            content["driver"] = DRIVER
            content["source"]["path"] = content["source"]["path"].replace(shipped, name)
            content["fact"]["table"] = f"warehouse.fact_{name}"
            cursor.execute(
                sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(
                    sql.Identifier("warehouse", f"fact_{name}"), sql.Identifier("warehouse", f"fact_{shipped}")
                )
            )
            path = folder / f"{name}.yaml"
            path.write_text(yaml.safe_dump(content))
            made.append(load_definition(path))
    for definition in made:
        register_pipeline(
            connection, definition.name, definition.freshness.target, definition.model_dump_json(by_alias=True)
        )
        driver_requests.request_state(connection, definition.name, "running")
        driver_requests.ask(connection, definition.name, DRIVER)
    connection.close()
    return made


def land_events(landing: Sequence[Path], number: int, count: int) -> None:
    """Have events land in each folder, in one file each.

    Args:
        landing: landing folders of the pipelines, in the order of `make_pipelines`.
        number: of the first event.
        count: how many in each folder.
    """
    for pipeline, folder in enumerate(landing):
        ids, now = range(number, number + count), datetime.now(UTC)
        if pipeline % 2:
            land_parquet(folder, f"lines-{number}.parquet", _lines(ids, now))
        else:
            land(folder, f"orders-{number}.json", "".join(_order(each, now) for each in ids).encode())


def _order(number: int, now: datetime) -> str:
    order = {
        "o_orderkey": number,
        "o_custkey": number % _CUSTOMERS + 1,
        "o_orderstatus": "O",
        "o_totalprice": 100.25,
        "o_orderdate": now.date().isoformat(),
        "o_orderpriority": "1-URGENT",
        "o_clerk": "Clerk#000000001",
        "o_shippriority": 0,
        "o_comment": "none",
        "ordered_at": now.isoformat(),
    }
    return json.dumps(order) + "\n"


def _lines(numbers: range, now: datetime) -> pa.Table:
    count, price = len(numbers), pa.decimal128(15, 2)
    return pa.table(
        {
            "l_orderkey": pa.array(numbers, pa.int64()),
            "l_linenumber": pa.array([1] * count, pa.int32()),
            "l_partkey": pa.array([number % _PARTS + 1 for number in numbers], pa.int64()),
            "l_suppkey": pa.array([number % _SUPPLIERS + 1 for number in numbers], pa.int64()),
            **{
                f"l_{name}": pa.array([Decimal(value)] * count, price)
                for name, value in (("quantity", 3), ("extendedprice", 30), ("discount", 0), ("tax", 0))
            },
            "l_shipdate": pa.array([date(2026, 1, 5)] * count, pa.date32()),
            "l_shipmode": pa.array(["AIR"] * count),
            "ordered_at": pa.array([now] * count, pa.timestamp("us", "UTC")),
        }
    )
