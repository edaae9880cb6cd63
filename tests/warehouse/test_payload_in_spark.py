"""Payloads lead back to the same tuples through Spark's from_json, as reprocessing reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.definition.ddl import parse_ddl
from spark_jobs.driver.session import join_session
from spark_jobs.loading.payload import payloads
from spark_jobs.settings import Home
from spark_jobs.warehouse.event_columns import EventColumns

DDL = (
    "i bigint, h smallint, t tinyint, f float, d double, n decimal(38,18), m decimal(15,2), b boolean, s string, "
    "day date, at timestamp, raw binary"
)
ROWS: list[dict[str, Any]] = [
    {
        "i": 2**63 - 1, "h": -(2**15), "t": -128, "f": 1.100000023841858, "d": 0.1, "n": Decimal("1E-18"),
        "m": Decimal("-9999999999999.99"), "b": True, "s": 'quote " back \\ nul \0 tab \t é 😀 \u2028',
        "day": date(2024, 2, 29), "at": datetime(2024, 2, 29, 23, 59, 59, 123456, UTC), "raw": b"\x00\xff",
    },
    {
        "i": -(2**63), "h": 0, "t": 0, "f": math.inf, "d": -math.inf, "n": Decimal("-12345678901234567890.5"),
        "m": Decimal("0.10"), "b": False, "s": "", "day": date(1, 1, 1),
        "at": datetime(1, 1, 1, tzinfo=UTC), "raw": b"",
    },
    {
        "i": 1, "h": 1, "t": 1, "f": -0.0, "d": 5e-324, "n": Decimal(10**19), "m": Decimal(0), "b": None, "s": "null",
        "day": date(9999, 12, 31), "at": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), "raw": None,
    },
    {"d": 1.7976931348623157e308, "at": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)},
    {},
]  # fmt: skip


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = join_session("tests", Home(tmp_path_factory.mktemp("spark")), "local[2,4]")
    yield session
    session.stop()


def test_spark_reads_the_same_values_back(spark: Any) -> None:
    from pyspark.sql import functions

    schema = pa.schema(list(parse_ddl(DDL).items()))
    tuples = pa.Table.from_pylist(ROWS, schema)
    texts = payloads(tuples, EventColumns("orders", ("i",), "at", tuple(schema.names))).texts.to_pylist()
    held = spark.createDataFrame(pa.table({"number": range(len(texts)), "payload": texts}))
    parsed = held.orderBy("number").select(functions.from_json("payload", DDL).alias("tuple")).select("tuple.*")
    assert str(parsed.toArrow().cast(schema).to_pylist()) == str(tuples.to_pylist())
