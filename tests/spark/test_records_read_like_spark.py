"""Spark's readers as an oracle: what both contracts take, both read alike; where they differ is on purpose."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.source.records.formats import RECORD_FORMATS
from tests.source.hostile_records import rows
from tests.source.landed import source
from tests.source.landed_records import (
    CSV_LINES,
    CSV_SCHEMA,
    JSON_LINES,
    JSON_SCHEMA,
    NUMBER_LINES,
    NUMBERS_SCHEMA,
)

Row = tuple[Any, ...] | None


@pytest.fixture
def session(spark: Any) -> Any:
    """A session for Spark's readers, which streams have no use for."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def seen_by_spark(session: Any, path: Path, file_format: str, schema: str, options: dict[str, str]) -> list[Row]:
    """The values of each line that Spark can read; None for the others."""
    reader = session.read.format(file_format).schema(f"{schema}, _corrupt string").options(**options)
    reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", "_corrupt")
    table = reader.load(str(path)).coalesce(1).toArrow()
    corrupt = table["_corrupt"].is_valid().to_pylist()
    values = as_numbers(table.drop_columns(["_corrupt"]))
    return [None if bad else row for bad, row in zip(corrupt, values, strict=True)]


def seen_by_us(lines: list[bytes], file_format: Any, schema: str, options: dict[str, str]) -> list[Row]:
    decoded = RECORD_FORMATS[file_format].decoder(source(file_format, schema, options))(pa.array(lines, pa.binary()))
    sound = [not isinstance(row, str) for row in rows(decoded)]
    return [row if fine else None for fine, row in zip(sound, as_numbers(decoded.tuples), strict=True)]


def as_numbers(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows with times as numbers: Python does not know all years; NaN as a text, which equals itself."""
    plain = {pa.date32(): pa.int32(), pa.timestamp("us", "UTC"): pa.int64()}
    columns = [column.cast(plain.get(column.type, column.type)) for column in table.columns]
    lists = pa.table(columns, names=[str(number) for number in range(len(columns))]).to_pylist()
    return [tuple("NaN" if value != value else value for value in row.values()) for row in lists]


# What Spark takes and we do not, by a pattern that such lines match.
ONLY_SPARK_TAKES = {
    "decimals are rounded, with commas between thousands, of any script's digits": rb'"d":(-?0.001|1e-50|"?-?1.255|999'
    rb'|"1,234.5"|"\xd9)|^17,x,1.255|"1,234.5"|"\xd9\xa3"',
    "floats beyond the range are infinite; more words for what is no number": rb'"f4?":(1e\d|"?[+-]?(INF|NaN|Infinity))'
    rb"|^-NaN|^NaN,NaN,TRUE|^1e400",
    "numbers with a suffix, sign, blank, NUL or of any script's digits": rb"^\t1|^1d|^1\0|\+1,-0|^\+14|^\xd9",
    "bytes from -128 to 255": rb'"t":2',
    "dates and timestamps written in many ways, beyond the years 1 to 9999, as seconds": rb'"(dt|ts)":|^45|^62|'
    rb'2024-01-02"?$|GMT',
    "numbers and booleans are texts": rb'"s":[-\dtN]',
    "JSON with single quotes, and what is in nested values": rb"'",
    "half a surrogate pair becomes a question mark": rb"ud800",
    "line breaks in base64": rb"bin.*\\n",
    "what follows the first JSON value is ignored; of a field that comes twice the last counts": rb'"i":[15](}.|,"i)',
    "a quote in the middle of a field": rb'[^,]"[^,]|,"[^",]*" ',
}
# What we take and Spark does not.
ONLY_WE_TAKE = {
    b'{"ts":"2024-01-02T03:04:05+19:00"}',  # no zone is that far from UTC, but the instant is plain
    b'84,"""","",,',  # an empty number in quotes is null with any `nullValue`
}
# An empty text in quotes is a text and no null, and so is one that is written like null.
READ_OTHERWISE = {b'3,"",1.5,,', b'33,"",1,,', b'49,"NA",,,'}


def check(session: Any, path: Path, lines: list[bytes], file_format: str, schema: str, options: dict[str, str]) -> int:
    """Compare how lines are read, but for the deliberate differences; how many both take."""
    separator = options.get("sep", ",").encode()
    path.write_bytes(b"\n".join(line.replace(b",", separator) if file_format == "csv" else line for line in lines))
    written = path.read_bytes().split(b"\n")
    theirs = seen_by_spark(session, path, file_format, schema, options)
    ours = seen_by_us(written, file_format, schema, options)
    both = 0
    for line, one, other in zip(lines, ours, theirs, strict=True):
        if one is None and other is not None:
            assert any(re.search(pattern, line) for pattern in ONLY_SPARK_TAKES.values()), line
        elif other is None and one is not None:
            assert line in ONLY_WE_TAKE
        elif one != other:
            assert line in READ_OTHERWISE
        both += one is not None and other is not None
    return both


def test_json_lines(session: Any, tmp_path: Path) -> None:
    # Spark makes several rows of an array, and none of a blank line; what is not UTF-8 it takes now and then.
    lines = [
        line
        for some in JSON_LINES.values()
        for line in some
        if line.strip() and not line.startswith((b"[", b"\xef\xbb\xbf")) and b"\xff" not in line and b"\xed" not in line
    ]
    assert check(session, tmp_path / "a.json", lines, "json", JSON_SCHEMA, {}) > 50


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"escape": '"'}, 30),
        ({"quote": "'", "sep": ";", "escape": "'"}, 45),
        ({"nullValue": "NA", "escape": '"', "sep": "|"}, 30),
    ],
    ids=str,
)
def test_csv_lines(session: Any, tmp_path: Path, options: dict[str, str], least: int) -> None:
    texts, numbers = ([line for line in some if line.strip()] for some in (CSV_LINES, NUMBER_LINES))
    assert check(session, tmp_path / "texts", texts, "csv", CSV_SCHEMA, options) >= least
    assert check(session, tmp_path / "numbers", numbers, "csv", NUMBERS_SCHEMA, options) >= 4
