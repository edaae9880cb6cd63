"""One part of a copy: a range of R's pages, read from PostgreSQL and written to a file."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from spark_jobs.errors import FreshetError
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.live import LiveRelation
from spark_jobs.relation.local_copy.manifest import PagePlaces
from spark_jobs.relation.local_copy.page_files import PartWriter, page_schema
from spark_jobs.relation.page_index import PageIndex
from spark_jobs.relation.page_ranges import PageRanges
from spark_jobs.relation.read_limit import ReadLimit
from spark_jobs.relation.relation_spec import RelationSpec

# A statement costs 0.2 ms before its first tuple: so much is read by each that this does not matter.
_ROWS_AT_ONCE = 16_000


@dataclass(frozen=True)
class PartTask:
    """Writes any part of a copy; called where a task runs, with the part's number. Pickles.

    Attributes:
        url: libpq URL of the warehouse.
        spec: R.
        index: the copy's pages.
        ranges: the pages of each part.
        folder: where the parts are written.
        limit: gives the limit of what one process may read, which all tasks in it share; None: there is none.
    """

    url: str
    spec: RelationSpec
    index: PageIndex
    ranges: PageRanges
    folder: Path
    limit: Callable[[], ReadLimit] | None = None

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
        relation = LiveRelation(self.url, self.spec, self.index)
        try:
            with PartWriter(path, part, page_schema(self.spec)) as writer:
                for columns in _pages(relation, range(first, stop), self.limit() if self.limit else None):
                    writer.append(columns)
        except OSError as error:
            raise FreshetError(
                f"The snapshot of {self.spec.relation} could not be written to {path}: {error.strerror}. The former "
                "one goes on being used. Make room on the disk; where Spark runs on several hosts, FRESHET_HOME must "
                "be a folder that all of them share."
            ) from error
        return path.name, writer.places


def _pages(relation: LiveRelation, pages: range, limit: ReadLimit | None) -> Iterator[list[pa.Array]]:
    """The columns of each page, several of which are read at once; at least one, however low the limit."""
    spec = relation.spec
    most_rows = _ROWS_AT_ONCE if limit is None else min(_ROWS_AT_ONCE, spec.table_rows(limit.tuples_at_once))
    at_once = max(1, most_rows // spec.table_rows(relation.pages.page_rows))
    for first in range(pages.start, pages.stop, at_once):
        count = min(at_once, pages.stop - first)
        if limit is not None:
            limit.wait()
        columns = relation.page_columns(first, count)
        if limit is not None:
            limit.take(len(columns[0]))
        numbers = relation.page_of(KeyColumns.encode(columns[: len(spec.key)], spec.key_kinds)) - first
        order = np.argsort(numbers, kind="stable")
        for rows in np.split(order, np.searchsorted(numbers[order], np.arange(1, count))):
            yield [column.take(pa.array(rows)) for column in columns]
