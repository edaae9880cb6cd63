from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.definition.ddl import parse_columns
from spark_jobs.source.records import json_blocks
from spark_jobs.source.records.decoded import merged
from spark_jobs.source.records.formats import decode_records
from spark_jobs.source.records.json_blocks import decode_json
from spark_jobs.source.records.json_members import decode_each
from tests.source.hostile_records import NUMBERS, TEXTS, rows, same, spoilt
from tests.source.landed_records import JSON_LINES

COLUMNS = parse_columns(
    "i bigint, n int, sm smallint, t tinyint, d decimal(10,2), p decimal(3,3), w decimal(38,0), f double, f4 float, "
    "s string, b boolean, dt date, ts timestamp, bin binary"
)
NAMES = [json.dumps(name) for name in COLUMNS]
OTHER_NAMES = ['"unknown"', '"I"', '"\\u0069"', '""', '"\\ud800"', "i", "'i'", '"s\\u0000"', '"nested"']
PIECES = [
    b"", b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\0", b"\n", b"\r", b"\t", b" ", b"\xff", b"\xc3", b"NaN",
    b"Inf", b"\xed\xa0\x80", b"\\u0000", b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b"\\q", b"/*c*/", b"\xef\xbb\xbf",
    b"}{", b"null", b"tru", b"\x0b", b"\xc2\xa0", b"[" * 99, b"1",
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def halves_down_to_two_records() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_blocks, "_FEW", 2)
        yield


def strings() -> st.SearchStrategy[str]:
    texts = st.sampled_from(TEXTS)
    return st.one_of(texts.map(json.dumps), texts.map(lambda text: json.dumps(text, ensure_ascii=False)))


def tokens() -> st.SearchStrategy[str]:
    plain = st.one_of(st.sampled_from([*NUMBERS, "true", "false", "null", '"\\ud800"', '"\\u0000"']), strings())
    return st.recursive(
        plain,
        lambda inner: st.one_of(
            st.lists(inner, max_size=2).map(lambda items: f"[{' , '.join(items)}]"),
            st.lists(st.tuples(st.sampled_from([*NAMES, *OTHER_NAMES]), inner), max_size=2).map(
                lambda members: "{" + ",".join(f"{name}: {token}" for name, token in members) + "}"
            ),
        ),
        max_leaves=4,
    )


PLAIN = {
    "i": ["1", "-9223372036854775808"], "d": ["1.5", '"1.50"', "1e2", "7"], "f": ["1.5", "0", "1e5", "-0.0", "0.1"],
    "s": ['"x"', '"K\\u00f6ln"', '"\\n"', "null"], "b": ["true", "false"], "dt": ['"2024-01-02"'], "f4": ["0.1"],
    "ts": ['"2024-01-02T03:04:05Z"', '"2024-01-02 03:04:05.5"'], "bin": ['"AQI="'], "n": ["5"], "unknown": ["[1]"],
}  # fmt: skip


@st.composite
def records(draw: st.DrawFn) -> bytes:
    names = draw(st.lists(st.sampled_from(sorted(PLAIN)), unique=True, max_size=5))
    members = [(json.dumps(name), draw(st.sampled_from(PLAIN[name]))) for name in names]
    if draw(st.integers(0, 3)) == 0:
        members += draw(st.lists(st.tuples(st.sampled_from([*NAMES, *OTHER_NAMES]), tokens()), max_size=2))
    space = draw(st.sampled_from(["", "", "", " ", "\t"]))
    record = "{" + f",{space}".join(f"{name}:{space}{token}" for name, token in members) + "}"
    return spoilt(draw, record.encode("utf-8", "surrogatepass"), PIECES)


@settings(deadline=None)
@given(st.lists(records(), max_size=12))
def test_a_block_gives_what_its_records_give_one_by_one(some: list[bytes]) -> None:
    array = pa.array(some, pa.binary())
    assert same(decode_json(array, COLUMNS), decode_each(array, COLUMNS))


def test_records_as_they_may_land_give_the_same_in_a_block_and_one_by_one() -> None:
    lines = [line for some in JSON_LINES.values() for line in some]
    deep = [b'{"u":' + b"[" * levels + b"]" * levels + b',"i":1}' for levels in (98, 99, 100, 5000)]
    array = pa.array([*lines, *deep], pa.binary())
    assert same(decode_json(array, COLUMNS), decode_each(array, COLUMNS))
    alone = [(np.array([number]), decode_json(array[number : number + 1], COLUMNS)) for number in range(len(array))]
    assert same(merged(alone), decode_json(array, COLUMNS))


