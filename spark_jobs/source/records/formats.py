"""The formats of records: one table. What definitions say of them stands in `spark_jobs.definition.formats`."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from spark_jobs.definition.ddl import StreamType
from spark_jobs.source.records.avro.avro_format import AvroFormat
from spark_jobs.source.records.csv_format import CsvFormat
from spark_jobs.source.records.decoded import Decoded
from spark_jobs.source.records.format import RecordFormat
from spark_jobs.source.records.json_format import JsonFormat
from spark_jobs.source.records.parquet_format import ParquetFormat

RECORD_FORMATS: dict[str, RecordFormat] = {
    each.name: each for each in (JsonFormat(), ParquetFormat(), CsvFormat(), AvroFormat())
}
"""Name of the format -> what decodes its records."""


def decode_records(records: pa.Array, format: str, columns: Mapping[str, StreamType]) -> Decoded:
    """Decode single records, as they are held. O(bytes).

    Args:
        records: binary or large_binary array without nulls, shape (n,): a JSON object or a CSV line each, say.
        format: of the records.
        columns: the source's schema.
    """
    return RECORD_FORMATS[format].decode_held(records, columns)
