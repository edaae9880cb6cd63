"""One part of a snapshot: a range of R's pages, read from PostgreSQL and written to a file."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from spark_jobs.errors import FreshetError
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.page_index import PageIndex
from spark_jobs.relation.page_ranges import PageRanges
from spark_jobs.relation.postgres_relation import PostgresRelation
from spark_jobs.relation.postgres_snapshot.manifest import PagePlaces
from spark_jobs.relation.postgres_snapshot.page_files import PartWriter, page_schema
from spark_jobs.relation.relation_spec import RelationSpec

# A statement costs 0.2 ms before its first tuple: so much is read by each that this does not matter.
_ROWS_AT_ONCE = 16_000


class ReadingPace(Protocol):
    """How fast R may be read."""

    @property
    def tuples_at_once(self) -> int:
        """Tuples that a single read should ask for at most."""

    def wait(self) -> None:
        """Wait until a read may begin."""

    def take(self, tuples: int) -> None:
        """Account for a read of so many tuples."""


@dataclass(frozen=True)
class PartTask:
    """Writes any part of a snapshot; called where a task runs, with the part's number. Pickles.

    Attributes:
        url: libpq URL of the warehouse.
        spec: R.
        index: the snapshot's pages.
        ranges: the pages of each part.
        folder: where the parts are written.
        pace: gives what slows a process down, which all tasks in it share; None: they read as fast as they can.
    """

    url: str
    spec: RelationSpec
    index: PageIndex
    ranges: PageRanges
    folder: Path
    pace: Callable[[], ReadingPace] | None = None

    def __call__(self, part: int) -> tuple[str, PagePlaces]:
        """Read the part's pages of R now, and write them to a file. O(tuples).

        Returns:
            The file's name, which no other attempt at this part has, and where the pages lie in it.

        Raises:
            FreshetError: the disk is full, or the folder is not there.
            WarehouseUnavailableError: PostgreSQL went away and did not come back in time.
        """
        path = self.folder / f"part-{part:05d}-{secrets.token_hex(4)}"
        first, stop = self.ranges.boundaries[part : part + 2].tolist()
        relation = PostgresRelation(self.url, self.spec, self.index)
        try:
            with PartWriter(path, part, page_schema(self.spec)) as writer:
                for columns in _pages(relation, range(first, stop), self.pace() if self.pace else None):
                    writer.append(columns)
        except OSError as error:
            raise FreshetError(
                f"The snapshot of {self.spec.relation} could not be written to {path}: {error.strerror}. The former "
                "one goes on being used. Make room on the disk; where Spark runs on several hosts, FRESHET_HOME must "
                "be a folder that all of them share."
            ) from error
        return path.name, writer.places


def _pages(relation: PostgresRelation, pages: range, pace: ReadingPace | None) -> Iterator[list[pa.Array]]:
    """The columns of each page, several of which are read at once; at least one, however slow the pace."""
    spec = relation.spec
    most_rows = _ROWS_AT_ONCE if pace is None else min(_ROWS_AT_ONCE, spec.table_rows(pace.tuples_at_once))
    at_once = max(1, most_rows // spec.table_rows(relation.page_rows))
    for first in range(pages.start, pages.stop, at_once):
        count = min(at_once, pages.stop - first)
        if pace is not None:
            pace.wait()
        columns = relation.page_columns(first, count)
        if pace is not None:
            pace.take(len(columns[0]))
        numbers = relation.page_of(KeyColumns.encode(columns[: len(spec.key)], spec.key_kinds)) - first
        order = np.argsort(numbers, kind="stable")
        for rows in np.split(order, np.searchsorted(numbers[order], np.arange(1, count))):
            yield [column.take(pa.array(rows)) for column in columns]
