"""The proof reads landed files by itself: it must see in them what Spark sees, bad records included."""

from __future__ import annotations

import hashlib
import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_jobs.proof.events import read_events
from spark_jobs.source.streaming import RAW, stream_tuples

from spark_jobs.definition import PipelineDefinition
from spark_jobs.proof.landing import committed_files, landed_files
from spark_jobs.settings import Home
from tests.warehouse.landed_records import (
    CSV_LINES,
    CSV_SCHEMA,
    JSON_LINES,
    JSON_SCHEMA,
    NUMBER_LINES,
    NUMBERS_SCHEMA,
)

Record = tuple[bool, Any]


def pipeline(folder: Path, file_format: str, schema: str, **options: str) -> PipelineDefinition:
    return PipelineDefinition.model_validate(
        {
            "name": "records",
            "source": {
                "format": file_format,
                "path": str(folder / "landing"),
                "schema": f"{schema}, id int, at timestamp",
                "event_id": ["id"],
                "event_time": "at",
                "options": options,
            },
            "fact": {"table": "w.f", "columns": {"id": "id"}},
        }
    )


def land(folder: Path, name: str, content: bytes) -> None:
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "landing" / name).write_bytes(content)


def comparable(values: dict[str, Any]) -> tuple[Any, ...]:
    return tuple("NaN" if value != value else value for value in values.values())


def as_plain(table: pa.Table) -> pa.Table:
    """Dates, timestamps and texts as numbers and bytes: Python knows neither all years nor invalid UTF-8."""
    plain = {
        field.name: column.cast(pa.int32())
        if pa.types.is_date(field.type)
        else column.cast(pa.int64())
        if pa.types.is_timestamp(field.type)
        else column.cast(pa.binary())
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        else column
        for field, column in zip(table.schema, table.columns, strict=True)
    }
    return pa.table(plain)


def seen_by_spark(spark: Any, definition: PipelineDefinition, home: Home) -> list[Record]:
    """Each record in its order: its values if it could be read, else the digest of its bytes."""
    tables: list[pa.Table] = []
    query = (
        stream_tuples(spark, definition, home, 1 << 30)
        .writeStream.foreachBatch(lambda frame, _: tables.append(frame.toArrow()))
        .option("checkpointLocation", str(home.checkpoint(definition.name)))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [
        (False, hashlib.sha256(raw).hexdigest()) if raw is not None else (True, comparable(values))
        for table in tables
        for values, raw in zip(
            as_plain(table.select(list(definition.source.columns))).to_pylist(), table[RAW].to_pylist(), strict=True
        )
    ]


def seen_by_the_proof(definition: PipelineDefinition, home: Home) -> list[Record]:
    records: list[Record] = []
    for path in landed_files(definition.source.resolved_path(home)):
        for events in read_events(path, definition.source):
            digests = events.raw_hashes or itertools.repeat("")
            rows = as_plain(events.values).to_pylist()
            for readable, values, digest in zip(events.readable.to_pylist(), rows, digests, strict=False):
                records.append((True, comparable(values)) if readable else (False, digest))
    return records


def check(spark: Any, definition: PipelineDefinition, folder: Path, least: int) -> None:
    home = Home(folder / "home")
    expected, found = seen_by_spark(spark, definition, home), seen_by_the_proof(definition, home)
    assert len(expected) >= least
    assert found == expected
    # The checkpoint that Spark has written is the one that the proof reads.
    assert committed_files(home.checkpoint(definition.name)) == set(landed_files(folder / "landing"))


def test_json_lines(spark: Any, tmp_path: Path) -> None:
    lines = list(itertools.chain.from_iterable(JSON_LINES.values()))
    land(tmp_path, "a record.json", b"\xef\xbb\xbf" + b"\n".join(lines) + b'\r\n{"i":11}\r{"i":12}\r\n\n{"i":13}')
    check(spark, pipeline(tmp_path, "json", JSON_SCHEMA), tmp_path, least=250)


@pytest.mark.parametrize(
    "options", [{}, {"escape": '"'}, {"quote": "'", "sep": ";"}, {"nullValue": "NA", "header": "true"}, {"sep": "\t"}],
    ids=str,
)  # fmt: skip
def test_csv_lines(spark: Any, tmp_path: Path, options: dict[str, str]) -> None:
    separator = options.get("sep", ",").encode()
    for name, schema, lines in (("texts", CSV_SCHEMA, CSV_LINES), ("numbers", NUMBERS_SCHEMA, NUMBER_LINES)):
        folder = tmp_path / name
        folder.mkdir()
        # The pipeline's own two columns are empty.
        ended = [line + b",," if line.strip() else line for line in lines]
        land(folder, "records.csv", b"\n".join(line.replace(b",", separator) for line in ended))
        check(spark, pipeline(folder, "csv", schema, **options), folder, least=20)


def test_parquet_files_of_other_writers(spark: Any, tmp_path: Path) -> None:
    schema = "n bigint, price decimal(12,2), name string, day date, moment timestamp, absent double"
    moments = [0, -1, 1_714_558_830_123_456, None]
    table = pa.table(
        {
            "n": pa.array([1, -2, None, 4], pa.int32()),  # narrower than in the schema
            "price": pa.array([Decimal("1.50"), None, Decimal("-99.99"), Decimal(0)], pa.decimal128(12, 2)),
            "name": pa.array(["a", "", None, "a"]).dictionary_encode(),
            "day": pa.array([0, -800_000, None, 2_932_896], pa.int32()).cast(pa.date32()),
            "moment": pa.array(moments, pa.int64()).cast(pa.timestamp("us")),  # without a zone
            "more": [1, 2, 3, 4],
        }
    )
    (tmp_path / "landing").mkdir()
    pq.write_table(table, tmp_path / "landing" / "plain.parquet")
    pq.write_table(table, tmp_path / "landing" / "zoned.parquet", use_deprecated_int96_timestamps=True)
    definition = pipeline(tmp_path, "parquet", schema)
    home = Home(tmp_path / "home")
    assert seen_by_the_proof(definition, home) == seen_by_spark(spark, definition, home)
