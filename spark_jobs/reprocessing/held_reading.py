"""Reads held tuples back into stream tuples: each task its slice, straight from PostgreSQL, by the stream's decoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql

from spark_jobs.definition import Source
from spark_jobs.definition.stream_tuple import ARRIVED_AT
from spark_jobs.loading.outcome import Held
from spark_jobs.loading.payload import RECORD_ENCODINGS, payload_bytes
from spark_jobs.relation.copy_decoding.column_types import column_type
from spark_jobs.relation.copy_decoding.decode import decode_copy
from spark_jobs.relation.reading_connection import reading_connection
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.kafka_slice import with_place
from spark_jobs.source.records import decode_records
from spark_jobs.warehouse.event_id import event_id_texts
from spark_jobs.warehouse.fact_table import FactTable

# Columns that a held tuple keeps on its way through the tasks.
HELD_ID = "_held_id"  # its event id, as freshet.held_tuple has it
VERSION = "_held_version"  # of its row: the transaction that wrote it

_UNIT, _POSITION = "_source_unit", "_source_position"
_PAYLOAD, _ENCODING = "_payload", "_payload_encoding"
_COLUMNS = {
    HELD_ID: ("event_id", "text"),
    VERSION: ("xmin::text::bigint", "int8"),
    ARRIVED_AT: ("arrived_at", "timestamptz"),
    _UNIT: ("source_unit", "text"),
    _POSITION: ("source_position", "int8"),
    _PAYLOAD: ("payload", "text"),
    _ENCODING: ("payload_encoding", "text"),
}
_KEPT = (HELD_ID, VERSION, ARRIVED_AT)
_QUERY = f"SELECT {', '.join(f'h.{expression}' for expression, _ in _COLUMNS.values())} FROM freshet.held_tuple AS h"

_BLOCK_ROWS = 65_536

_UNDECODED = "its payload holds no record of the source, so that it can't be read back"
_MALFORMED = "its payload can't be read back: with the source's present schema it is "
_DIFFERENT = "its payload can't be read back: with the source's present schema it has another event id"


@dataclass(frozen=True)
class HeldReader:
    """How a task gets stream tuples of a slice of the held ones; pickled into the tasks.

    Tuples that are not the ones that were held are rejected: a payload that is no record, or that the source's present
    schema makes another event of.

    Attributes:
        warehouse_url: where they are held.
        source: the pipeline's source: how records look.
        fact: the fact table, for the columns of the event id.
    """

    warehouse_url: str
    source: Source
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
        for start in range(0, held.num_rows, _BLOCK_ROWS):
            yield self._arrivals(held.slice(start, _BLOCK_ROWS).combine_chunks())

    def _arrivals(self, held: pa.Table) -> Arrivals:
        """The tuples that are what was held, and the others by the reason why not."""
        formats = pc.if_else(
            pc.is_in(held[_ENCODING], pa.array(RECORD_ENCODINGS)),
            pc.replace_substring(held[_ENCODING], ".base64", ""),
            "",
        )
        found, rejected = [], []
        for record_format in ("json", "csv"):
            of_format = held.filter(pc.equal(formats, record_format))
            if of_format.num_rows:
                sound, unsound = self._decoded(of_format, record_format)
                found.append(sound)
                rejected += unsound
        undecoded = held.filter(pc.equal(formats, ""))
        if undecoded.num_rows:
            rejected.append(Held("rejected", _UNDECODED, None, self._without_values(undecoded)))
        tuples = pa.concat_tables(found) if found else self._without_values(held.slice(0, 0))
        return Arrivals(tuples, rejected, held.num_rows)

    def _decoded(self, held: pa.Table, record_format: Literal["json", "csv"]) -> tuple[pa.Table, list[Held]]:
        """The tuples of payloads of one format that are what was held, and the others."""
        records = payload_bytes(held[_PAYLOAD].combine_chunks(), held[_ENCODING].combine_chunks())
        options = self.source.options if record_format == self.source.format else {}
        decoded = decode_records(records, record_format, self.source.record_columns, options)
        tuples = decoded.tuples
        if self.source.kafka is not None:
            tuples = with_place(tuples, held[_UNIT], held[_POSITION], held[ARRIVED_AT])
        tuples = pa.table([*tuples.columns, *held.select(_KEPT).columns], names=[*tuples.column_names, *_KEPT])
        same = pc.equal(event_id_texts(tuples, self.fact.key), held[HELD_ID].cast(pa.large_string()))
        sound, known = pc.is_null(decoded.reasons), pc.fill_null(same, False)
        rejected = []
        if decoded.reasons.null_count < len(sound):
            reasons = pc.binary_join_element_wise(_MALFORMED, decoded.reasons.drop_null(), "")
            rejected.append(Held("rejected", reasons, None, tuples.filter(pc.invert(sound))))
        different = pc.and_not(sound, known)
        if pc.any(different).as_py():
            rejected.append(Held("rejected", _DIFFERENT, None, tuples.filter(different)))
        return tuples.filter(pc.and_(sound, known)), rejected

    def _without_values(self, held: pa.Table) -> pa.Table:
        columns = self.source.columns
        values = [pa.nulls(held.num_rows, kind.arrow()) for kind in columns.values()]
        return pa.table([*values, *held.select(_KEPT).columns], names=[*columns, *_KEPT])
