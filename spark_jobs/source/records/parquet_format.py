"""Parquet: a row of a file is a record; it is held as an object of its columns."""

from __future__ import annotations

from typing import BinaryIO

from spark_jobs.definition import Source
from spark_jobs.source.records.format import Decodes, RowFormat
from spark_jobs.source.records.json_format import JsonDecoder
from spark_jobs.source.records.parquet_rows import ParquetRows


class ParquetFormat(RowFormat):
    """Rows."""

    name = "parquet"

    def decoder(self, source: Source) -> Decodes:
        """As of `RecordFormat`, of rows that are held."""
        return JsonDecoder(source.record_columns)

    def rows(self, file: BinaryIO, source: Source, name: str) -> ParquetRows:
        """As of `RowFormat`."""
        return ParquetRows(file, source.record_columns, name)
