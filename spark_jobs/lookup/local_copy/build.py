"""Builds a new version of a copy: its parts in parallel, then the manifest that makes it the newest."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.errors import FreshetError
from spark_jobs.lookup.local_copy.copy_files import CopyManifest, PagePlaces, PartWriter, page_schema
from spark_jobs.lookup.local_copy.store import CopyStore
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.page_cutting import cut_pages
from spark_jobs.lookup.relation.page_index import PageIndex, PageRanges
from spark_jobs.lookup.relation.read_limit import ReadLimit
from spark_jobs.lookup.relation.reading_connection import reading_connection
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.secret_text import SecretText

# A statement costs 0.2 ms before its first tuple: each reads enough for this not to matter.
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

    url: SecretText
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
                "one stays in use. Make room on the disk; where Spark runs on several hosts, FRESHET_HOME must "
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


RunParts = Callable[[PartTask, int], list[tuple[str, PagePlaces]]]
"""Calls the task for parts 0 to n - 1, in any order and place; the results in the order of the parts."""


def build_copy(
    store: CopyStore,
    url: SecretText,
    spec: RelationSpec,
    noticed: str,
    built_at: datetime,
    *,
    page_rows: int,
    parts: int,
    run: RunParts,
    limit: Callable[[], ReadLimit] | None = None,
) -> CopyManifest:
    """Read all of R and write it down as the newest version.

    Args:
        store: where.
        url: libpq URL of the warehouse.
        spec: R, which can be read by pages.
        noticed: pg_snapshot as text, taken before: R may be read at different times by different parts, and what
            changes after this counts as changed since.
        built_at: a time before that.
        page_rows: tuples of a page.
        parts: how many parts, at most one per page.
        run: how they are written.
        limit: gives the limit of what one process may read, which all parts that it writes share; None: there is none.

    Raises:
        FreshetError: the disk has no room, another process writes a copy, or Spark can't reach the folder.
        SchemaMismatchError: no index of R gives its key in an order that pages can have.
    """
    index = reading_connection(url).run(lambda connection: cut_pages(connection, spec, page_rows))
    ranges = index.ranges(min(parts, index.page_count))
    with store.build(spec.row_count * spec.tuple_bytes) as build:
        written = run(PartTask(url, spec, index, ranges, build.folder, limit), ranges.parts)
        return build.finish(
            CopyManifest(
                folder=build.folder,
                version=0,
                built_at=built_at,
                noticed=noticed,
                index=index,
                parts=tuple(name for name, _ in written),
                places=PagePlaces.concatenate([places for _, places in written]),
            )
        )
