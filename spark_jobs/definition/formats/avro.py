"""Avro as a source's format: where the schemas of its records are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from spark_jobs.definition.fields import Part, Word, connection_id
from spark_jobs.definition.formats.base import FormatFacts
from spark_jobs.definition.problems import shown

if TYPE_CHECKING:
    from spark_jobs.definition.source import Source


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        sound = re.fullmatch(r"https?://[^\s@?#]+", text) and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none
        sound = False
    if not sound:
        allowed = "Allowed: http:// or https://, host and port; user and password belong into the connection."
        raise ValueError(f"{shown(text)} is not a registry's address. {allowed}")
    return text


def _file(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError(f"{shown(text)} is not an absolute path of a file. Start it with /.")
    return text


class Avro(Part):
    """Where the schemas of Avro records are.

    Attributes:
        schema_file: file with an Avro schema. Without a registry all records are written with it, and have no head.
            With one it is the reader's: its defaults and aliases count where records were written with others.
        registry: address of Confluent's schema registry, which has the schemas of records in its wire format.
        connection: id of the Airflow connection with user and password for the registry; None: it asks for none.
    """

    schema_file: Annotated[str, AfterValidator(_file)] | None = Field(
        default=None, examples=["schema_file: /schemas/order.avsc"]
    )
    registry: Annotated[str, AfterValidator(_url)] | None = Field(
        default=None, examples=["registry: http://localhost:8081"]
    )
    connection: Annotated[Word, AfterValidator(connection_id)] | None = Field(
        default=None, examples=["connection: schema_registry"]
    )

    @model_validator(mode="after")
    def _has_schemas(self) -> Avro:
        if self.schema_file is None and self.registry is None:
            raise ValueError("Write schema_file: a file with the Avro schema, or registry: an address; or both.")
        if self.connection is not None and self.registry is None:
            raise ValueError("connection is the registry's, and there is no registry. Remove it.")
        return self


class _AvroFacts(FormatFacts):
    name = held_as = "avro"
    borne_by = frozenset({"messages"})
    key = "avro"
    settings = Avro
    example = "avro: {registry: http://localhost:8081}"
    description = "Of format avro, where the schemas are."
    lacking = "is missing: it says where the schemas are."
    is_stored_unset = True
    holds_columns = True  # which can be read without the schema

    def connections(self, source: Source) -> Iterator[str]:
        if (connection := source.format_settings.connection) is not None:
            yield connection


AVRO = _AvroFacts()
