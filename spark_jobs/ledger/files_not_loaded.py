"""Files of the sources that were not loaded: set aside, lost, or to be read again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from psycopg2 import extensions


class TroubledRange(NamedTuple):
    """A file that was not loaded.

    Attributes:
        unit: its name.
        state: set aside, lost, to retry, or planned.
        landed_at: when it landed; None where that is not known.
        reason: why; None where it is only being read.
    """

    unit: str
    state: str
    landed_at: datetime | None
    reason: str | None


def units_to_retry(connection: extensions.connection, pipeline: str) -> list[str]:
    """Names of the files that an operator wants to be read again."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT unit FROM freshet.source_range WHERE pipeline = %s AND state = 'to retry'", [pipeline]
        )
        return [unit for (unit,) in cursor.fetchall()]


def troubled_ranges(connection: extensions.connection, pipeline: str) -> list[TroubledRange]:
    """Files that were not loaded: set aside, lost, to be retried, or being read by the open batch; oldest first.

    Those that were dismissed are left out.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT unit, state, landed_at, reason FROM freshet.source_range "
            "WHERE pipeline = %s AND state IN ('planned', 'set aside', 'lost', 'to retry') AND dismissed_at IS NULL "
            "ORDER BY range_id",
            [pipeline],
        )
        return [TroubledRange(*row) for row in cursor.fetchall()]


def ask_to_retry(connection: extensions.connection, pipeline: str, unit: str) -> bool:
    """Have a file read again, whole, as it is then; whether the ledger knows it as one that is not being read."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE freshet.source_range SET state = 'to retry', dismissed_at = NULL "
            "WHERE pipeline = %s AND unit = %s AND state IN ('loaded', 'set aside', 'lost')",
            [pipeline, unit],
        )
        return cursor.rowcount > 0


def give_up(connection: extensions.connection, pipeline: str, unit: str, reason: str) -> bool:
    """Give up what is to be read of a file that is gone for good, by the open batch or again; whether anything was.

    What was loaded of it once, and was only to be read again, stays loaded.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE freshet.source_range SET (state, reason) = (
                SELECT 'loaded', NULL WHERE state = 'to retry' AND reason IS NULL
                UNION ALL SELECT 'lost', %s WHERE state = 'planned' OR reason IS NOT NULL)
            WHERE pipeline = %s AND unit = %s AND state IN ('planned', 'to retry')
            """,
            [reason, pipeline, unit],
        )
        return cursor.rowcount > 0


def dismiss(connection: extensions.connection, pipeline: str, unit: str) -> bool:
    """Tell no more of what was set aside or lost of a file, which is not to be loaded; whether anything was."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE freshet.source_range SET dismissed_at = clock_timestamp() WHERE pipeline = %s AND unit = %s "
            "AND state IN ('set aside', 'lost') AND dismissed_at IS NULL",
            [pipeline, unit],
        )
        return cursor.rowcount > 0


@dataclass(frozen=True)
class FilesNotLoaded:
    """The files of a pipeline's source that were not loaded, but for those that were dismissed.

    Attributes:
        set_aside: those that can't be read, or were changed after they had been read.
        lost: ranges that were gone before they were read: given up, or removed by a topic's retention. Ranges and not
            files, for a partition may lose some again and again.
        newest: the newest of them, with the reason; None where there is none.
        lost_at: when something was lost last; None where nothing was, or by a former version.
    """

    set_aside: int = 0
    lost: int = 0
    newest: str | None = None
    lost_at: datetime | None = None

    @property
    def in_words(self) -> str:
        """How many of each there are, where there are any."""
        counts = [(self.set_aside, "file", "set aside"), (self.lost, "range", "lost")]
        return ", ".join(f"{count:,} {what}{'' if count == 1 else 's'} {how}" for count, what, how in counts if count)


def read_files_not_loaded(cursor: extensions.cursor) -> dict[str, FilesNotLoaded]:
    """By pipeline; those without are left out. One query, by an index over such files alone."""
    cursor.execute(
        """
        SELECT pipeline, count(DISTINCT unit) FILTER (WHERE state = 'set aside'),
            count(*) FILTER (WHERE state = 'lost'),
            (array_agg(concat_ws(': ', unit, reason) ORDER BY range_id DESC))[1],
            max(lost_at) FILTER (WHERE state = 'lost')
        FROM freshet.source_range WHERE state IN ('set aside', 'lost') AND dismissed_at IS NULL
        GROUP BY pipeline
        """
    )
    return {pipeline: FilesNotLoaded(*counts) for pipeline, *counts in cursor.fetchall()}
