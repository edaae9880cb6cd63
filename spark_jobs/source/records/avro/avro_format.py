"""Avro: a message is a record, whose schema a file or a registry has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.definition import Source
from spark_jobs.errors import PipelineDefinitionError
from spark_jobs.secret_text import SecretText
from spark_jobs.source.connections import read_connection
from spark_jobs.source.records.format import Decodes, RecordFormat

if TYPE_CHECKING:
    from spark_jobs.source.records.avro.avro_records import AvroDecoder


class AvroFormat(RecordFormat):
    """Records of a schema."""

    name = "avro"

    def decoder(self, source: Source) -> Decodes:
        """As of `RecordFormat`."""
        return _decoder(source).decode

    def warnings(self, source: Source) -> Iterator[str]:
        """As of `RecordFormat`."""
        registry = _decoder(source).registry
        if registry is not None and registry.tells_password_to_others:
            at = f"the password for the schema registry at {registry.url}"
            yield f"{at} goes over the network as it is: write https://"


def _decoder(source: Source) -> AvroDecoder:
    avro = source.format_settings
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
