"""Binary COPY: every type comes back from PostgreSQL as it went in, and what does not fit is found."""

import datetime as dt
import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import psycopg2
import psycopg2.extras
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg2 import extensions

from spark_jobs.columns.copy_encoding import rows as rows_module
from spark_jobs.columns.copy_encoding.column_encoder import PostgresType, Target
from spark_jobs.columns.copy_encoding.rows import Encoding, encode, encoder_for
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres

EXAMPLES = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TIME = pa.timestamp("us", tz="UTC")
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[extensions.connection]:
    connection = psycopg2.connect(postgres.url(), options="-c timezone=UTC -c extra_float_digits=1")
    psycopg2.extras.register_uuid(conn_or_curs=connection)
    yield connection
    connection.close()


def catalog_type(connection: extensions.connection, sql_type: str) -> PostgresType:
    """The type as the catalog describes a column of it."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE typed (x {sql_type}) ON COMMIT DROP")
        cursor.execute(
            "SELECT typname, format_type(atttypid, atttypmod), atttypmod FROM pg_attribute a "
            "JOIN pg_type t ON t.oid = a.atttypid WHERE attrelid = 'typed'::regclass AND attname = 'x'"
        )
        found = PostgresType.from_catalog(*cursor.fetchone())
    connection.rollback()
    return found


def copied(connection: extensions.connection, sql_type: str, values: pa.Array, read: str = "x") -> list[Any]:
    """The values after a COPY into a column of this type, all of which must fit."""
    table = pa.table({"x": values, "n": pa.array(np.arange(len(values), dtype=np.int32))})
    targets = [
        Target("n", "n", PostgresType("int4", "integer"), False),
        Target("x", "x", catalog_type(connection, sql_type), True),
    ]
    encoding = encode(table, targets)
    assert encoding.complaints == []
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE copied (n integer, x {sql_type}) ON COMMIT DROP")
        cursor.copy_expert("COPY copied FROM STDIN (FORMAT binary)", encoding.rows.stream(), size=1 << 16)
        assert cursor.rowcount == len(values)
        cursor.execute(f"SELECT {read} FROM copied ORDER BY n")
        found = [value for (value,) in cursor.fetchall()]
    connection.rollback()
    return found


def integers(bits: int) -> st.SearchStrategy:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def with_nulls(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(st.none() | values, max_size=30)


@pytest.mark.parametrize("source", [8, 16, 32, 64])
@pytest.mark.parametrize(("sql_type", "bits"), [("smallint", 16), ("integer", 32), ("bigint", 64)])
@EXAMPLES
@given(data=st.data())
def test_integers(
    connection: extensions.connection, sql_type: str, bits: int, source: int, data: st.DataObject
) -> None:
    values = data.draw(with_nulls(integers(min(bits, source))))
    assert copied(connection, sql_type, pa.array(values, f"int{source}")) == values


@EXAMPLES
@given(values=with_nulls(st.floats()))
def test_double_precision(connection: extensions.connection, values: list) -> None:
    assert str(copied(connection, "double precision", pa.array(values, pa.float64()))) == str(values)


@EXAMPLES
@given(values=with_nulls(st.floats(width=32)))
def test_real(connection: extensions.connection, values: list) -> None:
    found = copied(connection, "real", pa.array(values, pa.float32()), "x::double precision")
    assert str(found) == str(values)


@EXAMPLES
@given(values=with_nulls(integers(32)))
def test_integers_become_double_precision(connection: extensions.connection, values: list) -> None:
    assert copied(connection, "double precision", pa.array(values, pa.int32())) == values


@EXAMPLES
@given(values=with_nulls(st.booleans()))
def test_booleans(connection: extensions.connection, values: list) -> None:
    assert copied(connection, "boolean", pa.array(values, pa.bool_())) == values


@pytest.mark.parametrize(
    ("precision", "scale"),
    [
        (1, 0), (4, 0), (4, 4), (5, 2), (9, 9), (15, 2), (18, 0), (18, 1), (18, 17), (18, 18), (19, 3), (38, 0),
        (38, 10), (38, 38),
    ],
)  # fmt: skip
@EXAMPLES
@given(data=st.data())
def test_decimals(connection: extensions.connection, precision: int, scale: int, data: st.DataObject) -> None:
    bound = 10**precision - 1
    digits = with_nulls(st.integers(-bound, bound) | st.sampled_from([0, 1, -1, bound, -bound, bound // 10_000]))
    values = [None if n is None else Decimal(f"{n}E-{scale}") for n in data.draw(digits)]
    source = pa.array(values, pa.decimal128(precision, scale))
    for sql_type in (f"numeric({precision},{scale})", "numeric", f"numeric({precision + 5},{scale + 3})"):
        found = copied(connection, sql_type, source)
        assert found == values
        if sql_type == "numeric":
            assert {-v.as_tuple().exponent for v in found if v is not None} <= {scale}  # type: ignore[operator]


@EXAMPLES
@given(values=with_nulls(integers(64)))
def test_integers_become_numeric(connection: extensions.connection, values: list) -> None:
    values = [*values, -(2**63), 2**63 - 1, 0, 9_999, 10_000]
    assert copied(connection, "numeric(19,0)", pa.array(values, pa.int64())) == values
    assert copied(connection, "numeric", pa.array(values, pa.int64())) == values


def test_a_numeric_takes_the_bytes_that_the_widest_value_of_its_chunk_needs(connection: extensions.connection) -> None:
    def length(*values: str) -> int:
        encoded = check(connection, "numeric(15,2)", pa.array(map(Decimal, values), pa.decimal128(15, 2)))
        return len(encoded.rows.render(0, len(values))) // len(values)

    assert length("0.05", "-9999.99") + 2 == length("0.05", "10000.00") == length("0.05", "-99999999.99")


@pytest.mark.parametrize("sql_type", ["text", "varchar(40)", "varchar", "char(40)", "char"])
@EXAMPLES
@given(data=st.data())
def test_texts(connection: extensions.connection, sql_type: str, data: st.DataObject) -> None:
    text = TEXT if sql_type != "char" else st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    values = data.draw(with_nulls(text))
    found = copied(connection, sql_type, pa.array(values, pa.string()))
    if sql_type.startswith("char"):  # PostgreSQL pads them with spaces
        length = 40 if "40" in sql_type else 1
        values = [None if value is None else value.ljust(length) for value in values]
    assert found == values


@EXAMPLES
@given(values=with_nulls(st.dates()))
def test_dates(connection: extensions.connection, values: list) -> None:
    assert copied(connection, "date", pa.array(values, pa.date32())) == values


@pytest.mark.parametrize("sql_type", ["timestamptz", "timestamp"])
@EXAMPLES
@given(values=with_nulls(st.datetimes(timezones=st.just(dt.UTC))))
def test_timestamps(connection: extensions.connection, sql_type: str, values: list) -> None:
    found = copied(connection, sql_type, pa.array(values, TIME), "x AT TIME ZONE 'UTC'")
    naive = [None if value is None else value.replace(tzinfo=None) for value in values]
    assert [v if v is None else v.replace(tzinfo=None) for v in found] == naive
    local = pa.array(naive, pa.timestamp("us"))
    assert copied(connection, sql_type, local, "x AT TIME ZONE 'UTC'") == found


def test_the_ends_of_the_calendar(connection: extensions.connection) -> None:
    days = pa.array([-2440588, 2145042905], pa.int32()).cast(pa.date32())
    assert copied(connection, "date", days, "x::text") == ["4714-11-24 BC", "5874897-12-31"]
    times = pa.array([-210866803200000000, 2**63 - 2], pa.int64()).cast(TIME)
    found = copied(connection, "timestamptz", times, "x::text")
    assert found == ["4714-11-24 00:00:00+00 BC", "294247-01-10 04:00:54.775806+00"]


UUID_FORMS = (
    str, lambda u: str(u).upper(), lambda u: f"{{{u}}}", lambda u: u.hex,
    lambda u: "-".join(u.hex[k : k + 4] for k in range(0, 32, 4)), lambda u: f"{{{u.hex[:28]}-{u.hex[28:]}}}",
)  # fmt: skip


@EXAMPLES
@given(values=with_nulls(st.tuples(st.uuids(), st.sampled_from(UUID_FORMS))))
def test_uuids_in_all_forms(connection: extensions.connection, values: list) -> None:
    texts = [None if value is None else value[1](value[0]) for value in values]
    expected = [None if value is None else value[0] for value in values]
    assert copied(connection, "uuid", pa.array(texts, pa.string())) == expected


@EXAMPLES
@given(texts=st.lists(st.text("0aF-{} g", max_size=40) | st.uuids().map(lambda u: "-" + str(u)), max_size=10))
def test_a_text_is_a_uuid_where_postgresql_says_so(connection: extensions.connection, texts: list) -> None:
    unfit = encoder_for(PostgresType("uuid", "uuid"), pa.string()).unfit(pa.array(texts, pa.string()))
    with connection.cursor() as cursor:
        cursor.execute("SELECT NOT pg_input_is_valid(t, 'uuid') FROM unnest(%s::text[]) t", [texts])
        expected = [value for (value,) in cursor.fetchall()]
    assert (unfit.tolist() if unfit is not None else [False] * len(texts)) == expected


@EXAMPLES
@given(values=with_nulls(st.binary(max_size=40)))
def test_bytes(connection: extensions.connection, values: list) -> None:
    found = copied(connection, "bytea", pa.array(values, pa.binary()))
    assert [None if value is None else bytes(value) for value in found] == values


@pytest.mark.parametrize("sql_type", ["json", "jsonb"])
def test_json(connection: extensions.connection, sql_type: str) -> None:
    values = ['{"a": [1, null]}', None, '"é"', "3"]
    assert copied(connection, sql_type, pa.array(values, pa.string())) == [{"a": [1, None]}, None, "é", 3]


# Layouts


@EXAMPLES
@given(
    numbers=st.lists(st.none() | integers(64), min_size=1, max_size=60),
    texts=st.lists(st.none() | TEXT, min_size=1, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    block=st.sampled_from([1, 50, 1 << 19]),
    read=st.sampled_from([1, 7, 1 << 16]),
)
def test_slices_chunks_blocks_and_reads_make_no_difference(
    connection: extensions.connection, numbers: list, texts: list, cuts: list, block: int, read: int
) -> None:
    count = min(len(numbers), len(texts))
    whole = pa.table({"number": pa.array(numbers[:count], pa.int64()), "text": pa.array(texts[:count], pa.string())})
    bounds = sorted({0, count, *(min(cut, count) for cut in cuts)})
    table = pa.concat_tables([whole.slice(a, b - a) for a, b in pairwise(bounds)])
    targets = [
        Target("number", "number", PostgresType("int8", ""), True),
        Target("text", "text", PostgresType("text", ""), True),
    ]
    with pytest.MonkeyPatch.context() as patch, connection.cursor() as cursor:
        patch.setattr(rows_module, "_BLOCK_BYTES", block)
        cursor.execute("CREATE TEMPORARY TABLE copied (row serial, number bigint, text text) ON COMMIT DROP")
        rows = encode(table, targets).rows
        middle = bounds[len(bounds) // 2]
        for start, stop in ((0, middle), (middle, None)):
            stream = rows.stream(start, stop)
            cursor.copy_expert("COPY copied (number, text) FROM STDIN (FORMAT binary)", stream, size=read)
        cursor.execute("SELECT number, text FROM copied ORDER BY row")
        assert cursor.fetchall() == list(zip(numbers[:count], texts[:count], strict=True))
    connection.rollback()


@pytest.mark.parametrize(
    ("sql_type", "values"),
    [
        ("text", pa.array(["a", None, "b", "a"]).dictionary_encode()),
        ("text", pa.array(["a", None], pa.large_string())),
        ("text", pa.array(["a", None], pa.string_view())),
        ("bytea", pa.array([b"a", None], pa.large_binary())),
        ("integer", pa.array([5, None, 5]).dictionary_encode()),
        ("numeric(5,1)", pa.array([Decimal("1.5"), None], pa.decimal32(5, 1))),
        ("numeric(5,1)", pa.array([Decimal("1.5"), None], pa.decimal64(9, 1))),
    ],
)
def test_other_arrow_layouts(connection: extensions.connection, sql_type: str, values: pa.Array) -> None:
    found = copied(connection, sql_type, values)
    assert [bytes(v) if isinstance(v, memoryview) else v for v in found] == values.to_pylist()


def test_a_single_row_larger_than_a_block(connection: extensions.connection) -> None:
    values = ["x" * 3_000_000, "y", None]
    assert copied(connection, "text", pa.array(values)) == values


# What does not fit


def check(connection: extensions.connection, sql_type: str, values: pa.Array, *, nullable: bool = True) -> Encoding:
    target = Target("price", "x", catalog_type(connection, sql_type), nullable)
    return encode(pa.table({"x": values}), [target])


UNFIT = [
    ("smallint", pa.array([1, 32768, -32769, None]), [1, 2],
     "32768 does not fit smallint, which takes -32768 to 32767"),
    ("integer", pa.array([2**31, 0]), [0], "2147483648 does not fit integer, which takes -2147483648 to 2147483647"),
    ("numeric(5,2)", pa.array([Decimal("999.99"), Decimal("1000.00")], pa.decimal128(9, 2)), [1],
     "1000.00 does not fit numeric(5,2), which takes 3 digits before the point and 2 behind it"),
    ("numeric(5,2)", pa.array([Decimal("-1.50"), Decimal("0.001"), None], pa.decimal128(9, 3)), [1],
     "0.001 does not fit"),
    ("numeric(5,2)", pa.array([Decimal("-1000"), Decimal("1")], pa.decimal128(38, 20)), [0],
     "-1000.000000000000000000"),
    ("numeric(20,2)", pa.array([Decimal("1.001"), Decimal("1")], pa.decimal128(38, 20)), [0],
     "1.00100000000000000000 does"),
    ("numeric(30,1)", pa.array([Decimal(f"{10**29 - 1}.5"), Decimal(f"{10**29}.0")], pa.decimal128(38, 2)), [1],
     "100000000000000000000000000000.00 does"),
    ("numeric(31,1)", pa.array([Decimal(f"{10**30 - 1}.50"), Decimal(f"{10**29 - 1}.55")], pa.decimal128(38, 2)), [1],
     "99999999999999999999999999999.55 does"),
    ("numeric(3,0)", pa.array([1000, -1000, 999, None]), [0, 1], "1000 does not fit numeric(3,0)"),
    ("varchar(2)", pa.array(["ab", "é€😀", "ab ", None]), [1, 2],
     r"'\xe9\u20ac\U0001f600' does not fit character varying(2), which takes at most 2 characters"),
    ("char(2)", pa.array(["abc", "ab  ", "a"]), [0], "'abc' does not fit character(2)"),
    ("text", pa.array(["a\0", "", None]), [0], r"'a\x00' holds a NUL byte, which text can't"),
    ("text", pa.array([b"ok", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x82"], pa.binary()).view(pa.string()),
     [1, 2, 3, 4], r"b'\xff' is not valid UTF-8, which text must be"),
    ("date", pa.array([2**31 - 1, -(2**31), 0], pa.int32()).cast(pa.date32()), [0, 1],
     "5881580-07-11 does not fit date, which takes 4713 BC to 5874897"),
    ("timestamptz", pa.array([-(2**63), 0, None]).cast(TIME), [0], "NaT does not fit timestamp with time zone"),
    ("timestamptz", pa.array([2**63 - 1, 2**63 - 2, None]).cast(TIME), [0],
     "294247-01-10T04:00:54.775807 does not fit timestamp with time zone, which takes 4713 BC to 294246"),
    ("timestamp(3)", pa.array([1_000, 1_001, -1]).cast(TIME), [1, 2],
     "1970-01-01T00:00:00.001001 does not fit timestamp(3)"),
    ("uuid", pa.array(["550e8400-e29b-41d4-a716-44665544000", None]), [0],
     "'550e8400-e29b-41d4-a716-44665544000' is no uuid"),
    ("json", pa.array(["{}", "{", "NaN", None]), [1, 2], "'{' is no JSON text, which json must be"),
]  # fmt: skip


@pytest.mark.parametrize(("sql_type", "values", "unfit", "complaint"), UNFIT)
def test_unfit_values_are_found_and_explained(
    connection: extensions.connection, sql_type: str, values: pa.Array, unfit: list[int], complaint: str
) -> None:
    encoding = check(connection, sql_type, values)
    assert encoding.unfit.tolist() == unfit
    assert encoding.complaints[0].startswith(f"column price: {complaint}")
    assert encoding.fitting is not None
    assert encoding.rows.count == len(values) - len(unfit)


def test_nulls_do_not_fit_where_none_are_allowed(connection: extensions.connection) -> None:
    encoding = check(connection, "integer", pa.array([1, None, 2**40]), nullable=False)
    assert encoding.unfit.tolist() == [1, 2]
    assert encoding.complaints[0] == "column price: it is null, and the column takes no nulls"


def test_long_values_are_shortened_in_complaints(connection: extensions.connection) -> None:
    (complaint,) = check(connection, "varchar(5)", pa.array(["x" * 1_000_000])).complaints
    assert len(complaint) < 150


@EXAMPLES
@given(values=st.lists(st.binary(max_size=6), max_size=30), length=st.none() | st.integers(1, 4))
@example(values=["é".encode()[:1], "é".encode()[1:]], length=None)  # text only if put together
def test_texts_fit_where_python_can_decode_them(values: list[bytes], length: int | None) -> None:
    unfit = encoder_for(PostgresType("varchar", "", length=length), pa.string()).unfit(
        pa.array(values, pa.binary()).view(pa.string())
    )

    def fits(value: bytes) -> bool:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return False
        return "\0" not in text and (length is None or len(text) <= length)

    assert (unfit.tolist() if unfit is not None else [False] * len(values)) == [not fits(value) for value in values]


@pytest.mark.parametrize(
    ("sql_type", "source", "message"),
    [
        ("integer", pa.float64(), "integer can't keep values of type double; it takes tinyint, smallint, int, bigint"),
        ("real", pa.float64(), "real can't keep values of type double; it takes float"),
        ("numeric", pa.float64(), "numeric can't keep values of type double; it takes decimal"),
        ("double precision", pa.int64(), "double precision can't keep values of type int64"),
        ("bigint", pa.string(), "bigint can't keep values of type string"),
        ("interval", pa.int64(), "type interval is not supported; supported are smallint"),
        ("numeric(3,-2)", pa.int64(), "use a scale of at least 0"),
        ("timestamptz", pa.timestamp("ns"), "timestamp with time zone can't keep"),
    ],
)
def test_types_that_would_lose_something_are_refused(
    connection: extensions.connection, sql_type: str, source: pa.DataType, message: str
) -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        encoder_for(catalog_type(connection, sql_type), source)
    assert message in str(caught.value)


def test_special_numbers_survive(connection: extensions.connection) -> None:
    special = [math.nan, math.inf, -math.inf, -0.0, 5e-324]
    assert str(copied(connection, "double precision", pa.array(special))) == str(special)


def test_an_empty_table_is_an_empty_copy(connection: extensions.connection) -> None:
    for sql_type, kind in (("text", pa.string()), ("numeric", pa.decimal128(38, 2)), ("bigint", pa.int64())):
        assert copied(connection, sql_type, pa.array([], kind)) == []
        assert copied(connection, sql_type, pa.array([None, None], kind)) == [None, None]


def test_the_example_uuid_is_read_by_python_too(connection: extensions.connection) -> None:
    value = uuid.UUID("550e8400-e29b-41d4-a716-446655440000")
    assert copied(connection, "uuid", pa.array([str(value)])) == [value]
