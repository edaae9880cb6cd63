"""The kinds of sources: one table. What definitions say of them stands in `spark_jobs.definition.kinds`."""

from __future__ import annotations

from spark_jobs.definition import Source
from spark_jobs.source.files.kind import LandingFolders
from spark_jobs.source.kafka.kind import KafkaTopics
from spark_jobs.source.kind import SourceKind

SOURCE_KINDS: dict[str, SourceKind] = {"files": LandingFolders(), "kafka": KafkaTopics()}
"""Name of the kind, as the ledger has it -> what does its work."""


def kind_of(source: Source) -> SourceKind:
    """What does the work of a source's kind."""
    return SOURCE_KINDS[source.kind.name]
