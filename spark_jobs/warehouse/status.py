"""How fresh the warehouse is: the state of every pipeline, from the warehouse alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from psycopg2 import extensions

from spark_jobs.warehouse.drivers import MAX_SILENCE
from spark_jobs.warehouse.latency import percentile
from spark_jobs.warehouse.status_ledger import LedgerSums, last_batch_before, open_sums, sums_since

State = Literal["starting", "running", "draining", "stopped", "down"]

WINDOW = timedelta(seconds=60)
# A driver that has not renewed its first heartbeat is still getting ready.
_FIRST_HEARTBEAT = timedelta(seconds=1)


@dataclass(frozen=True)
class Freshness:
    """Time from an event to its commit, in milliseconds; None where nothing was loaded. Right to within 10 %."""

    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class LookupStatus:
    """How the newest batch made one lookup, and why in this way."""

    relation: str
    algorithm: str | None
    reason: str | None


@dataclass(frozen=True)
class PipelineStatus:
    """One pipeline. Times are in UTC, counts cover all its batches.

    Attributes:
        name: of the pipeline.
        state: starting (the driver gets ready), running, draining (it ends with what has landed), stopped (it was
            drained, or never started), down (it failed, or has fallen silent).
        epoch: the newest driver's; 0 if there never was one.
        error: why it failed.
        heartbeat_age_ms: time since the driver's last sign of life.
        log_file: of the driver.
        spark_ui_url: of the driver.
        target_ms: how fresh the facts are to be.
        window_seconds: length of the window that ends now.
        freshness_window: over the facts of the window.
        freshness_whole: over all facts.
        last_commit: of a batch.
        batches: closed ones.
        arrived: events stored anywhere: loaded + shed + unmatched + rejected.
        loaded: facts.
        shed, unmatched, rejected: events held.
        duplicates: events that came again.
        service_rate: facts per second in the window.
        hit_ratio: share of the front stage's probes that were hits, in the window; None without probes.
        oldest_shed, oldest_unmatched: arrival of the oldest events held so.
        lookups: how the newest batch made its lookups.
    """

    name: str
    state: State
    epoch: int
    error: str | None
    heartbeat_age_ms: float | None
    log_file: str | None
    spark_ui_url: str | None
    target_ms: float
    window_seconds: float
    freshness_window: Freshness
    freshness_whole: Freshness
    last_commit: datetime | None
    batches: int
    arrived: int
    loaded: int
    shed: int
    unmatched: int
    rejected: int
    duplicates: int
    service_rate: float
    hit_ratio: float | None
    oldest_shed: datetime | None
    oldest_unmatched: datetime | None
    lookups: tuple[LookupStatus, ...]

    def to_dict(self) -> dict[str, Any]:
        """The status as plain values, for JSON."""
        return {
            name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(self).items()
        }


class StatusReader:
    """Reads the status again and again: what it has read of the ledger once, it does not read again.

    Args:
        window: length of the window that ends now.
    """

    def __init__(self, window: timedelta = WINDOW) -> None:
        self._window = window
        self._closed: dict[str, LedgerSums] = {}

    def read(self, connection: extensions.connection) -> list[PipelineStatus]:
        """The status of every registered pipeline, by name. One transaction; nothing is written."""
        with connection, connection.cursor() as cursor:
            return [self._read_one(cursor, pipeline) for pipeline in _read_pipelines(cursor)]

    def _read_one(self, cursor: extensions.cursor, pipeline: _Pipeline) -> PipelineStatus:
        name = pipeline.name
        closed = self._closed.get(name, LedgerSums())
        closed += sums_since(cursor, name, closed.last_batch)
        self._closed[name] = closed
        before = last_batch_before(cursor, name, self._window)
        recent = sums_since(cursor, name, before)
        seconds = self._seconds(pipeline, recent, filled=before > 0)
        return _status(cursor, pipeline, closed + open_sums(cursor, name), recent, self._window, seconds)

    def _seconds(self, pipeline: _Pipeline, recent: LedgerSums, *, filled: bool) -> float:
        """How much of the window the pipeline has lived through."""
        if filled or recent.first_started is None:
            return self._window.total_seconds()
        return min((pipeline.now - recent.first_started).total_seconds(), self._window.total_seconds())


def read_status(connection: extensions.connection, window: timedelta = WINDOW) -> list[PipelineStatus]:
    """The status of every registered pipeline, by name.

    Whoever asks again and again keeps a `StatusReader`: that reads only what is new.
    """
    return StatusReader(window).read(connection)


def to_json(statuses: Sequence[PipelineStatus]) -> str:
    """The status of several pipelines as JSON text: a list of objects."""
    return json.dumps([status.to_dict() for status in statuses], indent=2)


class _Pipeline(NamedTuple):
    """A pipeline and its newest driver, whose columns are None if there never was one."""

    name: str
    epoch: int
    desired_state: str
    freshness_target: timedelta
    driver_state: str | None
    started_at: datetime | None
    heartbeat_at: datetime | None
    error: str | None
    log_file: str | None
    spark_ui_url: str | None
    now: datetime


def _read_pipelines(cursor: extensions.cursor) -> list[_Pipeline]:
    cursor.execute(
        """
        SELECT name, pipeline.epoch, desired_state, freshness_target, driver.state, started_at, heartbeat_at, error,
            log_file, spark_ui_url, clock_timestamp()
        FROM freshet.pipeline LEFT JOIN freshet.driver ON driver.pipeline = name AND driver.epoch = pipeline.epoch
        ORDER BY name
        """
    )
    return [_Pipeline(*row) for row in cursor.fetchall()]


def _status(
    cursor: extensions.cursor,
    pipeline: _Pipeline,
    whole: LedgerSums,
    recent: LedgerSums,
    window: timedelta,
    seconds: float,
) -> PipelineStatus:
    silence = None if pipeline.heartbeat_at is None else pipeline.now - pipeline.heartbeat_at
    return PipelineStatus(
        name=pipeline.name,
        state=_state(pipeline),
        epoch=pipeline.epoch,
        error=pipeline.error,
        heartbeat_age_ms=None if silence is None else silence / timedelta(milliseconds=1),
        log_file=pipeline.log_file,
        spark_ui_url=pipeline.spark_ui_url,
        target_ms=pipeline.freshness_target / timedelta(milliseconds=1),
        window_seconds=window.total_seconds(),
        freshness_window=_freshness(recent),
        freshness_whole=_freshness(whole),
        last_commit=_utc(whole.last_commit),
        batches=whole.batches,
        arrived=whole.arrived,
        loaded=whole.facts,
        shed=whole.shed,
        unmatched=whole.unmatched,
        rejected=whole.rejected,
        duplicates=whole.duplicates,
        service_rate=recent.facts / seconds if seconds else 0.0,
        hit_ratio=recent.hits / recent.probes if recent.probes else None,
        oldest_shed=_oldest(cursor, pipeline.name, "shed") if whole.shed else None,
        oldest_unmatched=_oldest(cursor, pipeline.name, "unmatched") if whole.unmatched else None,
        lookups=_read_lookups(cursor, pipeline.name),
    )


def _state(pipeline: _Pipeline) -> State:
    if pipeline.driver_state is None or pipeline.driver_state == "stopped":
        return "stopped"
    assert pipeline.started_at is not None
    assert pipeline.heartbeat_at is not None
    if pipeline.driver_state != "running" or pipeline.now - pipeline.heartbeat_at > MAX_SILENCE:
        return "down"
    if pipeline.heartbeat_at - pipeline.started_at < _FIRST_HEARTBEAT:
        return "starting"
    return "draining" if pipeline.desired_state == "draining" else "running"


def _freshness(sums: LedgerSums) -> Freshness:
    shares = (percentile(sums.freshness, fraction) for fraction in (0.5, 0.99))
    p50, p99 = (None if seconds is None else round(seconds * 1000, 1) for seconds in shares)
    return Freshness(p50, p99)


def _oldest(cursor: extensions.cursor, pipeline: str, place: str) -> datetime | None:
    """Arrival of the oldest event held in this place: it is in the first batch that holds one."""
    cursor.execute(
        """
        SELECT min(arrived_at) FROM freshet.held_tuple
        WHERE pipeline = %(pipeline)s AND place = %(place)s AND batch_no = (
            SELECT batch_no FROM freshet.held_tuple WHERE pipeline = %(pipeline)s AND place = %(place)s
            ORDER BY batch_no LIMIT 1)
        """,
        {"pipeline": pipeline, "place": place},
    )
    row = cursor.fetchone()
    return _utc(row[0]) if row else None


def _read_lookups(cursor: extensions.cursor, pipeline: str) -> tuple[LookupStatus, ...]:
    cursor.execute(
        "SELECT statistics -> 'lookups' FROM freshet.batch WHERE pipeline = %s AND state = 'committed' "
        "ORDER BY batch_no DESC LIMIT 1",
        [pipeline],
    )
    row = cursor.fetchone()
    return tuple(
        LookupStatus(lookup["relation"], lookup.get("algorithm"), lookup.get("reason"))
        for lookup in (row[0] if row else None) or []
    )


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
