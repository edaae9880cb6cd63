"""The figures of a pipeline that monitoring systems keep: one list for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:  # Airflow reads this file with each DAG file
    from spark_jobs.ledger.status.driver_states import State
    from spark_jobs.ledger.status.pipeline_status import PipelineStatus

# In the order of the numbers that dashboards know them by: a new one comes last.
STATES: tuple[State, ...] = (
    "stopped",
    "starting",
    "running",
    "draining",
    "overloaded",
    "down",
    "blocked",
    "restarting",
    "catching up",
    "late",
    "idle",
    "rejecting",
)
Read = Callable[["PipelineStatus"], float | None]


class Figure(NamedTuple):
    """A number that is told of each pipeline.

    Attributes:
        name: its unit last, where it has one: `ms`.
        about: what it tells.
        read: takes it from the status; None while it is not known.
        kind: a counter only grows.
    """

    name: str
    about: str
    read: Read
    kind: Literal["gauge", "counter"] = "gauge"


def _of_lag(read: Read) -> Read:
    """Known where somebody looks at the source, or something is known to be there."""
    return lambda status: read(status) if status.lag.oldest_unread is not None or status.lag.is_nothing else None


def _staleness(status: PipelineStatus) -> float | None:
    return max((cache.staleness_ms for cache in status.caches if cache.staleness_ms is not None), default=None)


def _lost_at(status: PipelineStatus) -> float | None:
    lost_at = status.files_not_loaded.lost_at
    return None if lost_at is None else lost_at.timestamp() * 1000


FIGURES = (
    Figure(
        "unread_files",
        "Files, or partitions of a topic, that are not all loaded.",
        _of_lag(lambda s: s.lag.unread_files),
    ),
    Figure("unread_bytes", "Their bytes.", _of_lag(lambda s: s.lag.unread_bytes)),
    Figure(
        "oldest_unread_ms",
        "For how long the oldest of them has waited; 0 without any.",
        lambda s: 0.0 if s.lag.is_nothing else s.lag.oldest_unread_age_ms,
    ),
    Figure("since_commit_ms", "Time since the last commit of a batch.", lambda s: s.lag.commit_age_ms),
    Figure("freshness_now_ms", "How far the warehouse is behind the events.", lambda s: s.freshness_now_ms),
    Figure("freshness_p50_ms", "From event to commit, half of the last facts.", lambda s: s.freshness_window.p50_ms),
    Figure(
        "freshness_p99_ms", "From event to commit, 99 of 100 of the last facts.", lambda s: s.freshness_window.p99_ms
    ),
    Figure("freshness_target_ms", "How fresh 99 of 100 facts are to be.", lambda s: s.target_ms),
    Figure("arrival_rate", "Events per second that were stored anywhere.", lambda s: s.arrival_rate),
    Figure("service_rate", "Facts per second that the stream loaded.", lambda s: s.service_rate),
    Figure("hit_ratio", "Share of the front stage's probes that were hits.", lambda s: s.hit_ratio),
    Figure("backlog_shed", "Tuples that were shed for want of time, and not loaded yet.", lambda s: s.put_off),
    Figure("backlog_requeued", "Rejected and late tuples that wait for their next try.", lambda s: s.requeued),
    Figure("backlog_unmatched", "Tuples that are held as unmatched.", lambda s: s.backlog.unmatched.count),
    Figure("backlog_rejected", "Tuples that are held as rejected.", lambda s: s.backlog.rejected.count),
    Figure("staleness_ms", "Of the stalest cache: for how long a change of R has not reached it.", _staleness),
    Figure("unaccounted", "Events that were read and are in no place; not 0: some were lost.", lambda s: s.unaccounted),
    Figure("set_aside", "Files or partitions that can't all be read.", lambda s: s.files_not_loaded.set_aside),
    Figure(
        "lost", "Ranges of files or partitions that were gone before they were read.", lambda s: s.files_not_loaded.lost
    ),
    Figure("lost_at_ms", "When something was lost last, since 1970; left out where nothing was.", _lost_at),
    Figure("arrived", "Events that were read.", lambda s: s.arrived, "counter"),
    Figure("loaded", "Facts that were loaded.", lambda s: s.loaded, "counter"),
    Figure("duplicates", "Events that came again.", lambda s: s.duplicates, "counter"),
)


def figures(status: PipelineStatus) -> dict[str, float]:
    """The figures of one pipeline that are known, by name."""
    known = {figure.name: figure.read(status) for figure in FIGURES}
    return {name: value for name, value in known.items() if value is not None}
