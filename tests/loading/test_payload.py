"""Payloads: nothing of a held tuple is lost, and it can be read back."""

import base64
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.columns.json_text import ascii_json_strings, json_values
from spark_jobs.definition.stream_tuple import RECORD, EventColumns
from spark_jobs.loading.payload import digests, payload_bytes, payloads

TIME = pa.timestamp("us", tz="UTC")
QUICK = settings(deadline=None, max_examples=80)


def event(*columns: str, format: str = "json") -> EventColumns:
    return EventColumns("orders", columns[:1], "at", columns, format)


@QUICK
@given(values=st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=20))
def test_any_text_is_valid_json(values: list) -> None:
    texts = json_values(pa.array(values, pa.string())).to_pylist()
    assert [None if text is None else json.loads(text) for text in texts] == values


@QUICK
@given(values=st.lists(st.none() | st.binary(max_size=12), max_size=20), start=st.integers(0, 20))
def test_ascii_texts_tell_all_byte_strings_apart(values: list, start: int) -> None:
    texts = ascii_json_strings(pa.array(values, pa.binary()).view(pa.string()).slice(start)).to_pylist()
    found = [None if text is None else json.loads(text).encode("utf-8", "surrogateescape") for text in texts]
    assert found == values[start:]
    assert all(text is None or text.isascii() for text in texts)


@QUICK
@given(values=st.lists(st.none() | st.floats(), max_size=20))
def test_any_float_is_valid_json(values: list) -> None:
    texts = json_values(pa.array(values, pa.float64())).to_pylist()
    assert str([None if text is None else float(json.loads(text)) for text in texts]) == str(values)


@QUICK
@given(values=st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), max_size=20), scale=st.integers(0, 38))
def test_decimals_are_plain_numbers(values: list, scale: int) -> None:
    decimals = [None if value is None else Decimal(f"{value}E-{scale}") for value in values]
    texts = json_values(pa.array(decimals, pa.decimal128(38, scale))).to_pylist()
    assert [None if text is None else Decimal(text) for text in texts] == decimals
    assert not any("E" in text for text in texts if text is not None)


@QUICK
@given(values=st.lists(st.none() | st.datetimes(timezones=st.just(UTC)), max_size=20))
def test_timestamps_are_iso_8601(values: list) -> None:
    texts = json_values(pa.array(values, TIME)).to_pylist()
    assert [None if text is None else datetime.fromisoformat(json.loads(text)) for text in texts] == values


def test_an_object_has_all_source_columns_and_nothing_else() -> None:
    tuples = pa.table(
        {
            "id": [1, 2],
            'the "name"': ["a", None],
            "day": [date(2024, 2, 29), None],
            "flag": [True, None],
            "blob": [b"\x00\xff", None],
            "ratio": pa.array([math.nan, None], pa.float32()),
            "fetched": ["not the source's", "x"],
        }
    )
    found = payloads(tuples, event("id", 'the "name"', "day", "flag", "blob", "ratio"))
    assert found.encodings.to_pylist() == ["json", "json"]
    assert [json.loads(text) for text in found.texts.to_pylist()] == [
        {"id": 1, 'the "name"': "a", "day": "2024-02-29", "flag": True, "blob": "AP8=", "ratio": "NaN"},
        {"id": 2, 'the "name"': None, "day": None, "flag": None, "blob": None, "ratio": None},
    ]


@QUICK
@given(
    records=st.lists(st.none() | st.binary(max_size=10) | st.text(max_size=5).map(str.encode), min_size=1, max_size=10),
    format=st.sampled_from(["json", "csv"]),
)
def test_records_are_kept_byte_by_byte(records: list, format: str) -> None:
    tuples = pa.table({"id": pa.array(range(len(records))), RECORD: pa.array(records, pa.binary())})
    found = payloads(tuples, event("id", format=format))
    kept = payload_bytes(found.texts, found.encodings).to_pylist()
    assert kept == found.records.to_pylist()
    for number, record in enumerate(records):
        text, encoding = found.texts[number].as_py(), found.encodings[number].as_py()
        assert "\0" not in text
        if record is None:
            assert (encoding, json.loads(text)) == ("json", {"id": number})
        else:
            assert kept[number] == record
            assert (encoding == format) == (text.encode() == record)
            assert encoding in (format, f"{format}.base64")


def test_payloads_of_former_versions_hold_their_records() -> None:
    texts = pa.array(["{broken", base64.b64encode(b"\xff").decode(), '{"id":1}'])
    assert payload_bytes(texts, pa.array(["text", "base64", "json"])).to_pylist() == [b"{broken", b"\xff", b'{"id":1}']


def test_columns_that_are_not_utf8_make_the_payload_base64() -> None:
    broken = pa.array([b"ok", b"\xff\x00\xe9"], pa.binary()).view(pa.string())
    found = payloads(pa.table({"id": [1, 2], "name": broken}), event("id", "name", format="parquet"))
    assert found.encodings.to_pylist() == ["json", "json.base64"]
    assert base64.b64decode(found.texts[1].as_py()) == b'{"id":2,"name":"\xff\\u0000\xe9"}'


def test_digests_stand_for_the_record() -> None:
    assert digests(pa.array([b"", b"abc"], pa.large_binary())) == [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    ]
