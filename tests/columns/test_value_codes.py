"""Codes of keys: equal values have equal codes, and where codes are exact different values have different ones."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.columns.value_codes import codes_of
from spark_jobs.errors import JoinStateError

VALUES: list[tuple[pa.DataType, list[Any], bool]] = [
    (pa.int64(), [-(2**63), -1, 0, 2**63 - 1], True),
    (pa.int8(), [-128, 0, 127], True),
    (pa.bool_(), [True, False], True),
    (pa.date32(), [date(1600, 1, 1), date(1970, 1, 1), date(9999, 12, 31)], True),
    (pa.timestamp("us", tz="UTC"), [datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, UTC)], True),
    (pa.string(), ["", "a", "ab", "ü" * 50], False),
    (pa.binary(), [b"", b"\0", b"\0\0"], False),
    (pa.decimal128(38, 2), [Decimal("-1.00"), Decimal("1.00"), Decimal(10) ** 30], False),
    (pa.float64(), [-1.5, 0.0, 1e300], False),
]


@pytest.mark.parametrize(("kind", "values", "exact"), VALUES, ids=[str(kind) for kind, _, _ in VALUES])
def test_values_of_each_type_have_codes_of_their_own(kind: pa.DataType, values: list[Any], exact: bool) -> None:
    for table in (
        pa.table({"key": pa.array(values * 2, kind)}),
        pa.table({"key": pa.array([values[0], *values * 2], kind)}).slice(1),
        pa.table({"key": pa.chunked_array([pa.array(values, kind)] * 2)}),
    ):
        codes = codes_of(table, ["key"])
        assert codes.exact == exact
        assert codes.codes.dtype == "int64"
        assert len(set(codes.codes.tolist())) == len(values)
        assert (codes.codes[: len(values)] == codes.codes[len(values) :]).all()


def test_of_several_columns_their_order_counts() -> None:
    table = pa.table({"one": [1, 2, 1], "other": [2, 1, 2]})
    codes = codes_of(table, ["one", "other"])
    assert not codes.exact
    assert codes.codes[0] == codes.codes[2] != codes.codes[1]


def test_a_null_is_no_key() -> None:
    with pytest.raises(JoinStateError, match="1 values of key are null"):
        codes_of(pa.table({"key": ["a", None]}), ["key"])
