"""Which files of a landing folder no batch has planned. Light to import: whoever shows the status asks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what decodes knows its times, and needs no database
    from psycopg2 import extensions

_LAST_SECOND = datetime(9999, 12, 31, tzinfo=UTC).timestamp()

TAKEN = "state IN ('planned', 'loaded', 'set aside', 'lost') AND removed_at IS NULL"
"""SQL condition on freshet.source_range: planned or done, in one way or another, and not to be planned again."""


def landing_time(modified_ns: int) -> datetime:
    """When a file landed that was changed last then, in ns since 1970."""
    return datetime.fromtimestamp(min(max(modified_ns / 1e9, 0.0), _LAST_SECOND), UTC)


def unread_among(
    cursor: extensions.cursor, pipeline: str, files: Sequence[tuple[str, int, int]]
) -> tuple[int, int, int | None]:
    """What of the files of a folder has been planned by no batch: files, bytes, and the oldest mtime in ns.

    One that was changed after it had been planned waits to be loaded as a new one, unless it is set aside as it is now.

    Args:
        cursor: to the warehouse.
        pipeline: its name.
        files: (unit, size, mtime in ns) as they are now.
    """
    units, sizes, modified = map(list, zip(*files, strict=True)) if files else ([], [], [])
    cursor.execute(
        f"""
        SELECT count(*), coalesce(sum(size - taken), 0)::bigint, min(modified_ns)
        FROM unnest(%(units)s::text[], %(sizes)s::bigint[], %(modified)s::bigint[]) AS seen (unit, size, modified_ns)
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(range.last - range.first)
                FILTER (WHERE range.size = seen.size AND range.modified_ns = seen.modified_ns), 0) AS taken
            FROM freshet.source_range AS range
            WHERE range.pipeline = %(pipeline)s AND range.unit = seen.unit AND {TAKEN}) AS known
        WHERE taken < size
        """,
        {"units": units, "sizes": sizes, "modified": modified, "pipeline": pipeline},
    )
    row = cursor.fetchone()
    assert row is not None
    return row[0], row[1], row[2]
