"""What a definition says of a kind of source, apart from how it is read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.registered import Registered

if TYPE_CHECKING:
    from spark_jobs.definition.source import Source
    from spark_jobs.settings import Home

Bearer = Literal["files", "messages"]
"""What records come in: many in a file, or each for itself."""


class KindFacts(Registered):
    """What holds of all sources of one kind.

    Attributes:
        name: of the kind, in the ledger.
        key: of the definition, under which a source of the kind says what it reads; no other kind has it.
        settings: what is written there: a type, or a model with keys of its own.
        example: of the key.
        description: of the key, for the reference.
        meaning: what the key is, for the message that one kind has to be chosen.
        title: what it is called in messages.
        records: what bears its records is called there, in the plural.
        bears: whether records come in files or as messages; it decides which formats there are.
        options: names of `options` that are the kind's own, whatever the format.
        columns: columns that each record has besides those of its bytes.
        place: those of them that say where a record lies; they are the event id where the definition names none.
        removes: whether what is loaded can be removed there (`after_load`).
        is_log: whether units are logs: they grow at their end, and what is at an offset is read once. Their ranges are
            offsets, which follow on one another from 0; others are bytes of what may be replaced.
        of_formats: what the reference says of the formats, besides which there are.
    """

    name: str
    key: str
    settings: Any
    example: str
    description: str
    meaning: str
    title: str
    records: str
    bears: Bearer
    options: tuple[str, ...] = ()
    columns: Mapping[str, StreamType] = {}
    place: tuple[str, ...] = ()
    removes: bool = False
    is_log: bool = False
    of_formats: str = ""

    @abstractmethod
    def identity(self, source: Source) -> str:
        """What the source reads, in words; two sources that read the same have the same."""

    @abstractmethod
    def dataset(self, source: Source, home: Home) -> tuple[str, str]:
        """Namespace and name of what it reads, as OpenLineage calls it."""
