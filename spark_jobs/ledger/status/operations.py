"""What operates on a pipeline beside its stream: reprocessing, caches, validation, freshness alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg2 import extensions

from spark_jobs.control.work_under_way import DRIVER_DIED, RUN_STATE, VALIDATION_RESULT
from spark_jobs.lookup.changes.staleness import STALENESS

_MILLISECOND = timedelta(milliseconds=1)
_OF_EACH = "FROM unnest(%s::text[]) AS known (name) CROSS JOIN LATERAL"


@dataclass(frozen=True)
class ReprocessingStatus:
    """The newest reprocessing run. Counts are what it has changed so far: facts up, unmatched down or up.

    Attributes:
        batch_no: its number.
        state: running, finished, yielded (the stream needed the warehouse), failed, abandoned (it was asked to end, or
            its driver has died).
        closed_at: when it ended; if its driver has died and that is not noted yet, its last heartbeat.
        due: tuples to be done: those due when it began, more where more became due while it ran.
        taken: tuples of them that it is done with.
        airflow_run: id of the DAG run that asked for it.
    """

    batch_no: int
    state: str
    started_at: datetime
    closed_at: datetime | None
    due: int
    taken: int
    facts: int
    unmatched: int
    rejected: int
    algorithm: str
    error: str | None
    airflow_run: str | None


@dataclass(frozen=True)
class CacheStatus:
    """What one lookup's front stage and copy of R hold, as its driver tells.

    Attributes:
        watched: by what changes of R are noticed: triggers, rereading, nothing.
        staleness_ms: age of the oldest change of R that has not reached it; None where nothing is noticed.
        notice_changes_ms: within which time changes are to be noticed.
        refused: why the newest version on disk is not used.
    """

    lookup: int
    relation: str
    version: int
    origin: str | None
    hot_tuples: int
    built_at: datetime | None
    rebuilt_at: datetime | None
    snapshot_version: int | None
    snapshot_at: datetime | None
    watched: str
    staleness_ms: float | None
    notice_changes_ms: float
    refused: str | None


@dataclass(frozen=True)
class ValidationStatus:
    """The newest validation with a result: one that runs, was cut off or had no facts does not hide it.

    Attributes:
        result: passed, failed, error; if there has never been one: running, cut off, or no data.
        scope: which facts were looked at, in words.
        facts: how many those were.
        expectations, failed: how many were checked, and failed.
        failures: what the failed ones say.
        page: Data Docs page, relative to the pipeline's folder of them.
        running_since: when the one began that is at work; None where none is.
    """

    validation_id: int
    result: str
    scope: str
    facts: int | None
    expectations: int | None
    failed: int | None
    failures: tuple[str, ...]
    started_at: datetime
    closed_at: datetime | None
    error: str | None
    page: str | None
    airflow_run: str | None
    running_since: datetime | None


@dataclass(frozen=True)
class EpisodeStatus:
    """The time, not over yet, during which the pipeline misses its freshness target."""

    began_at: datetime
    reason: str
    alerted_at: datetime | None


@dataclass(frozen=True)
class Operations:
    """What operates on one pipeline; None where there was or is nothing.

    Attributes:
        reprocessing: the newest run over held events.
        caches: of the lookups.
        validation: the newest one.
        episode: the one that is open.
    """

    reprocessing: ReprocessingStatus | None
    caches: tuple[CacheStatus, ...]
    validation: ValidationStatus | None
    episode: EpisodeStatus | None


def read_operations(cursor: extensions.cursor, pipelines: Sequence[str]) -> dict[str, Operations]:
    """What operates on each of these pipelines."""
    reprocessing, caches = _read_reprocessing(cursor, pipelines), _read_caches(cursor, pipelines)
    validations, episodes = _read_validations(cursor, pipelines), _read_episodes(cursor, pipelines)
    return {
        name: Operations(reprocessing.get(name), caches.get(name, ()), validations.get(name), episodes.get(name))
        for name in pipelines
    }


def _read_reprocessing(cursor: extensions.cursor, pipelines: Sequence[str]) -> dict[str, ReprocessingStatus]:
    """The newest reprocessing run of each of these pipelines that has had one."""
    cursor.execute(
        f"""
        SELECT run.* {_OF_EACH} (
            SELECT pipeline, batch_no, {RUN_STATE} AS state, started_at,
                coalesce(closed_at, CASE {RUN_STATE} WHEN 'abandoned' THEN heartbeat_at END), due, taken, facts,
                unmatched, rejected, algorithm,
                coalesce(error, CASE WHEN closed_at IS NULL AND {RUN_STATE} = 'abandoned' THEN %s END), airflow_run
            FROM freshet.reprocessing_run WHERE pipeline = known.name ORDER BY batch_no DESC LIMIT 1) AS run
        """,
        [list(pipelines), DRIVER_DIED],
    )
    return {pipeline: ReprocessingStatus(*_in_utc(row)) for pipeline, *row in cursor.fetchall()}


def _read_caches(cursor: extensions.cursor, pipelines: Sequence[str]) -> dict[str, tuple[CacheStatus, ...]]:
    """The caches of each of these pipelines, by lookup."""
    cursor.execute(
        f"""
        SELECT pipeline, lookup, relation, version, origin, hot_tuples, built_at, rebuilt_at, snapshot_version,
            snapshot_at, watched, {STALENESS}, notice_changes, refused
        FROM freshet.cache WHERE pipeline = ANY (%s) ORDER BY pipeline, lookup
        """,
        [list(pipelines)],
    )
    caches: dict[str, tuple[CacheStatus, ...]] = {}
    for pipeline, *row, staleness, notice_changes, refused in cursor.fetchall():
        # Changes of transactions that are still open have no clock of their own: they count from when they were made.
        stale = None if staleness is None else max(staleness / _MILLISECOND, 0.0)
        cache = CacheStatus(*(*_in_utc(row), stale, notice_changes / _MILLISECOND, refused))
        caches[pipeline] = (*caches.get(pipeline, ()), cache)
    return caches


def _read_validations(cursor: extensions.cursor, pipelines: Sequence[str]) -> dict[str, ValidationStatus]:
    """The newest validation of each of these pipelines that came to a result; another where none did."""
    cursor.execute(
        f"""
        SELECT newest.* {_OF_EACH} (
            SELECT pipeline, validation_id, {VALIDATION_RESULT}, scope, facts, expectations, failed,
                ARRAY (SELECT coalesce(message, expectation) FROM freshet.validation_result AS result
                       WHERE result.validation_id = validation.validation_id AND NOT passed ORDER BY number),
                started_at, closed_at, error, page, airflow_run,
                (SELECT max(started_at) FROM freshet.validation
                 WHERE pipeline = known.name AND {VALIDATION_RESULT} = 'running')
            FROM freshet.validation WHERE pipeline = known.name
            ORDER BY result = 'no data', result IN ('running', 'cut off'), validation_id DESC LIMIT 1) AS newest
        """,
        [list(pipelines)],
    )
    found = {}
    for pipeline, *row in cursor.fetchall():
        head, failures, tail = row[:6], row[6], row[7:]
        found[pipeline] = ValidationStatus(*(*head, tuple(failures), *_in_utc(tail)))
    return found


def _read_episodes(cursor: extensions.cursor, pipelines: Sequence[str]) -> dict[str, EpisodeStatus]:
    """The open episodes of these pipelines."""
    cursor.execute(
        "SELECT pipeline, began_at, reason, alerted_at FROM freshet.freshness_episode "
        "WHERE recovered_at IS NULL AND pipeline = ANY (%s)",
        [list(pipelines)],
    )
    return {pipeline: EpisodeStatus(*_in_utc(row)) for pipeline, *row in cursor.fetchall()}


def _in_utc(row: Sequence[Any]) -> list[Any]:
    return [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row]
