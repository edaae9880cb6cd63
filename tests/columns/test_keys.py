"""Join keys: codes, order, validity, and the way back to values."""

import datetime
import pickle
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.columns.keys.values import KeyKind

INTEGER, DATE, TEXT, PADDED, UUID = KeyKind.INTEGER, KeyKind.DATE, KeyKind.TEXT, KeyKind.PADDED_TEXT, KeyKind.UUID

integers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
VALUES = {
    INTEGER: (pa.int64(), integers),
    DATE: (pa.date32(), st.dates()),
    TEXT: (pa.string(), texts),
    UUID: (pa.string(), st.uuids().map(str)),
}
kinds_of_keys = st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4)


compiling = settings(deadline=None)  # the first call of a kernel compiles it


def encode(rows: list[tuple], kinds: list[KeyKind]) -> KeyColumns:
    columns = [pa.array([row[i] for row in rows], VALUES[kind][0]) for i, kind in enumerate(kinds)]
    return KeyColumns.encode(columns, kinds)


@st.composite
def keys_and_kinds(draw: st.DrawFn) -> tuple[list[tuple], list[KeyKind]]:
    kinds = draw(kinds_of_keys)
    return draw(st.lists(st.tuples(*(VALUES[kind][1] for kind in kinds)), min_size=1, max_size=12)), kinds


@compiling
@given(keys_and_kinds())
def test_encoded_keys_sort_as_postgresql_sorts_the_columns(drawn: tuple[list[tuple], list[KeyKind]]) -> None:
    rows, kinds = drawn
    keys = encode(rows, kinds)
    encoded = keys.codes.tolist() if keys.encoded is None else keys.encoded.to_pylist()
    by_columns = [tuple(v.encode() if isinstance(v, str) else v for v in row) for row in rows]
    assert sorted(range(len(rows)), key=encoded.__getitem__) == sorted(range(len(rows)), key=by_columns.__getitem__)
    assert keys.valid.all()


@compiling
@given(keys_and_kinds())
def test_values_come_back_from_the_encoding(drawn: tuple[list[tuple], list[KeyKind]]) -> None:
    rows, kinds = drawn
    for i, (values, kind) in enumerate(zip(encode(rows, kinds).values(), kinds, strict=True)):
        expected = [row[i] for row in rows]
        if kind is UUID:
            assert [str(uuid.UUID(bytes=bytes(value))) for value in values] == expected
        elif kind is TEXT:
            assert [value.decode() for value in values.to_pylist()] == expected
        elif kind is DATE:
            assert [datetime.date(1970, 1, 1) + datetime.timedelta(int(day)) for day in values] == expected
        else:
            assert values.tolist() == expected


@compiling
@given(keys_and_kinds())
def test_equal_keys_have_equal_codes_and_different_keys_differ(drawn: tuple[list[tuple], list[KeyKind]]) -> None:
    rows, kinds = drawn
    keys = encode(rows, kinds)
    own, other = (part.ravel() for part in np.indices((len(rows), len(rows))))
    expected = np.array([rows[i] == rows[j] for i, j in zip(own, other, strict=True)])
    assert (keys.equals(own, encode(rows, kinds), other) == expected).all()
    assert (keys.codes[own[expected]] == keys.codes[other[expected]]).all()


@compiling
@given(keys_and_kinds(), st.data())
def test_take_concatenate_and_pickle_keep_keys(drawn: tuple[list[tuple], list[KeyKind]], data: st.DataObject) -> None:
    rows, kinds = drawn
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=20))
    keys = encode(rows, kinds)
    taken = keys.take(np.array(chosen, np.int64))
    expected = encode([rows[i] for i in chosen] + rows, kinds)
    both = pickle.loads(pickle.dumps(KeyColumns.concatenate([taken, keys])))
    everywhere = np.arange(len(expected))
    assert len(both) == len(expected)
    assert both.equals(everywhere, expected, everywhere).all()


@compiling
@given(keys_and_kinds())
def test_distinct_keys_are_each_key_once(drawn: tuple[list[tuple], list[KeyKind]]) -> None:
    rows, kinds = drawn
    distinct = encode(rows, kinds).distinct()
    encoded = distinct.codes.tolist() if distinct.encoded is None else distinct.encoded.to_pylist()
    expected = encode(sorted(set(rows)), kinds)
    assert sorted(encoded) == sorted(
        expected.codes.tolist() if expected.encoded is None else expected.encoded.to_pylist()
    )


@compiling
@given(keys_and_kinds())
def test_keys_are_brought_in_order(drawn: tuple[list[tuple], list[KeyKind]]) -> None:
    rows, kinds = drawn
    by_columns = [tuple(v.encode() if isinstance(v, str) else v for v in row) for row in rows]
    expected = encode([rows[i] for i in sorted(range(len(rows)), key=by_columns.__getitem__)], kinds)
    everywhere = np.arange(len(rows))
    assert encode(rows, kinds).in_order().equals(everywhere, expected, everywhere).all()


def test_distinct_keeps_different_keys_that_share_a_code() -> None:
    encoded = pa.array([b"a", b"b", b"a", b"c", b"b"])
    keys = KeyColumns((TEXT,), np.array([7, 7, 7, 1, 7]), encoded, np.ones(5, np.bool_))
    assert set(keys.distinct().encoded.to_pylist()) == {b"a", b"b", b"c"}


