"""The figures of a pipeline: one table that the terminal, the page and monitoring systems ask.

A new figure is a line of `FIGURES`, and an entry where it is to be shown: `TERMINAL` and `PAGE` name the columns, in
their order; monitoring gets whatever has a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from spark_jobs.definition.fates import FAILED_PLACES, SHED

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
Unit = Literal["tuples", "files", "bytes", "ms", "per second", "share"]


class Figure(NamedTuple):
    """A number that is told of each pipeline.

    Attributes:
        key: by which all ask for it; `ms` last, where that is its unit.
        meaning: what it tells.
        unit: how it is shown.
        read: takes it from the status; None while it is not known.
        kind: for monitoring, where a counter only grows; None: monitoring is not told.
    """

    key: str
    meaning: str
    unit: Unit
    read: Read
    kind: Literal["gauge", "counter"] | None = "gauge"


_ARRIVING = "Events per second that were stored anywhere in the last minute."


def _of_lag(read: Read) -> Read:
    """Known where somebody looks at the source, or something is known to be there."""
    return lambda status: read(status) if status.lag.oldest_unread is not None or status.lag.is_nothing else None


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _arriving(status: PipelineStatus) -> float | None:
    """Known while events are loaded: what lands meanwhile is lag."""
    from spark_jobs.ledger.status.driver_states import LOADING

    return status.arrival_rate if status.state in LOADING else None


def _lost_at(status: PipelineStatus) -> float | None:
    lost_at = status.files_not_loaded.lost_at
    return None if lost_at is None else lost_at.timestamp() * 1000


FIGURES = {
    figure.key: figure
    for figure in (
        Figure(
            "unread_files",
            "Files, or partitions of a topic, that are not all loaded.",
            "files",
            _of_lag(lambda s: s.lag.unread_files),
        ),
        Figure("unread_bytes", "Their bytes.", "bytes", _of_lag(lambda s: s.lag.unread_bytes)),
        Figure(
            "oldest_unread_ms",
            "For how long the oldest of them has waited; 0 without any.",
            "ms",
            lambda s: 0.0 if s.lag.is_nothing else s.lag.oldest_unread_age_ms,
        ),
        Figure("since_commit_ms", "Time since the last commit of a batch.", "ms", lambda s: s.lag.commit_age_ms),
        Figure(
            "freshness_now_ms",
            "How far the warehouse is behind the events: the age of the oldest one that is unread, or the p99 of the "
            "facts of the last 15 s, whichever is more. The state is told by the same.",
            "ms",
            lambda s: s.freshness_now_ms,
        ),
        Figure(
            "freshness_p50_ms",
            "From event to commit, half of the last facts.",
            "ms",
            lambda s: s.freshness_window.p50_ms,
        ),
        Figure(
            "freshness_p99_ms",
            "From event to commit, 99 of 100 of the last facts.",
            "ms",
            lambda s: s.freshness_window.p99_ms,
        ),
        Figure("freshness_target_ms", "How fresh 99 of 100 facts are to be.", "ms", lambda s: s.target_ms),
        Figure("freshness_hour_ms", "Freshness p99 of the last hour.", "ms", lambda s: s.freshness_hour.p99_ms, None),
        Figure("freshness_day_ms", "Freshness p99 of the last day.", "ms", lambda s: s.freshness_day.p99_ms, None),
        Figure(
            "arrival_rate",
            _ARRIVING,
            "per second",
            lambda s: s.arrival_rate,
        ),
        Figure("arriving", _ARRIVING, "per second", _arriving, None),
        Figure(
            "service_rate",
            "Facts per second in the last minute: the service rate.",
            "per second",
            lambda s: s.service_rate,
        ),
        Figure(
            "hit_ratio",
            "Share of lookups that the front stage answered from memory.",
            "share",
            lambda s: s.hit_ratio,
        ),
        Figure("backlog_shed", "Put off under overload; reprocess_shed loads them.", "tuples", lambda s: s.put_off),
        Figure(
            "backlog_requeued",
            "Rejected and late tuples that wait for their next try.",
            "tuples",
            lambda s: s.requeued,
        ),
        Figure(
            "backlog_unmatched",
            "Their key is not in the master data yet.",
            "tuples",
            lambda s: s.unmatched,
        ),
        Figure("backlog_rejected", "Bad input; it needs a look.", "tuples", lambda s: s.rejected),
        Figure(
            "oldest_waits_ms",
            "For how long the oldest shed or unmatched tuple has waited.",
            "ms",
            lambda s: _largest(held.oldest_age_ms or None for held in (s.backlog.shed, s.backlog.unmatched)),
            None,
        ),
        Figure(
            "staleness_ms",
            "Of the stalest cache: for how long a change of R has not reached it.",
            "ms",
            lambda s: _largest(cache.staleness_ms for cache in s.caches),
        ),
        Figure(
            "unaccounted",
            "Events that were read and are in no place; not 0: some were lost.",
            "tuples",
            lambda s: s.unaccounted,
        ),
        Figure(
            "set_aside",
            "Files or partitions that can't all be read.",
            "files",
            lambda s: s.files_not_loaded.set_aside,
        ),
        Figure(
            "lost",
            "Ranges of files or partitions that were gone before they were read.",
            "files",
            lambda s: s.files_not_loaded.lost,
        ),
        Figure("lost_at_ms", "When something was lost last, since 1970; left out where nothing was.", "ms", _lost_at),
        Figure("arrived", "Events that were read.", "tuples", lambda s: s.arrived, "counter"),
        Figure("loaded", "Facts that were loaded.", "tuples", lambda s: s.loaded, "counter"),
        Figure("duplicates", "Events that came again.", "tuples", lambda s: s.duplicates, "counter"),
    )
}

TERMINAL = {
    "state": "state",
    "lag": "lag",
    "freshness_now_ms": "freshness",
    "percentiles": "p50 / p99",
    "freshness_target_ms": "target",
    "arrived": "arrived",
    "loaded": "loaded",
    f"backlog_{SHED.name}": SHED.name,
    "backlog_requeued": "requeued",
    **{f"backlog_{place}": place for place in FAILED_PLACES},
    "service_rate": "facts/s",
    "hit_ratio": "hit ratio",
    "oldest_waits_ms": "oldest waits",
    "staleness_ms": "cache staleness",
    "validation": "validation",
}
"""Columns of `freshet status`: a figure's key, or what `table.py` puts together of several; the heading."""


