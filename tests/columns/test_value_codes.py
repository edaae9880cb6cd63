"""Codes of keys: equal values have equal codes, and where codes are exact different values have different ones."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.columns.value_codes import codes_of, spread_codes
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


# What is stored of old is compared with what is computed now: these codes may never change.
KEPT: list[tuple[pa.DataType, list[Any], list[int]]] = [
    (pa.int32(), [17, -1], [17, -1]),
    (pa.bool_(), [True, False], [1, 0]),
    (pa.date32(), [date(2024, 2, 29), date(1600, 1, 1)], [19_782, -135_140]),
    (pa.timestamp("us", tz="UTC"), [datetime(2026, 1, 1, tzinfo=UTC)] * 2, [1_767_225_600_000_000] * 2),
    (pa.string(), ["A-3", "ü"], [-2_922_961_819_152_424_815, 1_093_138_969_895_921_627]),
    (
        pa.decimal128(10, 2),
        [Decimal("1.50"), Decimal(-2)],
        [-2_053_602_359_253_114_703, -7_153_547_336_016_066_487],
    ),
]


@pytest.mark.parametrize(("kind", "values", "codes"), KEPT, ids=[str(kind) for kind, *_ in KEPT])
def test_codes_are_those_that_are_stored(kind: pa.DataType, values: list[Any], codes: list[int]) -> None:
    assert codes_of(pa.table({"key": pa.array(values, kind)}), ["key"]).codes.tolist() == codes


def test_codes_of_several_columns_are_those_that_are_stored() -> None:
    table = pa.table({"one": pa.array([17, -1]), "other": ["A-3", "ü"]})
    assert codes_of(table, ["one", "other"]).codes.tolist() == [5_296_607_734_295_981_879, 8_348_142_848_654_574_357]


def test_spread_codes_are_those_that_are_stored() -> None:
    kept = {str(kind): spread_codes([pa.array(values, kind)]).tolist() for kind, values, _ in KEPT}
    assert kept["int32"] == [-9_186_087_665_489_710_237, -1_956_407_806_741_107_680]
    assert kept["bool"] == [-7_995_527_694_508_729_151, -2_152_535_657_050_944_081]
    assert kept["date32[day]"] == [-2_626_719_216_396_998_387, 83_232_660_743_082_817]
    assert kept["string"] == [-2_922_961_819_152_424_815, 1_093_138_969_895_921_627]
