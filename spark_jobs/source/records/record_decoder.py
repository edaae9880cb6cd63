"""Decodes single records of a source as its definition says: of which format, in which envelope, of which schemas."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.definition import Source
from spark_jobs.definition.avro import Avro
from spark_jobs.errors import PipelineDefinitionError
from spark_jobs.secret_text import SecretText
from spark_jobs.source.connections import read_connection
from spark_jobs.source.records import Decoded, decode_records
from spark_jobs.source.records.debezium import unwrapped
from spark_jobs.source.records.json_blocks import decode_json

if TYPE_CHECKING:
    from spark_jobs.source.records.avro.avro_records import AvroDecoder


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
    # What most sources have no need of: each worker would import it.
    from spark_jobs.source.records.avro.avro_records import AvroDecoder
    from spark_jobs.source.records.avro.programs import UnfitSchemaError
    from spark_jobs.source.records.avro.registry import SchemaRegistry

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
            registry = SchemaRegistry(avro.registry, of_registry.user, SecretText(of_registry.password or ""))
    decoder = AvroDecoder(tuple(source.record_columns.items()), schema, registry, source.envelope is not None)
    try:
        decoder.check()
    except UnfitSchemaError as error:
        text = f"source.avro.schema_file: {avro.schema_file} does not fit source.schema: {error}."
        raise PipelineDefinitionError(text) from None
    return decoder