class PageColumn(NamedTuple):
    """A column of the page's overview.

    Attributes:
        key: of a figure, or of what the page's scripts put together of several.
        heading: above it.
        meaning: what the heading explains of itself; None: nothing.
        unit: of the figure; None where the scripts know how to show it.
        is_roomy: left out where there is no room for it.
        is_ordered: whether the lines can be ordered by it.
    """

    key: str
    heading: str
    meaning: str | None = None
    unit: Unit | None = None
    is_roomy: bool = False
    is_ordered: bool = True


def _column(key: str, heading: str, *, is_roomy: bool = False) -> PageColumn:
    return PageColumn(key, heading, FIGURES[key].meaning, FIGURES[key].unit, is_roomy)


PAGE = (
    PageColumn("pipeline", "Pipeline"),
    PageColumn("state", "State"),
    PageColumn("lag", "Lag", "What has landed and is not loaded, and how long the oldest of it has waited."),
    PageColumn("freshness_now_ms", "Freshness now", f"{FIGURES['freshness_now_ms'].meaning} The mark is the target."),
    _column("freshness_hour_ms", "Last hour", is_roomy=True),
    _column("freshness_day_ms", "Last day"),
    _column("arriving", "Arriving"),
    _column("service_rate", "Loaded", is_roomy=True),
    _column("hit_ratio", "Hits", is_roomy=True),
    _column("backlog_shed", "Shed"),
    _column("backlog_unmatched", "Unmatched"),
    _column("backlog_rejected", "Rejected"),
    PageColumn("validation", "Validation", is_roomy=True, is_ordered=False),
)
"""Columns of the page's overview, which its scripts render by their keys."""
MONITORED = tuple(figure for figure in FIGURES.values() if figure.kind is not None)
"""What monitoring systems keep."""


def figures(status: PipelineStatus, asked: Iterable[Figure] = MONITORED) -> dict[str, float]:
    """The figures of one pipeline that are known, by key."""
    known = {figure.key: figure.read(status) for figure in asked}
    return {key: value for key, value in known.items() if value is not None}


def page_columns() -> list[dict[str, Any]]:
    """The columns of the page's overview, as plain values for JSON."""
    return [column._asdict() for column in PAGE]


def page_figures(status: PipelineStatus) -> dict[str, float]:
    """What the page's overview shows of one pipeline, by key."""
    return figures(status, [FIGURES[column.key] for column in PAGE if column.key in FIGURES])
