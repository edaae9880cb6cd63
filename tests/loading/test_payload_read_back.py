"""Payloads made of columns lead back to the same tuples, as reprocessing reads them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spark_jobs.definition.ddl import parse_columns
from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.loading.payload import payload_bytes, payloads
from spark_jobs.source.records.formats import decode_records

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


def test_the_same_values_are_read_back() -> None:
    kinds = parse_columns(DDL)
    schema = pa.schema([(name, kind.arrow()) for name, kind in kinds.items()])
    tuples = pa.Table.from_pylist(ROWS, schema)
    held = payloads(tuples, EventColumns("orders", ("i",), "at", tuple(schema.names), "json"))
    decoded = decode_records(payload_bytes(held.texts, held.encodings), "json", kinds)
    assert decoded.reasons.to_pylist() == [None] * len(ROWS)
    assert str(decoded.tuples.to_pylist()) == str(tuples.to_pylist())
