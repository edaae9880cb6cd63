"""Whether a file was passed over: the source takes files in the order of when they were changed, of those it sees."""

from __future__ import annotations

from bisect import bisect_right

from psycopg2 import extensions

from spark_jobs.proof.landing import LandedFile

# A batch is opened some time after its source was looked through, by the clock of another machine perhaps.
_GRACE_NS = 10_000_000_000

# Of each batch the file that the source takes last of those that it begins.
_BEGUN = """
    SELECT DISTINCT ON (batch_no) extract(epoch FROM started_at) * 1e9, modified_ns, unit
    FROM freshet.source_range JOIN freshet.batch USING (batch_no)
    WHERE source_range.pipeline = %s AND first = 0 AND modified_ns IS NOT NULL
    ORDER BY batch_no, modified_ns DESC, unit DESC
"""


class PlannedFiles:
    """The files that batches have taken, and when.

    Args:
        cursor: in the proof's transaction.
        pipeline: its name.
    """

    def __init__(self, cursor: extensions.cursor, pipeline: str) -> None:
        cursor.execute(_BEGUN, [pipeline])
        batches = sorted(((int(started), (modified_ns, unit)) for started, modified_ns, unit in cursor), reverse=True)
        self._started: list[int] = []
        self._last_since: list[tuple[int, str]] = []
        for started, last in batches:
            self._started.append(-started)
            self._last_since.append(max(last, self._last_since[-1]) if self._last_since else last)

    def passed_over(self, file: LandedFile) -> bool:
        """Whether a batch that was opened after the file had come took one that comes after it instead. O(log n)."""
        later = bisect_right(self._started, -(file.came_ns + _GRACE_NS))
        return later > 0 and self._last_since[later - 1] > (file.modified_ns, file.unit)
