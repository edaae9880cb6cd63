"""How fresh the warehouse is: the state of every pipeline, from the warehouse alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg2 import extensions

from spark_jobs.control.drivers import Restart
from spark_jobs.definition.fates import FAILED_PLACES, PLACES
from spark_jobs.ledger.files_not_loaded import FilesNotLoaded, read_files_not_loaded
from spark_jobs.ledger.latency import Int64Array, percentile, total
from spark_jobs.ledger.status.backlog import Backlog, BacklogReader
from spark_jobs.ledger.status.driver_states import LOADING, DrivenPipeline, State, read_pipelines
from spark_jobs.ledger.status.history import HourAndDay, MinutesReader
from spark_jobs.ledger.status.lag import Lag, SourceLook, read_lags
from spark_jobs.ledger.status.ledger_reading import Ledger, LedgerReader, Stages, mean_stages
from spark_jobs.ledger.status.lookup_status import LookupStatus, lookups_of
from spark_jobs.ledger.status.operations import (
    CacheStatus,
    EpisodeStatus,
    Operations,
    ReprocessingStatus,
    ValidationStatus,
    read_operations,
)
from spark_jobs.ledger.status.overload import LOOKED_BACK, CatchingUpReader, LoadedBatch, judge
from spark_jobs.ledger.status.rejection import read_rejections
from spark_jobs.ledger.status.streams import StreamStatus, read_streams
from spark_jobs.ledger.status.verdict import Verdict, freshness_now, verdict
from spark_jobs.ledger.sums import LedgerSums

WINDOW = timedelta(seconds=60)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Freshness:
    """Time from an event to its commit, in milliseconds; None where nothing was loaded. Right to within 10 %.

    86,400,000, a day, stands for all that is longer.
    """

    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class PipelineStatus:
    """One pipeline. Times are in UTC, counts cover all its batches and reprocessing runs.

    Attributes:
        name: of the pipeline.
        state: starting (the driver gets ready), running, idle (all that has landed is loaded, and nothing comes), late
            (what is unread has waited for longer than the target), overloaded (it sheds, or does not keep its target),
            catching up (it is late with what had waited until a driver was ready), rejecting (most of the newest
            tuples became no facts), blocked (the driver lives, and something outside the events keeps it from
            loading them), draining (it ends with what has landed), stopped (it was drained, or never started),
            restarting (it has ended, and the next one is on its way), down (it has ended, has fallen silent, or
            has not come within five minutes of the start).
        epoch: the newest driver's; 0 if there never was one.
        error: why it ended, if not as it was to.
        heartbeat_age_ms: time since the driver's last sign of life.
        log_file: of the driver.
        spark_ui_url: of the driver.
        target_ms: how fresh the facts are to be.
        window_seconds: length of the window that ends now.
        freshness_window: over the facts that the stream loaded in the window. What is reprocessed is late by design,
            and does not count here nor below.
        freshness_whole: over all those facts.
        last_commit: of a batch.
        batches: closed ones.
        arrived: events, counted where they were read.
        unaccounted: by how many they are more than those that are loaded, held or pruned by the ledger's sums: 0
            unless events were lost. `freshet verify` proves it event by event.
        loaded: facts.
        shed, unmatched, rejected: events held: what the ledger counts there, less what was pruned. A negative number
            shows that the ledger is damaged.
        duplicates: events that came again.
        service_rate: facts per second that the stream loaded in the window.
        hit_ratio: share of the front stage's probes that were hits, in the window; None without probes.
        oldest_shed, oldest_unmatched: arrival of the oldest events held so.
        lookups: how the newest batch made its lookups.
        overload_reason: by what it is told that it is overloaded, late, catching up, or rejecting.
        lag: what has landed and is not loaded.
        freshness_now_ms: the older of the oldest event that is unread, by its landing, and 99 of 100 facts of the last
            15 s, by which the state is judged as well. None where nothing is known: without a driver that loads, what
            was loaded before does not count.
        freshness_hour, freshness_day: as freshness_window, over the last hour and day.
        arrival_rate: events per second in the window that were stored anywhere, duplicates not counted.
        stages_ms: where the time went in the window.
        pruned: events held once that retention has deleted.
        backlog: the held events.
        reprocessing: the newest run over held events.
        caches: of the lookups.
        validation: the newest one.
        episode: the missed freshness target that is not over yet.
        start_wanted_at: when a start was asked for that no driver has followed; None if none is expected.
        restart: the attempt to bring the driver back that is under way.
        files_not_loaded: files of its source that were set aside or lost.
        streams: of a pipeline that joins several, each; else empty.
        requeued: how many of the shed tuples were not shed for want of time: they were rejected once, or came late, and
            wait for their next try.
        blocked_by, blocked_since: what keeps a blocked driver from loading, and since when; None in all other states.
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
    files_not_loaded: FilesNotLoaded = field(default_factory=FilesNotLoaded)
    unaccounted: int = 0
    overload_reason: str | None = None
    freshness_hour: Freshness = Freshness(None, None)
    freshness_day: Freshness = Freshness(None, None)
    arrival_rate: float = 0.0
    stages_ms: Stages = field(default_factory=Stages)
    pruned: int = 0
    backlog: Backlog = field(default_factory=Backlog)
    reprocessing: ReprocessingStatus | None = None
    caches: tuple[CacheStatus, ...] = ()
    validation: ValidationStatus | None = None
    episode: EpisodeStatus | None = None
    start_wanted_at: datetime | None = None
    blocked_by: str | None = None
    blocked_since: datetime | None = None
    restart: Restart | None = None
    lag: Lag = field(default_factory=Lag)
    freshness_now_ms: float | None = None
    streams: tuple[StreamStatus, ...] = ()
    requeued: int = 0

    @property
    def put_off(self) -> int:
        """Tuples that were shed for want of time, and not loaded yet."""
        return self.shed - self.requeued

    @property
    def was_emptied(self) -> bool:
        """Whether it is stopped, and nothing was unread when it was: what has landed since nobody has seen."""
        lag = self.lag
        return self.state == "stopped" and lag.at_least and lag.looked_at is not None and lag.oldest_unread is None

    @property
    def state_in_words(self) -> str:
        """The state, and which attempt it is."""
        tries = f" (try {self.restart.number} of {self.restart.most})" if self.restart else ""
        return self.state + tries

    def to_dict(self) -> dict[str, Any]:
        """The status as plain values, for JSON; times as ISO text."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


class StatusReader:
    """Reads the status again and again: what it has read of the ledger once, it does not read again.

    A look takes about a dozen queries, however many pipelines there are.

    Args:
        window: length of the window that ends now; no shorter than what overload is told by (`LOOKED_BACK`).
        look: sees what has landed where no driver looks; None: nobody does.
    """

    def __init__(self, window: timedelta = WINDOW, look: SourceLook | None = None) -> None:
        self._window = window
        self._look = look
        self._ledgers = LedgerReader(window)
        self._minutes = MinutesReader()
        self._backlogs = BacklogReader()
        self._catching_up = CatchingUpReader()

    def read(self, connection: extensions.connection) -> list[PipelineStatus]:
        """The status of every registered pipeline, by name. One transaction; nothing is written."""
        begins = connection.info.transaction_status == extensions.TRANSACTION_STATUS_IDLE
        with connection, connection.cursor() as cursor:
            if begins:
                # All queries see the same: a batch that is closed meanwhile is neither missed nor counted twice.
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            pipelines = read_pipelines(cursor)
            return self._read(cursor, pipelines) if pipelines else []

    def _read(self, cursor: extensions.cursor, pipelines: list[DrivenPipeline]) -> list[PipelineStatus]:
        names, now = [pipeline.name for pipeline in pipelines], pipelines[0].now
        ledgers = self._ledgers.read(cursor, names, now)
        minutes = self._minutes.read(cursor, names, now)
        pruned = self._backlogs.read_pruned(cursor, now)
        held: dict[str, dict[str, int]] = {
            name: {place: getattr(ledger.whole, place) - pruned.get(name, {}).get(place, 0) for place in PLACES}
            for name, ledger in ledgers.items()
        }
        backlogs = self._backlogs.read(cursor, held, now)
        requeued = self._backlogs.read_requeued(cursor, names)
        operations = read_operations(cursor, names)
        not_loaded = read_files_not_loaded(cursor)
        streams = read_streams(cursor, names, now)
        failing = [name for name, places in held.items() if any(places[place] > 0 for place in FAILED_PLACES)]
        rejections = read_rejections(cursor, failing)
        lags = read_lags(
            cursor, pipelines, {name: ledger.whole.last_commit for name, ledger in ledgers.items()}, self._look
        )
        return [
            self._status(
                pipeline,
                ledgers[pipeline.name],
                minutes[pipeline.name],
                backlogs[pipeline.name],
                operations[pipeline.name],
                not_loaded.get(pipeline.name, FilesNotLoaded()),
                lags[pipeline.name],
                self._judged(
                    cursor,
                    pipeline,
                    ledgers[pipeline.name],
                    lags[pipeline.name],
                    rejections.get(pipeline.name),
                ),
                streams.get(pipeline.name, ()),
                requeued.get(pipeline.name, 0),
            )
            for pipeline in pipelines
        ]

    def _judged(
        self, cursor: extensions.cursor, pipeline: DrivenPipeline, ledger: Ledger, lag: Lag, rejection: str | None
    ) -> Verdict:
        """What the stream does: whether most of it is rejected, or it is late because nothing ran before."""
        lately, target = _lately(pipeline, ledger), pipeline.freshness_target
        load, waited_until = judge(lately, target), None
        is_late = lag.oldest_unread_age_ms is not None and lag.oldest_unread_age_ms * _MILLISECOND > target
        if (load.overloaded or is_late) and pipeline.started_at is not None:
            waited_until = self._catching_up.waited_until(cursor, pipeline.name, pipeline.started_at)
            load = judge(lately, target, waited_until=waited_until)
        busy = any(batch.has_landed() for batch in lately)
        return verdict(load, lag, target, busy=busy, waited_until=waited_until, rejection=rejection)

    def _status(
        self,
        pipeline: DrivenPipeline,
        ledger: Ledger,
        minutes: HourAndDay,
        backlog: Backlog,
        operations: Operations,
        not_loaded: FilesNotLoaded,
        lag: Lag,
        judged: Verdict,
        streams: tuple[StreamStatus, ...],
        requeued: int,
    ) -> PipelineStatus:
        whole = ledger.whole
        state = pipeline.state(judged.state)
        lately = _freshness(total(batch.event_latency for batch in _lately(pipeline, ledger)))
        return PipelineStatus(
            **self._rates(pipeline, ledger),
            name=pipeline.name,
            state=state,
            epoch=pipeline.epoch,
            error=pipeline.error,
            heartbeat_age_ms=None if pipeline.silence is None else pipeline.silence / _MILLISECOND,
            log_file=pipeline.log_file,
            spark_ui_url=pipeline.spark_ui_url,
            target_ms=pipeline.freshness_target / _MILLISECOND,
            window_seconds=self._window.total_seconds(),
            freshness_window=_freshness(ledger.event_latency),
            freshness_whole=_freshness(whole.freshness),
            last_commit=_in_utc(whole.last_commit),
            batches=whole.batches,
            arrived=whole.arrived,
            unaccounted=whole.unaccounted,
            loaded=whole.facts,
            shed=backlog.shed.count,
            unmatched=backlog.unmatched.count,
            rejected=backlog.rejected.count,
            duplicates=whole.duplicates,
            oldest_shed=backlog.shed.oldest,
            oldest_unmatched=backlog.unmatched.oldest,
            lookups=lookups_of(ledger.newest),
            overload_reason=judged.reason if state == judged.state else None,
            lag=lag,
            freshness_now_ms=freshness_now(lag, lately.p99_ms, loads=state in LOADING),
            freshness_hour=_freshness(minutes.hour),
            freshness_day=_freshness(minutes.day),
            stages_ms=mean_stages(ledger),
            pruned=_held(whole) - sum(getattr(backlog, place).count for place in PLACES),
            backlog=backlog,
            reprocessing=operations.reprocessing,
            caches=operations.caches,
            validation=operations.validation,
            episode=operations.episode,
            start_wanted_at=_in_utc(pipeline.start_wanted_at),
            blocked_by=pipeline.blocked_by if state == "blocked" else None,
            blocked_since=_in_utc(pipeline.blocked_since) if state == "blocked" else None,
            restart=pipeline.restart if state == "restarting" else None,
            files_not_loaded=not_loaded,
            streams=streams,
            requeued=requeued,
        )

    def _rates(self, pipeline: DrivenPipeline, ledger: Ledger) -> dict[str, Any]:
        """What the stream did in the window, per second and per probe."""
        recent, seconds = ledger.recent, self._seconds(pipeline, ledger)
        probes = sum(batch.probes for batch in recent)
        return {
            "arrival_rate": sum(batch.arrived for batch in recent) / seconds,
            "service_rate": sum(batch.facts for batch in recent) / seconds,
            "hit_ratio": sum(batch.hits for batch in recent) / probes if probes else None,
        }

    def _seconds(self, pipeline: DrivenPipeline, ledger: Ledger) -> float:
        """How much of the window the pipeline has lived through."""
        if ledger.filled or not ledger.recent:
            return self._window.total_seconds()
        return min((pipeline.now - ledger.recent[0].started_at).total_seconds(), self._window.total_seconds())


def read_status(
    connection: extensions.connection, window: timedelta = WINDOW, look: SourceLook | None = None
) -> list[PipelineStatus]:
    """The status of every registered pipeline, by name.

    To read it again and again, keep a `StatusReader`, which has the same arguments: it reads only what is new.
    """
    return StatusReader(window, look).read(connection)


def to_json(statuses: Sequence[PipelineStatus]) -> str:
    """The status of several pipelines as JSON text: a list of objects."""
    return json.dumps([status.to_dict() for status in statuses], indent=2)


def _freshness(histogram: Int64Array) -> Freshness:
    shares = (percentile(histogram, fraction) for fraction in (0.5, 0.99))
    p50, p99 = (None if seconds is None else round(seconds * 1000, 1) for seconds in shares)
    return Freshness(p50, p99)


def _in_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)


def _held(sums: LedgerSums) -> int:
    return sum(getattr(sums, place) for place in PLACES)


def _lately(pipeline: DrivenPipeline, ledger: Ledger) -> list[LoadedBatch]:
    """The committed batches by which the stream is judged."""
    return [
        LoadedBatch(batch.closed_at, batch.shed, batch.event_latency, batch.arrival_latency)
        for batch in ledger.recent
        if batch.state == "committed" and batch.closed_at > pipeline.now - LOOKED_BACK
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
