"""Decodes the records of a source as its definition says: of which format, in which envelope, of which schemas."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.definition import Source
from spark_jobs.source.records.decoded import Decoded
from spark_jobs.source.records.format import Decodes, RecordFormat
from spark_jobs.source.records.formats import RECORD_FORMATS


@dataclass(frozen=True)
class RecordDecoder:
    """Decodes a source's records: those of a topic, and what is held of them; `format` knows those of files.

    Travels inside pickled tasks only: it may hold the password of a registry.

    Attributes:
        source: how records look.
        format: theirs.
        decodes: decodes single records.
    """

    source: Source
    format: RecordFormat
    decodes: Decodes

    @classmethod
    def of(cls, source: Source) -> RecordDecoder:
        """The decoder of a source, with what its format needs besides as this process finds it.

        Raises:
            PipelineDefinitionError: some of that is not there, or can't be understood.
        """
        used = RECORD_FORMATS[source.format]
        return cls(source, used, used.decoder(source))

    def decode(self, records: pa.Array) -> Decoded:
        """The tuples of records.

        Args:
            records: binary or large_binary array without nulls, shape (n,).

        Raises:
            SourceAwayError: a schema registry does not answer.
        """
        return self.decodes(records)
