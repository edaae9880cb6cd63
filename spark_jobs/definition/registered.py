"""What kinds of sources and formats of records have in common, as definitions know them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.definition.problems import Problem
    from spark_jobs.definition.source import Source


class Registered(ABC):
    """A row of the table of kinds, or of formats. No I/O: Airflow asks it whenever it parses a DAG file.

    Attributes:
        name: by which its table knows it.
    """

    name: str

    def __eq__(self, other: object) -> bool:
        # One that came with a task is another object.
        return type(other) is type(self) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def connections(self, source: Source) -> Iterator[str]:
        """Ids of the Airflow connections that it asks for."""
        yield from ()

    def problems(self, path: str, source: Source) -> Iterator[Problem]:
        """What does not fit it in a source; of a format's options, only of those that it takes.

        Args:
            path: of the source, in the definition.
            source: right in itself.
        """
        yield from ()
