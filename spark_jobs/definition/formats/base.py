"""What a definition says of a format of records, apart from how they are decoded."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from spark_jobs.definition.kinds.base import Bearer

if TYPE_CHECKING:
    from spark_jobs.definition.problems import Problem
    from spark_jobs.definition.source import Source


class FormatFacts(ABC):
    """What holds of all records of one format. No I/O: Airflow asks it whenever it parses a DAG file.

    Attributes:
        name: of the format, in definitions and in what is held.
        borne_by: what such records come in.
        options: names of `options` that it takes.
        key: of the definition, for what there is to say of the format besides; None: nothing.
        settings: what is written there: a model.
        example, description: of the key, for the reference.
        lacking: what is told where the key is missing.
        is_stored_unset: whether stored definitions of other formats have the key, too, as null. What batches were read
            as is told by these: a format that comes later leaves them as they are.
        held_as: the format of a record that is held as bytes: its own, or json where it is a row of a file.
        is_divisible: whether some records of a file can be read without all others.
        holds_columns: whether not the bytes of a record are held, but its columns as JSON.
    """

    name: str
    borne_by: frozenset[Bearer]
    options: tuple[str, ...] = ()
    key: str | None = None
    settings: Any = None
    example: str = ""
    description: str = ""
    lacking: str = ""
    is_stored_unset: bool = False
    held_as: str
    holds_columns: bool = False
    is_divisible: bool = True

    def __eq__(self, other: object) -> bool:
        # One that came with a task is another object.
        return isinstance(other, FormatFacts) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def connections(self, source: Source) -> Iterator[str]:
        """Ids of the Airflow connections that it asks for."""
        yield from ()

    def problems(self, path: str, source: Source) -> Iterator[Problem]:
        """What does not fit the format in a source; of options, only of those that it takes.

        Args:
            path: of the source, in the definition.
            source: right in itself.
        """
        yield from ()
