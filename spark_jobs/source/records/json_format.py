"""JSON: an object is a record, and a line of a file; of an envelope, the row that was inserted is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.definition import Source
from spark_jobs.definition.ddl import StreamType
from spark_jobs.source.records.debezium import unwrapped
from spark_jobs.source.records.decoded import Decoded
from spark_jobs.source.records.format import Decodes, LineFormat
from spark_jobs.source.records.json_blocks import decode_json


class JsonFormat(LineFormat):
    """Objects."""

    name = "json"

    def decoder(self, source: Source) -> Decodes:
        """As of `RecordFormat`."""
        columns = source.record_columns
        return JsonDecoder(columns) if source.envelope is None else EnvelopeDecoder(columns)

    def line_decoder(self, source: Source, header: bytes | None) -> Decodes:
        """As of `LineFormat`."""
        return JsonDecoder(source.record_columns)

    def decode_held(self, records: pa.Array, columns: Mapping[str, StreamType]) -> Decoded:
        """As of `RecordFormat`."""
        return decode_json(records, columns)


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes objects.

    Attributes:
        columns: of the tuples.
    """

    columns: Mapping[str, StreamType]

    def __call__(self, records: pa.Array) -> Decoded:
        """As of `Decodes`."""
        return decode_json(records, self.columns)


@dataclass(frozen=True)
class EnvelopeDecoder:
    """Decodes the rows that changes of rows have inserted.

    Attributes:
        columns: of the tuples.
    """

    columns: Mapping[str, StreamType]

    def __call__(self, records: pa.Array) -> Decoded:
        """As of `Decodes`."""
        rows, reasons = unwrapped(records)
        decoded = decode_json(rows, self.columns)
        return Decoded(decoded.tuples, pc.coalesce(pa.array(reasons, pa.string()), decoded.reasons))
