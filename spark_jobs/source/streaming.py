"""The source of a pipeline as a streaming DataFrame of stream tuples."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from spark_jobs.definition import PipelineDefinition
from spark_jobs.settings import Home
from spark_jobs.warehouse.event_columns import ARRIVED_AT, RAW

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


_OLDEST_FILE_DAYS = 36_500


def stream_tuples(
    session: SparkSession, definition: PipelineDefinition, home: Home, max_bytes_per_batch: int
) -> DataFrame:
    """Read the landing folder as a stream.

    Every record becomes one stream tuple: the columns of the source's schema, `_arrived_at` (when its
    file landed), and `_raw`, the record's own bytes where it does not fit the schema. Nothing is dropped.

    Args:
        session: the Spark session.
        definition: the pipeline.
        home: the installation.
        max_bytes_per_batch: files beyond this wait for the next batch; one file is always taken.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructType

    source = definition.source
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in source.columns.items())
    schema = cast("StructType", StructType.fromDDL(ddl))
    reader = session.readStream.option("maxBytesPerTrigger", max_bytes_per_batch)
    # Spark would pass over files a week older than the newest, without a word.
    reader = reader.option("maxFileAge", f"{_OLDEST_FILE_DAYS}d")
    for name, value in source.options.items():
        reader = reader.option(name, value)
    raw: Column = functions.lit(None).cast("binary")
    columns = [functions.col(f"`{name}`") for name in schema.fieldNames()]
    if source.format != "parquet":
        reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", RAW)
        raw = functions.col(RAW).cast("binary")
    if source.format == "csv":
        # Read as UTF-8, bytes that are none would be replaced without a trace. Read as Latin-1 every byte
        # becomes one character, and turns back into the same byte.
        reader = reader.option("encoding", "ISO-8859-1")
        raw = functions.encode(RAW, "ISO-8859-1")
        columns = [
            functions.encode(f"`{field.name}`", "ISO-8859-1").cast("string").alias(field.name)
            if isinstance(field.dataType, StringType)
            else functions.col(f"`{field.name}`")
            for field in schema.fields
        ]
    declared = schema if source.format == "parquet" else schema.add(RAW, StringType())
    arrived = functions.col("_metadata.file_modification_time").alias(ARRIVED_AT)
    frame = reader.schema(declared).format(source.format).load(str(source.resolved_path(home)))
    return frame.select(*columns, arrived, raw.alias(RAW))
