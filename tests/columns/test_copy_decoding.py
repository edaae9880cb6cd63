"""Binary COPY decoded: the same values as psycopg2 reads."""

import contextlib
import datetime
import decimal
import io
import uuid
from collections.abc import Iterator

import numpy as np
import psycopg2
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg2 import extensions

from spark_jobs.columns.copy_decoding.column_types import UUID_KEY, ColumnType, column_type
from spark_jobs.columns.copy_decoding.decode import decode_copy
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres

MOMENTS = {"min_value": datetime.datetime(1, 1, 1), "max_value": datetime.datetime(9999, 12, 31)}
SOME_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


def modifier(precision: int, scale: int) -> int:
    return (precision << 16 | scale) + 4


def decimals(precision: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(
        lambda digits: decimal.Decimal(digits).scaleb(-scale, decimal.Context(prec=40))
    )


COLUMNS: dict[str, tuple[ColumnType | None, st.SearchStrategy]] = {
    "bigint": (column_type("int8", -1), st.integers(-(2**63), 2**63 - 1)),
    "integer": (column_type("int4", -1), st.integers(-(2**31), 2**31 - 1)),
    "smallint": (column_type("int2", -1), st.integers(-(2**15), 2**15 - 1)),
    "boolean": (column_type("bool", -1), st.booleans()),
    "double precision": (column_type("float8", -1), st.floats(allow_nan=False)),
    "real": (column_type("float4", -1), st.floats(width=32, allow_nan=False)),
    "date": (column_type("date", -1), st.dates()),
    "timestamp": (column_type("timestamp", -1), st.datetimes(**MOMENTS)),
    "timestamptz": (column_type("timestamptz", -1), st.datetimes(**MOMENTS, timezones=st.just(datetime.UTC))),
    "uuid": (column_type("uuid", -1), st.uuids().map(str)),
    "text": (column_type("text", -1), SOME_TEXT),
    "varchar": (column_type("varchar", -1), SOME_TEXT),
    **{
        f"numeric({p}, {s})": (column_type("numeric", modifier(p, s)), decimals(p, s))
        for p, s in [(1, 0), (15, 2), (9, 4), (10, 10), (20, 5), (38, 0), (38, 7), (38, 38)]
    },
}


@pytest.fixture(scope="module")
def module_connection(postgres: EmbeddedPostgres) -> Iterator[extensions.connection]:
    connection = psycopg2.connect(postgres.url(), options="-c timezone=UTC")
    connection.autocommit = True
    yield connection
    connection.close()


def copied(connection: extensions.connection, query: str) -> bytes:
    content = io.BytesIO()
    with connection.cursor() as cursor:
        cursor.copy_expert(f"COPY ({query}) TO STDOUT (FORMAT binary)", content)
    return content.getvalue()


def as_sent(name: str, value: object) -> object:
    """A value as psycopg2 reads it, from text; text has only the digits of a real that tell it from other reals."""
    return np.float32(value).item() if name == "real" and value is not None else value


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[tuple]]:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=5))
    nulls = draw(st.booleans())
    values = [st.none() | COLUMNS[name][1] if nulls else COLUMNS[name][1] for name in names]
    return names, draw(st.lists(st.tuples(*values), max_size=8))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(tables())
def test_decoded_values_are_those_that_psycopg2_reads(
    module_connection: extensions.connection, drawn: tuple[list[str], list[tuple]]
) -> None:
    names, rows = drawn
    columns = [f"c{i} {name}" for i, name in enumerate(names)]
    with module_connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS pg_temp.t; CREATE TEMP TABLE t ({', '.join(columns)})")
        if rows:
            cursor.executemany(f"INSERT INTO t VALUES ({', '.join(['%s'] * len(names))})", rows)
        cursor.execute("SELECT * FROM t")
        expected = [tuple(map(as_sent, names, row)) for row in cursor.fetchall()]
    arrays = decode_copy(copied(module_connection, "SELECT * FROM t"), [COLUMNS[name][0] for name in names])
    assert [array.type for array in arrays] == [COLUMNS[name][0].arrow for name in names]
    for array in arrays:
        array.validate(full=True)
    assert list(zip(*(array.to_pylist() for array in arrays), strict=True)) == expected


