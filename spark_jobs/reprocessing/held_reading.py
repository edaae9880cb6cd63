"""Reads held tuples back into stream tuples: each task its slice, straight from PostgreSQL, by the stream's decoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from psycopg2 import sql

from spark_jobs.columns.copy_decoding.column_types import column_type
from spark_jobs.columns.copy_decoding.decode import decode_copy
from spark_jobs.definition.stream_tuple import ARRIVED_AT
from spark_jobs.loading.payload import HELD_ID, PAYLOAD, PAYLOAD_ENCODING, SOURCE_POSITION, SOURCE_UNIT
from spark_jobs.lookup.relation.reading_connection import reading_connection
from spark_jobs.secret_text import SecretText
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.held_records import HeldRecords
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.warehouse.fact_table import FactTable

# Columns that a held tuple keeps on its way through the tasks.
VERSION = "_held_version"  # of its row: the transaction that wrote it

_COLUMNS = {
    HELD_ID: ("event_id", "text"),
    VERSION: ("xmin::text::bigint", "int8"),
    ARRIVED_AT: ("arrived_at", "timestamptz"),
    SOURCE_UNIT: ("source_unit", "text"),
    SOURCE_POSITION: ("source_position", "int8"),
    PAYLOAD: ("payload", "text"),
    PAYLOAD_ENCODING: ("payload_encoding", "text"),
}
_KEPT = (HELD_ID, VERSION, ARRIVED_AT)
_QUERY = f"SELECT {', '.join(f'h.{expression}' for expression, _ in _COLUMNS.values())} FROM freshet.held_tuple AS h"

_BLOCK_ROWS = 65_536


@dataclass(frozen=True)
class HeldReader:
    """How a task gets stream tuples of a slice of the held ones; pickled into the tasks.

    Attributes:
        warehouse_url: where they are held.
        decoder: of the pipeline's source.
        fact: the fact table, for the columns of the event id.
    """

    warehouse_url: SecretText
    decoder: RecordDecoder
    fact: FactTable

    def __call__(self, condition: str) -> Iterator[Arrivals]:
        """The tuples of a slice, in blocks; the slice's payloads are in memory.

        Args:
            condition: SQL condition on freshet.held_tuple AS h of the slice.
        """
        content = reading_connection(self.warehouse_url).copy(sql.SQL(f"{_QUERY} WHERE {condition}"))
        kinds = [column_type(kind, -1) for _, kind in _COLUMNS.values()]
        columns = decode_copy(content, [kind for kind in kinds if kind is not None])
        held = pa.table(dict(zip(_COLUMNS, columns, strict=True)))
        records = HeldRecords(self.decoder, self.fact.key)
        for start in range(0, held.num_rows, _BLOCK_ROWS):
            block = held.slice(start, _BLOCK_ROWS).combine_chunks()
            yield Arrivals(*records.read(block, _KEPT), block.num_rows)
