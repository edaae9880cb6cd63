"""Bytes to arrow: decodes the records of every format, by one contract.

What each type of a stream's columns accepts in JSON, CSV and Parquet is written down in this folder's README.md.
A record that is malformed costs itself only. Imports neither Spark nor psycopg2: tasks, reprocessing and the proof
decode alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.definition import Source
from spark_jobs.definition.avro import Avro
from spark_jobs.definition.ddl import StreamType
from spark_jobs.errors import PipelineDefinitionError
from spark_jobs.source.connections import read_connection
from spark_jobs.source.records.avro.avro_records import AvroDecoder
from spark_jobs.source.records.avro.programs import UnfitSchemaError
from spark_jobs.source.records.avro.registry import SchemaRegistry
from spark_jobs.source.records.csv_records import CsvDecoder, CsvLayout
from spark_jobs.source.records.debezium import unwrapped
from spark_jobs.source.records.decoded import Decoded, MalformedRecordError, arrow_schema, as_text, merged
from spark_jobs.source.records.json_blocks import decode_json

__all__ = ["Decoded", "RecordDecoder", "all_malformed", "decode_records"]


@dataclass(frozen=True)
class RecordDecoder:
    """Decodes a source's single records as they arrive: those of a topic, and what is held of them.

    Travels inside pickled tasks only: it may hold the password of a registry.

    Attributes:
        source: how records look.
        avro: of format avro, what decodes them.
    """

    source: Source
    avro: AvroDecoder | None

    @classmethod
    def of(cls, source: Source) -> RecordDecoder:
        """The decoder of a source, with the schema file and the connection as this process finds them.

        Raises:
            PipelineDefinitionError: one of them is not there, or can't be understood.
        """
        return cls(source, None if source.avro is None else _avro_decoder(source, source.avro))

    def decode(self, records: pa.Array) -> Decoded:
        """The tuples of records.

        Args:
            records: binary or large_binary array without nulls, shape (n,).

        Raises:
            SourceAwayError: a schema registry does not answer.
        """
        source = self.source
        if self.avro is not None:
            return self.avro.decode(records)
        if source.envelope is None:
            return decode_records(
                records, "csv" if source.format == "csv" else "json", source.record_columns, source.options
            )
        rows, reasons = unwrapped(records)
        decoded = decode_json(rows, source.record_columns)
        outer = pa.array(reasons, pa.string())
        return Decoded(decoded.tuples, pc.coalesce(outer, decoded.reasons))


def _avro_decoder(source: Source, avro: Avro) -> AvroDecoder:
    schema, registry = None, None
    if avro.schema_file is not None:
        try:
            schema = Path(avro.schema_file).read_text()
        except (OSError, ValueError) as error:
            text = f"source.avro.schema_file: {avro.schema_file} can't be read: {error}. Put the Avro schema there."
            raise PipelineDefinitionError(text) from None
    if avro.registry is not None:
        registry = SchemaRegistry(avro.registry)
        if avro.connection is not None:
            of_registry = read_connection(avro.connection, "source.avro.connection", "http")
            registry = SchemaRegistry(avro.registry, of_registry.user, of_registry.password)
    decoder = AvroDecoder(tuple(source.record_columns.items()), schema, registry, source.envelope is not None)
    try:
        decoder.check()
    except UnfitSchemaError as error:
        text = f"source.avro.schema_file: {avro.schema_file} does not fit source.schema: {error}."
        raise PipelineDefinitionError(text) from None
    return decoder


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