def test_many_tuples_with_nulls_and_long_text(module_connection: extensions.connection) -> None:
    query = (
        "SELECT g::bigint, CASE WHEN g % 3 > 0 THEN repeat('ü', g % 500) END,"
        " CASE WHEN g % 5 > 0 THEN g::numeric(9, 2) END"
        " FROM generate_series(1, 5000) AS g"
    )
    types = [column_type("int8", -1), column_type("text", -1), column_type("numeric", modifier(9, 2))]
    numbers, texts, amounts = decode_copy(copied(module_connection, query), types)
    assert numbers.to_pylist() == list(range(1, 5001))
    assert texts.to_pylist() == ["ü" * (g % 500) if g % 3 else None for g in range(1, 5001)]
    assert amounts.to_pylist() == [decimal.Decimal(g) if g % 5 else None for g in range(1, 5001)]


def test_infinite_dates_and_timestamps_become_the_outermost_values(module_connection: extensions.connection) -> None:
    query = "SELECT d::date, d::timestamptz FROM unnest(ARRAY['infinity', '-infinity', '2000-01-01']) AS d"
    days, moments = decode_copy(
        copied(module_connection, query), [column_type("date", -1), column_type("timestamptz", -1)]
    )
    assert days.view(pa.int32()).to_pylist() == [2**31 - 1, -(2**31), 10_957]
    assert moments.view(pa.int64()).to_pylist() == [2**63 - 1, -(2**63), 946_684_800_000_000]


def test_years_that_only_postgresql_knows_are_kept_or_capped(module_connection: extensions.connection) -> None:
    query = (
        "SELECT d::date, d::date - '1970-01-01'::date, d::timestamp"
        " FROM unnest(ARRAY['4713-01-01 BC', '294276-12-31']) AS d"
    )
    types = [column_type("date", -1), column_type("int4", -1), column_type("timestamp", -1)]
    days, expected, moments = decode_copy(copied(module_connection, query), types)
    assert days.view(pa.int32()) == expected
    assert moments.view(pa.int64()).to_pylist() == [expected[0].as_py() * 86_400_000_000, 2**63 - 1]


def test_nan_and_infinity_of_floats_are_kept(module_connection: extensions.connection) -> None:
    content = copied(module_connection, "SELECT 'NaN'::float8, '-Infinity'::float4")
    nan, infinity = decode_copy(content, [column_type("float8", -1), column_type("float4", -1)])
    assert str(nan[0]) == "nan"
    assert infinity.to_pylist() == [float("-inf")]


def test_a_key_uuid_stays_bytes(module_connection: extensions.connection) -> None:
    value = uuid.uuid4()
    (array,) = decode_copy(copied(module_connection, f"SELECT '{value}'::uuid"), [UUID_KEY])
    assert array.to_pylist() == [value.bytes]


def test_numeric_nan_is_refused_with_what_to_do(module_connection: extensions.connection) -> None:
    content = copied(module_connection, "SELECT 'NaN'::numeric(5, 2)")
    with pytest.raises(SchemaMismatchError, match="double precision"):
        decode_copy(content, [column_type("numeric", modifier(5, 2))])


def test_a_column_whose_type_has_changed_is_noticed(module_connection: extensions.connection) -> None:
    content = copied(module_connection, "SELECT 1::int")
    with pytest.raises(SchemaMismatchError, match="Restart the pipeline"):
        decode_copy(content, [column_type("int8", -1)])
    with pytest.raises(SchemaMismatchError, match="2 columns"):
        decode_copy(content, [column_type("int8", -1), column_type("text", -1)])


@pytest.mark.parametrize(
    ("name", "typmod"), [("numeric", -1), ("numeric", modifier(39, 2)), ("jsonb", -1), ("int4range", -1)]
)
def test_types_without_an_arrow_counterpart_have_no_column_type(name: str, typmod: int) -> None:
    assert column_type(name, typmod) is None


def test_a_negative_scale_is_read_as_such(module_connection: extensions.connection) -> None:
    with module_connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE scaled (a numeric(4, -2), b numeric(2, 4))")
        cursor.execute("SELECT atttypmod FROM pg_attribute WHERE attrelid = 'scaled'::regclass AND attnum > 0")
        modifiers = [value for (value,) in cursor.fetchall()]
    assert [column_type("numeric", value) for value in modifiers] == [None, None]


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_no_content_makes_the_decoder_read_outside_it(garbage: bytes) -> None:
    header = b"PGCOPY\n\xff\r\n\0" + bytes(8)
    for content in (garbage, header + garbage, header + garbage + b"\xff\xff"):
        for types in ([column_type("int8", -1)], [column_type("text", -1), column_type("numeric", modifier(9, 2))]):
            with contextlib.suppress(SchemaMismatchError):
                decode_copy(content, types)
