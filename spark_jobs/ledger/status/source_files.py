"""Files of the sources that were not loaded: set aside, or lost."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import extensions


@dataclass(frozen=True)
class FilesNotLoaded:
    """The files of a pipeline's source that were not loaded.

    Attributes:
        set_aside: those that can't be read, or were changed after they had been read.
        lost: those that were gone before they were read, and were given up.
        newest: the newest of them, with the reason; None where there is none.
    """

    set_aside: int = 0
    lost: int = 0
    newest: str | None = None


def read_files_not_loaded(cursor: extensions.cursor) -> dict[str, FilesNotLoaded]:
    """By pipeline; those without are left out. One query, by an index over such files alone."""
    cursor.execute(
        """
        SELECT pipeline, count(DISTINCT unit) FILTER (WHERE state = 'set aside'),
            count(DISTINCT unit) FILTER (WHERE state = 'lost'),
            (array_agg(concat_ws(': ', unit, reason) ORDER BY range_id DESC))[1]
        FROM freshet.source_range WHERE state IN ('set aside', 'lost')
        GROUP BY pipeline
        """
    )
    return {pipeline: FilesNotLoaded(*counts) for pipeline, *counts in cursor.fetchall()}
