"""Sends the pipelines' figures as gauges to where Airflow sends its metrics: statsd, Datadog or OpenTelemetry."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

# The one that the triggerer has initialized; airflow.sdk has another one, for tasks.
from airflow.observability import stats

if TYPE_CHECKING:
    from spark_jobs.ledger.status.pipeline_status import PipelineStatus

SECONDS = 10.0
_STATES = {
    "stopped": 0,
    "starting": 1,
    "running": 2,
    "draining": 3,
    "overloaded": 4,
    "down": 5,
    "blocked": 6,
    "restarting": 7,
    "catching up": 8,
    "late": 9,
    "idle": 10,
}


class FreshnessMetrics:
    """Sends `freshet.<pipeline>.<gauge>` for each pipeline, every ten seconds at most.

    Gauges: unread_files, unread_bytes, oldest_unread_ms (0 without any; nobody having looked, none is sent but what is
    known to be there), since_commit_ms, freshness_now_ms, freshness_p50_ms, freshness_p99_ms, freshness_target_ms,
    arrival_rate, service_rate, hit_ratio, backlog_shed, backlog_unmatched, backlog_rejected, staleness_ms (of the
    stalest cache) and state (stopped 0, starting 1, running 2, draining 3, overloaded 4, down 5, blocked 6,
    restarting 7, catching up 8, late 9, idle 10). What is not known at the moment is not sent.
    """

    def __init__(self) -> None:
        self._due_at = 0.0

    def send(self, statuses: Iterable[PipelineStatus]) -> None:
        """Send the gauges if it is time."""
        if time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + SECONDS
        for status in statuses:
            for gauge, value in gauges(status).items():
                stats.gauge(f"freshet.{status.name}.{gauge}", value)


def gauges(status: PipelineStatus) -> dict[str, float]:
    """The gauges of one pipeline, by name."""
    staleness = [cache.staleness_ms for cache in status.caches if cache.staleness_ms is not None]
    lag = status.lag
    knows_lag = lag.oldest_unread is not None or lag.is_nothing
    values = {
        "unread_files": lag.unread_files if knows_lag else None,
        "unread_bytes": lag.unread_bytes if knows_lag else None,
        "oldest_unread_ms": 0.0 if lag.is_nothing else lag.oldest_unread_age_ms,
        "since_commit_ms": lag.commit_age_ms,
        "freshness_now_ms": status.freshness_now_ms,
        "freshness_p50_ms": status.freshness_window.p50_ms,
        "freshness_p99_ms": status.freshness_window.p99_ms,
        "freshness_target_ms": status.target_ms,
        "arrival_rate": status.arrival_rate,
        "service_rate": status.service_rate,
        "hit_ratio": status.hit_ratio,
        "backlog_shed": status.backlog.shed.count,
        "backlog_unmatched": status.backlog.unmatched.count,
        "backlog_rejected": status.backlog.rejected.count,
        "staleness_ms": max(staleness, default=None),
        "state": _STATES[status.state],
    }
    return {gauge: value for gauge, value in values.items() if value is not None}
