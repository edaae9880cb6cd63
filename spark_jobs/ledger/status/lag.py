"""Lag: what has landed in a pipeline's source and is not loaded yet, told by its driver's looks and by the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.byte_sizes import format_bytes
from spark_jobs.definition.joined_tuple import STREAM_SEPARATOR
from spark_jobs.durations import format_duration
from spark_jobs.ledger.source_ranges import IS_OF_LOG
from spark_jobs.ledger.status.driver_states import DrivenPipeline
from spark_jobs.ledger.unread import PartitionLag, Unread

# A driver looks at its source between two batches. More may have landed since a look that is older than this.
LOOK_HOLDS = timedelta(seconds=10)
_MILLISECOND = timedelta(milliseconds=1)

SourceLook = Callable[[extensions.cursor, DrivenPipeline], Unread | None]
"""Looks at the source of a pipeline whose driver does not, or not now; None where it can't see it, or not in time."""


@dataclass(frozen=True)
class Lag:
    """What has landed and can't be read as facts yet.

    Attributes:
        unread_files: how many files and partitions of topics, those included that the open batch reads.
        unread_bytes: how much that is; of a topic, an estimate.
        oldest_unread: when the oldest of it landed; None where nothing is unread.
        oldest_unread_age_ms: time since then, by the warehouse's clock.
        looked_at: when the source was looked at last; None: never.
        look_age_ms: time since then.
        at_least: whether more may have landed since, which nobody has seen.
        commit_age_ms: time since the last commit of a batch; None: there was none.
        partitions: of topics, what is unread of each as of the last look; what the open batch reads is not.
    """

    unread_files: int = 0
    unread_bytes: int = 0
    oldest_unread: datetime | None = None
    oldest_unread_age_ms: float | None = None
    looked_at: datetime | None = None
    look_age_ms: float | None = None
    at_least: bool = True
    commit_age_ms: float | None = None
    partitions: tuple[PartitionLag, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether all that has landed is loaded, for sure."""
        return self.oldest_unread is None and not self.at_least

    @property
    def files_in_words(self) -> str:
        """How many files, partitions, or both are unread; "unknown" where nobody looks, and nothing had been left."""
        if self.oldest_unread is None:
            return "unknown" if self.at_least else "none"
        more = "at least " if self.at_least else ""
        plural = "" if self.unread_files == 1 else "s"
        kind = f"partition{plural}" if self.partitions else f"file{plural}"
        if any(STREAM_SEPARATOR in each.partition for each in self.partitions):
            kind = f"file{plural} or {kind}"  # of several streams, one may be a folder
        return f"{more}{self.unread_files:,} {kind}"

    @property
    def in_words(self) -> str:
        """All of it in a few words."""
        if self.oldest_unread_age_ms is not None:
            oldest = format_duration(self.oldest_unread_age_ms * _MILLISECOND)
            return f"{self.files_in_words} ({format_bytes(self.unread_bytes)}), the oldest for {oldest}"
        if not self.at_least or self.look_age_ms is None:
            return self.files_in_words
        return f"unknown for {format_duration(self.look_age_ms * _MILLISECOND)}"


class _Planned(NamedTuple):
    """What the open batches of a pipeline read: files to their end, partitions, bytes, and when the oldest landed."""

    files: int
    partitions: int
    bytes: int
    landed_at: datetime | None


def read_lags(
    cursor: extensions.cursor,
    pipelines: Sequence[DrivenPipeline],
    last_commits: Mapping[str, datetime | None],
    look: SourceLook | None,
) -> dict[str, Lag]:
    """The lag of each of these pipelines. One query for all of them, and what looks take.

    Args:
        cursor: to the warehouse.
        pipelines: as they are now.
        last_commits: when the last batch of each was committed.
        look: sees what has landed where no driver looks; None: nobody does.
    """
    planned = _read_planned(cursor, [pipeline.name for pipeline in pipelines])
    lags = {}
    for pipeline in pipelines:
        own = look(cursor, pipeline) if look is not None and not _is_looked_at(pipeline) else None
        lags[pipeline.name] = _lag(pipeline, planned[pipeline.name], last_commits.get(pipeline.name), own)
    return lags


def _is_looked_at(pipeline: DrivenPipeline) -> bool:
    """Whether its driver looks at its source, which it does between two batches."""
    return pipeline.lives and pipeline.looked_at is not None and pipeline.now - pipeline.looked_at <= LOOK_HOLDS


def _lag(pipeline: DrivenPipeline, planned: _Planned, last_commit: datetime | None, own: Unread | None) -> Lag:
    """The lag of a pipeline; `own` is what was seen just now, where its driver does not look, or not now."""
    now = pipeline.now
    if own is None:
        files, partitions = pipeline.unread_files or 0, pipeline.unread_partitions or 0
        size, landed_at, looked_at = pipeline.unread_bytes or 0, pipeline.unread_since, pipeline.looked_at
    else:
        files, partitions = own.files, own.unread_partitions
        size, landed_at, looked_at = own.bytes, own.landed_at, now - own.age
    oldest = min((at for at in (landed_at, planned.landed_at) if at is not None), default=None)
    return Lag(
        # Of a partition, what waits follows on what a batch reads: it counts once.
        unread_files=files + planned.files + max(partitions, planned.partitions),
        unread_bytes=size + planned.bytes,
        oldest_unread=None if oldest is None else oldest.astimezone(UTC),
        oldest_unread_age_ms=None if oldest is None else max((now - oldest) / _MILLISECOND, 0.0),
        looked_at=None if looked_at is None else looked_at.astimezone(UTC),
        look_age_ms=None if looked_at is None else max((now - looked_at) / _MILLISECOND, 0.0),
        at_least=own is None and not _is_looked_at(pipeline),
        commit_age_ms=None if last_commit is None else max((now - last_commit) / _MILLISECOND, 0.0),
        partitions=tuple(PartitionLag(**each) for each in pipeline.partitions or ()),
    )


def _read_planned(cursor: extensions.cursor, pipelines: Sequence[str]) -> dict[str, _Planned]:
    # Of a file that is cut, the batch that reads its end counts it: until then it counts among those that wait.
    cursor.execute(
        f"""
        SELECT name, planned.* FROM unnest(%s::text[]) AS known (name) CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE last IS NOT DISTINCT FROM size AND NOT {IS_OF_LOG}),
                count(DISTINCT unit) FILTER (WHERE {IS_OF_LOG}),
                coalesce(sum(CASE WHEN {IS_OF_LOG} THEN size ELSE last - first END), 0)::bigint, min(landed_at)
            FROM freshet.source_range WHERE pipeline = known.name AND state = 'planned') AS planned
        """,
        [list(pipelines)],
    )
    return {name: _Planned(*row) for name, *row in cursor.fetchall()}
