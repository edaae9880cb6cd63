"""Builds a new version of a copy: its parts in parallel, then the manifest that makes it the newest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from spark_jobs.relation.local_copy.manifest import CopyManifest, PagePlaces
from spark_jobs.relation.local_copy.part import PartTask
from spark_jobs.relation.local_copy.store import CopyStore
from spark_jobs.relation.page_cutting import cut_pages
from spark_jobs.relation.read_limit import ReadLimit
from spark_jobs.relation.reading_connection import reading_connection
from spark_jobs.relation.relation_spec import RelationSpec

RunParts = Callable[[PartTask, int], list[tuple[str, PagePlaces]]]
"""Calls the task for parts 0 to n - 1, in any order and place; the results in the order of the parts."""


def build_copy(
    store: CopyStore,
    url: str,
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
