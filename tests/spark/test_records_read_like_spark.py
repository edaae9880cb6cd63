"""Spark's readers as an oracle: what both contracts take, both read alike; where they differ is on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.definition.ddl import parse_columns
from spark_jobs.source.records import decode_records
from tests.source.hostile_records import rows
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
    decoded = decode_records(pa.array(lines, pa.binary()), file_format, parse_columns(schema), options)
    sound = [not isinstance(row, str) for row in rows(decoded)]
    return [row if fine else None for fine, row in zip(sound, as_numbers(decoded.tuples), strict=True)]


def as_numbers(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows with times as numbers: Python does not know all years; NaN as a text, which equals itself."""
    plain = {pa.date32(): pa.int32(), pa.timestamp("us", "UTC"): pa.int64()}
    columns = [column.cast(plain.get(column.type, column.type)) for column in table.columns]
    lists = pa.table(columns, names=[str(number) for number in range(len(columns))]).to_pylist()
    return [tuple("NaN" if value != value else value for value in row.values()) for row in lists]


def compared(session: Any, path: Path, lines: list[bytes], file_format: str, schema: str, options: dict[str, str]) -> Any:
    """The lines that only we read, those that only Spark reads, and those that both read, but otherwise."""
    path.write_bytes(b"\n".join(lines) + b"\n")
    theirs = seen_by_spark(session, path, file_format, schema, options)
    ours = seen_by_us(lines, file_format, schema, options)
    assert len(theirs) == len(ours) == len(lines)
    together = list(zip(lines, ours, theirs, strict=True))
    both = [line for line, one, other in together if one is not None and other is not None]
    return (
        len(both),
        [line for line, one, other in together if one is not None and other is None],
        {line for line, one, other in together if one is None and other is not None},
        [line for line, one, other in together if None not in (one, other) and one != other],
    )


def test_json_lines(session: Any, tmp_path: Path) -> None:
    # Spark makes several rows of an array, and none of a blank line; what is not UTF-8 it takes now and then.
    lines = [
        line
        for some in JSON_LINES.values()
        for line in some
        if line.strip() and not line.startswith((b"[", b"\xef\xbb\xbf")) and b"\xff" not in line and b"\xed" not in line
    ]
    both, only_we, only_spark, otherwise = compared(session, tmp_path / "a.json", lines, "json", JSON_SCHEMA, {})
    print(both, only_we, sorted(only_spark), otherwise, sep="\n")


@pytest.mark.parametrize(
    "options", [{"escape": '"'}, {"quote": "'", "sep": ";", "escape": "'"}, {"nullValue": "NA", "escape": '"'}, {"sep": "\t", "escape": "\\"}],
    ids=str,
)  # fmt: skip
def test_csv_lines(session: Any, tmp_path: Path, options: dict[str, str]) -> None:
    for name, schema, some in (("texts", CSV_SCHEMA, CSV_LINES), ("numbers", NUMBERS_SCHEMA, NUMBER_LINES)):
        separator = options.get("sep", ",").encode()
        lines = [line.replace(b",", separator) for line in some if line.strip()]
        both, only_we, only_spark, otherwise = compared(session, tmp_path / name, lines, "csv", schema, options)
        print(both, only_we, sorted(only_spark), otherwise, sep="\n")
