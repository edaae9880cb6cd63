"""Reads held tuples back into stream tuples: each task its slice, straight from PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql

from spark_jobs.definition import Source
from spark_jobs.driver.session import ARROW_BATCH_ROWS
from spark_jobs.loading.outcome import Held
from spark_jobs.relation.copy_decoding.column_types import column_type
from spark_jobs.relation.copy_decoding.decode import decode_copy
from spark_jobs.relation.reading_connection import reading_connection
from spark_jobs.source.arrivals import Arrivals, ArrivalsReader
from spark_jobs.stages.front_task import ArrowTask
from spark_jobs.warehouse.event_columns import ARRIVED_AT, RAW
from spark_jobs.warehouse.event_id import event_id_texts
from spark_jobs.warehouse.fact_table import FactTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Columns that a held tuple keeps on its way through the tasks.
HELD_ID = "_held_id"  # its event id, as freshet.held_tuple has it
VERSION = "_held_version"  # of its row: the transaction that wrote it

_PAYLOAD, _ENCODING = "_payload", "_payload_encoding"
_COLUMNS = {
    HELD_ID: ("event_id", "text", "string"),
    VERSION: ("xmin::text::bigint", "int8", "bigint"),
    ARRIVED_AT: ("arrived_at", "timestamptz", "timestamp"),
    _PAYLOAD: ("payload", "text", "string"),
    _ENCODING: ("payload_encoding", "text", "string"),
}
_QUERY = f"SELECT {', '.join(f'h.{expression}' for expression, _, _ in _COLUMNS.values())} FROM freshet.held_tuple AS h"


def held_tuples(slices: DataFrame, warehouse_url: str, conditions: Sequence[str], source: Source) -> DataFrame:
    """Held tuples with their payloads parsed by Spark, as it parses the source's JSON.

    Args:
        slices: one row with the number of the slice for each task.
        warehouse_url: where they are held.
        conditions: SQL condition on freshet.held_tuple AS h of each slice.
        source: the pipeline's source, for its schema.

    Returns:
        the source's columns, `_arrived_at`, `_raw` (not null where the payload could not be parsed), and
        `_held_id`, `_held_version`, `_payload_encoding`.
    """
    from pyspark.sql import functions

    schema = ", ".join(f"{name} {kind}" for name, (_, _, kind) in _COLUMNS.items())
    # The corrupt record must be a string to Spark, and is bytes to those who read a source.
    declared = ", ".join(f"`{name}` {kind}" for name, kind in source.columns.items()) + f", {RAW} string"
    parsed = functions.from_json(_PAYLOAD, declared, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": RAW})
    held = slices.mapInArrow(_reading(warehouse_url, conditions), schema).withColumn("_parsed", parsed)
    return held.select(
        *(functions.col(f"_parsed.`{name}`") for name in source.columns),
        functions.col(f"_parsed.{RAW}").cast("binary").alias(RAW),
        *(name for name in _COLUMNS if name != _PAYLOAD),
    )


def read_back(fact: FactTable) -> ArrivalsReader:
    """How a task gets stream tuples of what `held_tuples` gives.

    Tuples that are not the ones that were held are rejected: a payload that is no JSON, or that the source's present
    schema makes another event of.

    Args:
        fact: the fact table, for the columns of the event id.
    """

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[Arrivals]:
        for batch in batches:
            yield _arrivals(pa.Table.from_batches([batch]), fact)

    return read


def _reading(warehouse_url: str, conditions: Sequence[str]) -> ArrowTask:
    kinds = [column_type(kind, -1) for _, kind, _ in _COLUMNS.values()]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        connection = reading_connection(warehouse_url)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            content = connection.copy(sql.SQL(f"{_QUERY} WHERE {conditions[number]}"))
            columns = decode_copy(content, [kind for kind in kinds if kind is not None])
            yield from pa.table(dict(zip(_COLUMNS, columns, strict=True))).to_batches(ARROW_BATCH_ROWS)

    return read


def _arrivals(tuples: pa.Table, fact: FactTable) -> Arrivals:
    """The tuples that are what was held, and the others by the reason why not."""
    undecoded = pc.not_equal(tuples[_ENCODING], "json").to_numpy()
    malformed = tuples[RAW].is_valid().to_numpy()
    others = pc.not_equal(event_id_texts(tuples, fact.key), tuples[HELD_ID].combine_chunks().cast(pa.large_string()))
    different = pc.fill_null(others, True).to_numpy(zero_copy_only=False)
    raw = tuples.column_names.index(RAW)
    tuples = tuples.drop_columns([_ENCODING]).set_column(raw, RAW, pa.nulls(tuples.num_rows, pa.binary()))
    if not (undecoded | malformed | different).any():
        return Arrivals(tuples, [])
    rejected = []
    left = np.ones(tuples.num_rows, bool)
    for unfit, reason in (
        (undecoded, "its payload holds bytes that are no text, so that it can't be read back"),
        (malformed, "its payload can't be read back: it does not fit the source's schema any more"),
        (different, "its payload can't be read back: with the source's present schema it has another event id"),
    ):
        if (unfit & left).any():
            rejected.append(Held("rejected", reason, None, tuples.filter(pa.array(unfit & left))))
            left &= ~unfit
    return Arrivals(tuples.filter(pa.array(left)), rejected)
