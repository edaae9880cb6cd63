"""CSV: a line is a record; in files with a header its line goes along with each record that is held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.definition import Source
from spark_jobs.definition.ddl import StreamType
from spark_jobs.source.records.csv_records import CsvDecoder, CsvLayout
from spark_jobs.source.records.decoded import Decoded, MalformedRecordError, all_malformed, as_text, merged
from spark_jobs.source.records.format import Decodes, LineFormat


class CsvFormat(LineFormat):
    """Lines of fields."""

    name = "csv"

    def decoder(self, source: Source) -> Decodes:
        """As of `RecordFormat`."""
        return _HeldLines(source.record_columns, CsvLayout.from_options(source.options))

    def has_header(self, source: Source) -> bool:
        """As of `LineFormat`."""
        return CsvLayout.from_options(source.options).header

    def line_decoder(self, source: Source, header: bytes | None) -> Decodes:
        """As of `LineFormat`."""
        layout = CsvLayout.from_options(source.options)
        names = None if header is None else [field.text for field in layout.fields(as_text(header))]
        return CsvDecoder(source.record_columns, layout, names).decode

    def decode_held(self, records: pa.Array, columns: Mapping[str, StreamType]) -> Decoded:
        """As of `RecordFormat`."""
        return _HeldLines(columns, CsvLayout())(records)


@dataclass(frozen=True)
class _HeldLines:
    """Decodes lines, each behind its header's line where there is one."""

    columns: Mapping[str, StreamType]
    layout: CsvLayout

    def __call__(self, records: pa.Array) -> Decoded:
        if not self.layout.header:
            return CsvDecoder(self.columns, self.layout, None).decode(records)
        return _decode_with_headers(records, self.columns, self.layout)


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
