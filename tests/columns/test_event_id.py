"""Event ids: equal ids have one canonical text and one hash code, and the text leads back to the values."""

import datetime as dt
import json
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.columns.copy_encoding.column_encoder import PostgresType
from spark_jobs.columns.event_id import (
    MOST_CHARACTERS,
    event_hashes,
    event_id_texts,
    first_of_each,
    may_be_too_long,
    parse_event_ids,
)
from spark_jobs.warehouse.fact_table import FactColumn

TIME = pa.timestamp("us", tz="UTC")
QUICK = settings(deadline=None, max_examples=60)


def column(name: str, source: pa.DataType, postgres: str) -> FactColumn:
    return FactColumn(name, name, source, PostgresType(postgres, postgres), nullable=False)


KEY = [
    column("i", pa.int64(), "int8"),
    column("s", pa.string(), "text"),
    column("n", pa.decimal128(38, 20), "numeric"),
    column("b", pa.bool_(), "bool"),
    column("d", pa.date32(), "date"),
    column("t", TIME, "timestamptz"),
]
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.binary(max_size=8) | st.text(max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-20")),
        st.booleans(),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(-(2**62), 2**62),
    ),
    max_size=10,
)


def table_of(rows: list[tuple]) -> pa.Table:
    i, s, n, b, d, t = zip(*rows, strict=True) if rows else ((),) * 6
    return pa.table(
        {
            "i": pa.array(i, pa.int64()),
            "s": pa.array(s, pa.binary()).view(pa.string()),
            "n": pa.array(n, pa.decimal128(38, 20)),
            "b": pa.array(b, pa.bool_()),
            "d": pa.array(d, pa.int32()).cast(pa.date32()),
            "t": pa.array(t, pa.int64()).cast(TIME),
        }
    )


@QUICK
@given(rows=ROWS)
def test_texts_lead_back_to_the_values(rows: list[tuple]) -> None:
    tuples = table_of(rows)
    texts = event_id_texts(tuples, KEY).to_pylist()
    assert all(text.isascii() and text.isprintable() for text in texts)
    values, numbers = parse_event_ids(texts, KEY)
    assert numbers.tolist() == list(range(len(rows)))
    assert values.equals(tuples)


@QUICK
@given(rows=ROWS)
def test_different_ids_have_different_texts_and_hash_codes(rows: list[tuple]) -> None:
    tuples = table_of(rows + rows[:3])
    texts, codes = event_id_texts(tuples, KEY).to_pylist(), event_hashes(tuples, KEY).tolist()
    assert len(set(texts)) == len(set(codes)) == len(set(rows))
    assert texts[: len(rows[:3])] == texts[len(rows) :]


@pytest.mark.parametrize("alike", [False, True], ids=["hashes", "all hashes alike"])
@QUICK
@given(rows=ROWS, again=st.lists(st.integers(0, 9), max_size=5))
def test_the_first_of_each_id_is_found(rows: list[tuple], again: list[int], alike: bool) -> None:
    rows = rows + [rows[number] for number in again if number < len(rows)]
    tuples = table_of(rows)
    hashes = np.zeros(len(rows), np.int64) if alike else event_hashes(tuples, KEY)
    first = first_of_each(hashes, lambda numbers: event_id_texts(tuples.take(pa.array(numbers)), KEY))
    assert first.tolist() == [row not in rows[:number] for number, row in enumerate(rows)]


def test_texts_are_the_json_that_python_writes() -> None:
    tuples = pa.table({"i": pa.array([5, -1]), "s": pa.array(['a"\\\n\u007fé😀', "plain"])})
    key = KEY[:2]
    assert event_id_texts(tuples, key).to_pylist() == [
        json.dumps([5, 'a"\\\n\u007fé😀'], separators=(",", ":")),
        '[-1,"plain"]',
    ]


