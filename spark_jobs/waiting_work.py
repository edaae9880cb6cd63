"""What waits to be done about each pipeline: facts to validate, tuples to reprocess, an open batch, alerts to tell."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from psycopg2 import extensions
from pydantic import ValidationError

from spark_jobs.control.freshness_episodes import Episode, read_untold
from spark_jobs.control.work_under_way import RUN_STATE
from spark_jobs.definition import Lookup, PipelineDefinition
from spark_jobs.definition.correlation import Correlate
from spark_jobs.definition.operation import Freshness, Reprocessing, Validation
from spark_jobs.ledger.status.lag import SourceLook
from spark_jobs.ledger.status.pipeline_status import PipelineStatus, StatusReader
from spark_jobs.reprocessing.due_tuples import due_now

# Where many tuples wait and none is due, to learn that takes a look at each of them.
_DUE_READ_EVERY = timedelta(seconds=10)

_READ = f"""
    SELECT name, definition, clock_timestamp(),
        (SELECT min(started_at) FROM freshet.batch WHERE pipeline = name AND state = 'started'),
        least(
            (SELECT closed_at FROM freshet.batch
             WHERE pipeline = name AND validation_id IS NULL AND state <> 'started' AND facts > 0
             ORDER BY batch_no LIMIT 1),
            (SELECT min(closed_at) FROM freshet.reprocessing_run
             WHERE pipeline = name AND validation_id IS NULL AND state <> 'running' AND facts > 0)),
        EXISTS (SELECT FROM freshet.reprocessing_run WHERE pipeline = name AND {RUN_STATE} = 'running')
    FROM freshet.pipeline
"""


@dataclass(frozen=True)
class WaitingWork:
    """What waits to be done about one pipeline.

    Attributes:
        read_at: by the warehouse's clock.
        status: its figures.
        validated_every: how long its facts may wait to be validated.
        grace: how long its freshness target may be missed before an alert is raised.
        unvalidated_since: when the oldest facts were loaded that no validation has looked at; None without any.
        due: whether tuples are due to be reprocessed.
        reprocessing: whether a run is under way that does so.
        open_since: when the batch that is open now was begun; None without one.
        episodes: missed freshness targets that are not over, or of which not all has been told; oldest first.
    """

    read_at: datetime
    status: PipelineStatus
    validated_every: timedelta
    grace: timedelta
    unvalidated_since: datetime | None = None
    due: bool = False
    reprocessing: bool = False
    open_since: datetime | None = None
    episodes: tuple[Episode, ...] = ()


class WaitingWorkReader:
    """Reads what waits to be done about all pipelines, again and again.

    Args:
        window: over which rates and freshness are taken.
        look: sees what has landed where no driver looks; None: nobody does.
    """

    def __init__(self, window: timedelta, look: SourceLook | None = None) -> None:
        self._statuses = StatusReader(window, look)
        self._settings: dict[str, tuple[Any, _Settings]] = {}
        self._due: dict[str, tuple[datetime, bool]] = {}

    def read(self, connection: extensions.connection) -> dict[str, WaitingWork]:
        """What waits to be done about every registered pipeline, by name."""
        statuses = {status.name: status for status in self._statuses.read(connection)}
        with connection, connection.cursor() as cursor:
            cursor.execute(_READ)
            rows = [row for row in cursor.fetchall() if row[0] in statuses]
            episodes = read_untold(cursor)
            waiting_work = {}
            for name, definition, now, open_since, unvalidated_since, reprocessing in rows:
                settings = self._settings_of(name, definition)
                due = self._is_due(cursor, statuses[name], settings, now)
                waiting_work[name] = WaitingWork(
                    now,
                    statuses[name],
                    settings.validated_every,
                    settings.grace,
                    unvalidated_since,
                    due,
                    reprocessing,
                    open_since,
                    tuple(episodes.get(name, ())),
                )
        return waiting_work

    def _settings_of(self, pipeline: str, definition: Any) -> _Settings:
        known = self._settings.get(pipeline)
        if known is None or known[0] != definition:
            known = self._settings[pipeline] = (definition, _settings(definition))
        return known[1]

    def _is_due(self, cursor: extensions.cursor, status: PipelineStatus, settings: _Settings, now: datetime) -> bool:
        may_be_late = status.rejected if settings.correlate is not None else 0
        if not status.shed and not status.unmatched and not may_be_late:
            return False
        read_at, due = self._due.get(status.name, (None, False))
        if read_at is None or now - read_at >= _DUE_READ_EVERY:
            due = due_now(cursor, status.name, settings.lookups, settings.first_pause, settings.correlate)
            self._due[status.name] = (now, due)
        return due


class _Settings(NamedTuple):
    validated_every: timedelta
    grace: timedelta
    lookups: tuple[Lookup, ...]
    first_pause: timedelta
    correlate: Correlate | None


def _settings(definition: Any) -> _Settings:
    """What counts of a definition; the defaults, where another version of Freshet has registered it."""
    try:
        registered = PipelineDefinition.model_validate(definition)
    except ValidationError:
        return _Settings(Validation().every, Freshness().grace, (), Reprocessing().first_pause, None)
    return _Settings(
        registered.validation.every,
        registered.freshness.grace,
        registered.lookups,
        registered.reprocessing.first_pause,
        registered.correlate,
    )