TAKEN = {
    "i": ["1", "-0", "9223372036854775807", "null"],
    "sm": ["-32768", "32767"],
    "d": ["1", "1.5", "1.5000", "1e2", "12e-1", '"1.50"', '"+.5"', "99999999.99", "0e5", "-0.001e1", "0.000"],
    "f": ["1", "1.5", "1e5", "1e-400", '"NaN"', '"Infinity"', '"-Infinity"', "-0.0"],
    "b": ["true", "false"],
    "s": ['"x"', '""', '"\\u0000"', '"\\ud83d\\ude00"', '{"a": 1,  "b":[]}', "[1, 2]", "[]"],
    "dt": ['"2024-02-29"', '"0001-01-01"', '"9999-12-31"'],
    "ts": [
        '"2024-01-02T03:04:05"', '"2024-01-02 03:04:05.123456"', '"2024-01-02T03:04:05.123456000Z"',
        '"2024-01-02T03:04:05+02"', '"2024-01-02T03:04:05-0230"', '"2024-01-02T03:04:05+02:30"',
    ],
    "bin": ['"AQI="', '""'],
}  # fmt: skip
REFUSED = {
    "i": ["1.0", "1e2", '"1"', "true", "9223372036854775808", "[1]", "1" * 5000],
    "sm": ["32768"],
    "d": ["1.255", "1e8", "true", '"1,5"', '"NaN"', '" 1"', '""', "1e-3", "[1]", "1e99999999999"],
    "f": ["1e400", "-1e400", '"1.5"', "true", '"nan"', '"+Infinity"', "1" * 400],
    "f4": ["1e39"],
    "b": ["1", '"true"', "0"],
    "s": ["1", "1.5", "true"],
    "dt": ['"2023-02-29"', '"2024-1-2"', '"0000-01-01"', "19000", '"2024-01-02T00:00:00"', '"20240102"'],
    "ts": [
        "1700000000", '"2024-01-02"', '"2024-01-02T03:04"', '"2024-01-02T03:04:05.1234567Z"', '"2024-01-02T24:00:00"',
        '"2024-01-02T03:04:60"', '"0001-01-01T00:00:00+01:00"', '"2024-01-02T03:04:05 Europe/Berlin"',
    ],
    "bin": ['"AQI"', '"AQ I="', '"A-I_"', "5"],
}  # fmt: skip


def decoded(*lines: bytes | str) -> list[tuple[object, ...] | str]:
    encoded = [line.encode() if isinstance(line, str) else line for line in lines]
    return rows(decode_records(pa.array(encoded, pa.binary()), "json", COLUMNS))


FAR_BELOW_ZERO = [
    "1e-999999999", "0.1e-999999999", "1e-41", "-1E-41", "9999e-77", '"1e-41"', '"1\\u0065-41"', '"1e\\u002d41"',
    '"1e-\\u0034\\u0031"', "1e-00000000000000041", f"1e-{'0' * 60}41", "1." + "1" * 28 + "e-9",
]  # fmt: skip


@pytest.mark.parametrize("literal", FAR_BELOW_ZERO)
@pytest.mark.parametrize("neighbours", [0, 1000])
def test_a_decimal_far_below_zero_is_refused_and_ends_no_process(literal: str, neighbours: int) -> None:
    around = [f'{{"s":"3e-41","d":{number}.25}}'.encode() for number in range(neighbours)]
    array = pa.array([*around, f'{{"s":"x","d":{literal}}}'.encode(), *around], pa.binary())
    found = decode_json(array, COLUMNS)
    assert same(found, decode_each(array, COLUMNS))
    refused = [(number, reason) for number, reason in enumerate(found.reasons.to_pylist()) if reason]
    assert [number for number, _ in refused] == [neighbours]
    assert "no decimal(10,2)" in refused[0][1]


@pytest.mark.parametrize("column", TAKEN)
def test_what_a_column_takes(column: str) -> None:
    for row in decoded(*(f'{{"{column}":{token}}}' for token in TAKEN[column])):
        assert isinstance(row, tuple)


@pytest.mark.parametrize("column", REFUSED)
def test_what_a_column_refuses_with_column_value_and_type(column: str) -> None:
    for row in decoded(*(f'{{"{column}":{token}}}' for token in REFUSED[column])):
        assert isinstance(row, str)
        assert row.startswith(f"malformed: {column}: ")
        assert f" is no {COLUMNS[column]}" in row
        assert len(row) < 150


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"[]", "not a JSON object"),
        (b"17", "not a JSON object"),
        (b'[{"i":1}]', "not a JSON object"),
        (b'{"i":1}{"i":2}', "not JSON: Extra data at character 7"),
        (b'{"i":1,}', "not JSON"),
        (b"{'i':1}", "not JSON"),
        (b'{"u":NaN}', "not JSON: NaN"),
        (b'{"i":1,"i":1}', "i appears twice"),
        (b'{"i":1,"\\u0069":1}', "i appears twice"),
        (b'{"u":"\xff"}', "not UTF-8: b'\\xff\"}' at byte 6"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"u":' + b"[" * 100 + b"]" * 100 + b"}", "nested more than 100 levels deep"),
        (b'{"u":"\\udc00"}', "not JSON: half a surrogate pair"),
        (b'{"s":"a\tb"}', "not JSON: Invalid control character"),
        (b'{"s":"\x00"}', "not JSON: Invalid control character"),
    ],
)
def test_what_is_no_record(record: bytes, reason: str) -> None:
    (row,) = decoded(record)
    assert isinstance(row, str)
    assert row.startswith(f"malformed: {reason}")


def test_fields_that_are_no_columns_are_passed_over_and_missing_ones_are_null() -> None:
    (row,) = decoded(b'{"u":1e400,"u":{"i":2},"I":3,"v":"\\u0000","i":1}')
    assert row == (1, *[None] * (len(COLUMNS) - 1))


def test_a_nested_value_is_carried_as_the_json_text_it_is_written_in() -> None:
    rows = decoded(b'{ "u" : [1] , "s" : {"a": 1,  "b":"\\u00e9}"} , "i" : 1 }', b'{"s":[1, 2]}')
    assert [row[9] for row in rows] == ['{"a": 1,  "b":"\\u00e9}"}', "[1, 2]"]