def test_distinct_leaves_invalid_keys_out() -> None:
    assert KeyColumns.encode([pa.array([7, None, 3, 7])], [INTEGER]).distinct().codes.tolist() == [3, 7]
    assert KeyColumns.encode([pa.array(["b", None, "a\0"])], [TEXT]).distinct().encoded.to_pylist() == [b"b"]
    assert len(KeyColumns.encode([pa.array([], pa.int64())], [INTEGER]).distinct()) == 0


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_an_integer_is_its_own_code_whatever_its_width(kind: pa.DataType) -> None:
    keys = KeyColumns.encode([pa.array([-128, 0, 127], kind)], [INTEGER])
    assert keys.codes.tolist() == [-128, 0, 127]
    assert keys.encoded is None


def test_the_code_of_a_date_is_its_day() -> None:
    keys = KeyColumns.encode([pa.array([datetime.date(1970, 1, 2), datetime.date(1969, 12, 31)])], [DATE])
    assert keys.codes.tolist() == [1, -1]


def test_a_single_text_is_encoded_without_a_copy() -> None:
    text = pa.array(["a", "bc"])
    encoded = KeyColumns.encode([text], [TEXT]).encoded
    assert encoded.buffers()[2].address == text.buffers()[2].address


def test_null_in_any_column_makes_a_key_invalid() -> None:
    keys = KeyColumns.encode([pa.array(["a", None, "c"]), pa.array([1, 2, None])], [TEXT, INTEGER])
    assert keys.valid.tolist() == [True, False, False]


def test_text_that_postgresql_can_not_hold_is_invalid_and_leaves_its_neighbours_alone() -> None:
    content = [b"good", b"zero\0byte", b"\xff\xfe", "schön".encode(), b"\xed\xa0\x80"]
    text = pa.array(content, pa.binary()).view(pa.string())
    keys = KeyColumns.encode([text], [TEXT])
    assert keys.valid.tolist() == [True, False, False, True, False]
    alone = KeyColumns.encode([pa.array(["good", "schön"])], [TEXT])
    assert keys.equals(np.array([0, 3]), alone, np.array([0, 1])).all()


def test_blanks_at_the_end_do_not_count_in_padded_text_only() -> None:
    text = [pa.array(["ab", "ab  ", " ab", "ab\t"])]
    first, others = np.zeros(4, np.int64), np.arange(4)
    padded, plain = KeyColumns.encode(text, [PADDED]), KeyColumns.encode(text, [TEXT])
    assert padded.equals(first, padded, others).tolist() == [True, True, False, False]
    assert plain.equals(first, plain, others).tolist() == [True, False, False, False]


def test_uuids_are_read_in_every_spelling_that_postgresql_takes() -> None:
    spellings = [
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
    ]
    keys = KeyColumns.encode([pa.array(spellings)], [UUID])
    assert keys.valid.all()
    assert set(keys.encoded.to_pylist()) == {uuid.UUID(spellings[0]).bytes}


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "{", "x", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1g", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "a0-eebc999c0b4ef8bb6d6bb9bd380a11",
        " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
        "é0eebc999c0b4ef8bb6d6bb9bd380a11",
    ],
)  # fmt: skip
def test_text_that_is_no_uuid_is_invalid(text: str) -> None:
    assert not KeyColumns.encode([pa.array([text])], [UUID]).valid.any()


def test_slices_and_chunks_are_encoded_like_whole_arrays() -> None:
    text, numbers = pa.array(["x", "a", None, "ab", "y"]), pa.array([0, 1, 2, None, 4])
    ids = pa.array([str(uuid.UUID(int=i)) for i in range(5)])
    kinds = [TEXT, INTEGER, UUID]
    whole = KeyColumns.encode([text, numbers, ids], kinds)
    sliced = KeyColumns.encode([column.slice(1, 3) for column in (text, numbers, ids)], kinds)
    chunked = KeyColumns.encode([pa.chunked_array([c.slice(0, 2), c.slice(2)]) for c in (text, numbers, ids)], kinds)
    assert sliced.codes.tolist() == whole.codes[1:4].tolist()
    assert chunked.codes.tolist() == whole.codes.tolist()
    assert sliced.valid.tolist() == [True, False, False]
    assert len(KeyColumns.encode([text.slice(5)], [TEXT])) == 0


def test_arrays_of_a_pickled_key_go_out_of_band() -> None:
    keys = KeyColumns.encode([pa.array([f"key {i}" for i in range(10_000)])], [TEXT])
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(keys, protocol=5, buffer_callback=buffers.append)
    assert len(head) < 2_000
    again = pickle.loads(head, buffers=[bytes(buffer) for buffer in buffers])
    assert again.equals(np.arange(10_000), keys, np.arange(10_000)).all()


@compiling
@given(keys_and_kinds(), st.data())
def test_keys_are_found_among_others(drawn: tuple[list[tuple], list[KeyKind]], data: st.DataObject) -> None:
    rows, kinds = drawn
    others = data.draw(st.lists(st.sampled_from(rows), max_size=5))
    assert encode(rows, kinds).is_in(encode(others, kinds)).tolist() == [row in others for row in rows]
