"""A format of records that Freshet has not: lines of `name=value`, a blank between them. For a test alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.definition import Source
from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.formats import FormatFacts
from spark_jobs.source.records.decoded import Decoded
from spark_jobs.source.records.format import Decodes, LineFormat
from spark_jobs.source.records.json_blocks import decode_json


class PairsFacts(FormatFacts):
    name = held_as = "pairs"
    borne_by = frozenset({"files"})


@dataclass(frozen=True)
class PairsDecoder:
    columns: Mapping[str, StreamType]

    def __call__(self, records: pa.Array) -> Decoded:
        objects = [json.dumps(dict(_pairs(record))) for record in records.to_pylist()]
        return decode_json(pa.array(objects, pa.large_string()).view(pa.large_binary()), self.columns)


def _pairs(record: bytes) -> Iterator[tuple[str, str | int]]:
    for pair in record.decode(errors="replace").split():
        name, _, value = pair.partition("=")
        yield name, int(value) if value.isdigit() else value


class PairsFormat(LineFormat):
    name = "pairs"

    def decoder(self, source: Source) -> Decodes:
        return PairsDecoder(source.record_columns)

    def line_decoder(self, source: Source, header: bytes | None) -> Decodes:
        return PairsDecoder(source.record_columns)

    def decode_held(self, records: pa.Array, columns: Mapping[str, StreamType]) -> Decoded:
        return PairsDecoder(columns)(records)
