"""Bytes to arrow: decodes the records of every format, by one contract.

What each type of a stream's columns accepts in JSON, CSV, Parquet and Avro is written down in this folder's README.md.
A record that is malformed costs itself only. Imports neither Spark nor psycopg2: tasks, reprocessing and the proof
decode alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pyarrow as pa

from spark_jobs.definition.ddl import StreamType
from spark_jobs.source.records.csv_records import CsvDecoder, CsvLayout
from spark_jobs.source.records.decoded import Decoded, MalformedRecordError, arrow_schema, as_text, merged
from spark_jobs.source.records.json_blocks import decode_json

__all__ = ["Decoded", "all_malformed", "decode_records"]


def decode_records(
    records: pa.Array, format: Literal["json", "csv"], columns: Mapping[str, StreamType], options: Mapping[str, str]
) -> Decoded:
    """Decode single records, as they are held. O(bytes).

    Args:
        records: binary or large_binary array without nulls, shape (n,): a JSON object or a CSV line each; in CSV with
            a header the header's line comes first, before each record.
        format: of the records.
        columns: the source's schema.
        options: the source's options.
    """
    if format == "json":
        return decode_json(records, columns)
    layout = CsvLayout.from_options(options)
    if not layout.header:
        return CsvDecoder(columns, layout, None).decode(records)
    return _decode_with_headers(records, columns, layout)


def _decode_with_headers(records: pa.Array, columns: Mapping[str, StreamType], layout: CsvLayout) -> Decoded:
    by_header: dict[bytes, tuple[list[int], list[bytes]]] = {}
    for number, record in enumerate(records.to_pylist()):
        header, _, line = record.partition(b"\n")
        numbers, lines = by_header.setdefault(header, ([], []))
        numbers.append(number)
        lines.append(line)
    parts = []
    for header, (numbers, lines) in by_header.items():
        try:
            names = [field.text for field in layout.fields(as_text(header))]
            decoded = CsvDecoder(columns, layout, names).decode(pa.array(lines, records.type))
        except MalformedRecordError as error:
            decoded = all_malformed(len(lines), f"malformed header: {error}", columns)
        parts.append((np.array(numbers, np.int64), decoded))
    return merged(parts) if parts else all_malformed(0, "", columns)


def all_malformed(count: int, reason: str, columns: Mapping[str, StreamType]) -> Decoded:
    """Records none of which can be decoded, for one reason."""
    schema = arrow_schema(columns)
    tuples = pa.Table.from_arrays([pa.nulls(count, kind) for kind in schema.types], schema=schema)
    return Decoded(tuples, pa.array([reason] * count, pa.string()))
