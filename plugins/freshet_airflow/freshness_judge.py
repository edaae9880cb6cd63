"""Decides from one look at a pipeline after another whether it misses its freshness target. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.ledger.status.pipeline_status import PipelineStatus
    from spark_jobs.waiting_work import WaitingWork

# The target has to be kept, or the stream to be stopped, for this long before an episode is over.
_CALM = timedelta(seconds=15)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Miss:
    """The target is missed.

    Attributes:
        since: as far as is known.
        reason: in words.
    """

    since: datetime
    reason: str


class FreshnessJudge:
    """Decides when an episode has to begin, and when the open one is over."""

    def __init__(self) -> None:
        self._missed_since: datetime | None = None
        self._calm_since: datetime | None = None
        self._calm_is_stop = False

    def begins(self, waiting: WaitingWork) -> Miss | None:
        """The miss, when it has lasted for longer than the pipeline's grace. To be asked at every look."""
        miss = current_miss(waiting)
        if miss is not None:
            self._missed_since = min(self._missed_since or miss.since, miss.since)
            self._calm_since = None
            if waiting.read_at - self._missed_since > waiting.grace:
                return Miss(self._missed_since, miss.reason)
        elif waiting.status.state == "starting":
            # Nothing is known: neither that all is well nor that it is not.
            self._calm_since = None
        else:
            self._missed_since = None
            is_stop = waiting.status.state == "stopped"
            if self._calm_since is None or is_stop != self._calm_is_stop:
                self._calm_since, self._calm_is_stop = waiting.read_at, is_stop
        return None

    def is_over(self, waiting: WaitingWork) -> bool:
        """Whether the target has been kept for a while, or the stream is stopped; after `begins` has been asked.

        A stream that is stopped loads nothing, which is no recovery; its message says so.
        """
        return self._calm_since is not None and waiting.read_at - self._calm_since >= _CALM


def current_miss(waiting: WaitingWork) -> Miss | None:
    """How the target is missed now: nothing is loaded, most is rejected, events wait too long, or facts are late."""
    status, now = waiting.status, waiting.read_at
    target = timedelta(milliseconds=status.target_ms)
    if status.state in ("down", "restarting"):
        return _down(status, now)
    if status.blocked_since is not None:
        return Miss(status.blocked_since, f"the stream is blocked: {status.blocked_by}")
    if status.state == "stopped":
        return None
    miss = _rejected(status, now) or _unread(waiting, target)
    if miss is not None:
        return miss
    p99 = status.freshness_window.p99_ms
    if p99 is not None and p99 > status.target_ms:
        return Miss(now, f"99 of 100 facts are up to {p99 / 1000:.1f} s old when they can be read")
    return None


def _rejected(status: PipelineStatus, now: datetime) -> Miss | None:
    return Miss(now, str(status.overload_reason)) if status.state == "rejecting" else None


def _unread(waiting: WaitingWork, target: timedelta) -> Miss | None:
    """How events wait for too long: in a batch, or for one."""
    now, lag = waiting.read_at, waiting.status.lag
    if waiting.open_since is not None and now - waiting.open_since > target:
        seconds = (now - waiting.open_since) / _SECOND
        return Miss(waiting.open_since + target, f"nothing was committed for {seconds:.0f} s, while events wait")
    if lag.oldest_unread is None or now - lag.oldest_unread <= target or waiting.status.state == "starting":
        return None
    # What had to wait for a driver counts from now on: the stream may have been stopped on purpose.
    since = now if waiting.status.state == "catching up" else lag.oldest_unread + target
    return Miss(since, f"unread: {lag.in_words}")


def _down(status: PipelineStatus, now: datetime) -> Miss:
    if status.start_wanted_at is not None:
        return Miss(status.start_wanted_at, "a start was asked for, and no driver has taken the stream over")
    silence = timedelta(milliseconds=status.heartbeat_age_ms or 0.0)
    cause = f"has failed: {status.error}" if status.error else "has fallen silent"
    tries = f"; it is {status.state_in_words}" if status.restart else ""
    waiting = f"; unread: {status.lag.in_words}" if status.lag.oldest_unread is not None else ""
    return Miss(now - silence, f"the stream's driver {cause}{tries}{waiting}")
