"""The one verdict on a stream whose driver is there: what was committed lately and what is still unread, together."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from spark_jobs.durations import format_duration
from spark_jobs.ledger.status.driver_states import State
from spark_jobs.ledger.status.lag import Lag
from spark_jobs.ledger.status.overload import StreamLoad

_MILLISECOND = timedelta(milliseconds=1)


class Verdict(NamedTuple):
    """What a driver does that is there and loads.

    Attributes:
        state: running, idle (nothing is unread, and nothing has come lately), late (what is unread has waited for
            longer than the target), overloaded, catching up, or rejecting (most tuples become no facts).
        reason: by what that is told; None while all is well.
    """

    state: State
    reason: str | None = None


def verdict(
    load: StreamLoad,
    lag: Lag,
    target: timedelta,
    *,
    busy: bool,
    waited_until: datetime | None,
    rejection: str | None = None,
) -> Verdict:
    """Judge a stream.

    Args:
        load: by what was committed lately.
        lag: what is unread.
        target: how fresh facts are to be.
        busy: whether anything was committed lately.
        waited_until: what landed before had to wait until a driver was ready; None: there was nothing to wait for.
        rejection: why most tuples become no facts; None: they do. It goes before all else: fresh, but not there.
    """
    if rejection is not None:
        return Verdict("rejecting", rejection)
    if load.overloaded and not load.catching_up:
        return Verdict("overloaded", load.reason)
    age = lag.oldest_unread_age_ms
    if age is not None and age * _MILLISECOND > target:
        assert lag.oldest_unread is not None
        waited = waited_until is not None and lag.oldest_unread < waited_until
        why = "waited until a driver was ready" if waited else f"and the target is {format_duration(target)}"
        return Verdict("catching up" if waited else "late", f"unread: {lag.in_words}, {why}")
    if load.catching_up:
        return Verdict("catching up", load.reason)
    return Verdict("idle" if lag.is_nothing and not busy else "running")


def freshness_now(lag: Lag, p99_ms: float | None, *, loads: bool) -> float | None:
    """How far the warehouse is behind the events, in milliseconds; None where nothing tells.

    Args:
        lag: what is unread: its oldest event can be read no sooner than now.
        p99_ms: of the facts committed lately.
        loads: whether a driver is there and goes on: if not, facts of before tell nothing of now.
    """
    known = [age for age in (p99_ms if loads else None, lag.oldest_unread_age_ms) if age is not None]
    return max(known, default=None)