def test_equal_ids_look_the_same() -> None:
    uuids = pa.table(
        {"u": ["550E8400-E29B-41D4-A716-446655440000", "{550e8400e29b41d4a716446655440000}", "no uuid", "NO UUID"]}
    )
    key = [column("u", pa.string(), "uuid")]
    texts, codes = event_id_texts(uuids, key).to_pylist(), event_hashes(uuids, key)
    assert texts == ['["550e8400-e29b-41d4-a716-446655440000"]'] * 2 + ['["no uuid"]', '["NO UUID"]']
    assert codes[0] == codes[1]
    short = pa.table({"n": pa.array([Decimal("1.50"), Decimal(100)], pa.decimal128(10, 2))})
    long = pa.table({"n": pa.array([Decimal("1.5"), Decimal(100)], pa.decimal128(38, 20))})
    key = [column("n", pa.decimal128(10, 2), "numeric")]
    assert event_id_texts(short, key).to_pylist() == event_id_texts(long, key).to_pylist() == ["[1.5]", "[100]"]
    assert event_hashes(short, key).tolist() == event_hashes(long, key).tolist()


def test_the_type_of_an_integer_does_not_matter() -> None:
    small, large = (pa.table({"i": pa.array([7, -7], kind)}) for kind in (pa.int16(), pa.int64()))
    assert event_hashes(small, KEY[:1]).tolist() == event_hashes(large, KEY[:1]).tolist()


def test_an_id_with_a_null_has_no_text() -> None:
    tuples = pa.table({"i": pa.array([1, None]), "s": pa.array([None, "x"])})
    assert event_id_texts(tuples, KEY[:2]).to_pylist() == [None, None]
    assert event_id_texts(tuples, KEY[:1]).to_pylist() == ["[1]", None]


def test_texts_that_can_not_be_ids_are_left_out() -> None:
    texts = ['["x"]', "[1]", '{"sha256":"00"}', "[1,2]", "[true]", "[99999999999999999999]", "[null]", "[1.5]", "[2]"]
    values, numbers = parse_event_ids(texts, KEY[:1])
    assert (values["i"].to_pylist(), numbers.tolist()) == ([1, 2], [1, 8])
    key = [column("d", pa.date32(), "date"), column("n", pa.decimal128(4, 1), "numeric")]
    values, numbers = parse_event_ids(['["2024-02-30",1]', '["2024-02-29",1.5]', '["2024-02-29",1.25]', "[1,1]"], key)
    assert values.to_pylist() == [{"d": dt.date(2024, 2, 29), "n": Decimal("1.5")}]
    assert numbers.tolist() == [1]


def test_long_ids_are_noticed() -> None:
    key = KEY[:2]
    for text, long in (("x" * 100, False), ("x" * MOST_CHARACTERS, True)):
        assert may_be_too_long(pa.table({"i": [1, 2], "s": [text, ""]}), key) is long
    assert not may_be_too_long(pa.table({"i": pa.array([], pa.int64()), "s": pa.array([], pa.string())}), key)


def test_hash_codes_are_the_same_in_another_process() -> None:
    program = (
        "import pyarrow as pa; from tests.columns.test_event_id import KEY, event_hashes, table_of;"
        "from decimal import Decimal; print(event_hashes(table_of([(1, b'a', Decimal(2), True, 3, 4)]), KEY)[0])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert int(found) == event_hashes(table_of([(1, b"a", Decimal(2), True, 3, 4)]), KEY)[0]


@pytest.mark.parametrize("texts", [[], ["[5]"]])
def test_few_texts(texts: list[str]) -> None:
    values, numbers = parse_event_ids(texts, KEY[:1])
    assert values.num_rows == len(numbers) == len(texts)


def test_hash_codes_are_those_that_are_stored() -> None:
    """In ledgers and beside held tuples: they may never change."""
    columns = {
        "i": (pa.array([17, -1], pa.int32()), "int4"),
        "s": (pa.array(["A-3", "ü"]), "text"),
        "n": (pa.array([Decimal("1.50"), Decimal(-2)], pa.decimal128(10, 2)), "numeric"),
        "u": (pa.array(["550E8400-E29B-41D4-A716-446655440000", "no"]), "uuid"),
    }
    tuples = pa.table({name: values for name, (values, _) in columns.items()})
    found = {
        name: event_hashes(tuples, [column(name, values.type, kind)]).tolist()
        for name, (values, kind) in columns.items()
    }
    assert found == {
        "i": [-9_186_087_665_489_710_237, -1_956_407_806_741_107_680],
        "s": [-2_922_961_819_152_424_815, 1_093_138_969_895_921_627],
        "n": [4_921_151_328_208_396_663, 1_677_030_411_010_030_475],
        "u": [-6_443_350_433_532_772_327, 6_023_033_196_934_925_886],
    }
