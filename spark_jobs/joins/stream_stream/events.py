"""PJoin's event-driven framework: what happens while tuples are joined, and which components run then (001 §3.6).

    monitor --- a threshold is reached ---> event --- registry ---> components, in order

Which components answer an event, under which conditions and in which order, may be changed while the join runs, as may
the thresholds. What is changed so is not part of the join's state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal


class Event(Enum):
    """The seven events of 001 §3.6."""

    STREAMS_EMPTY = "both inputs pause"
    PURGE_THRESHOLD_REACHED = "as many punctuations have come since the last purge as the threshold says"
    STATE_FULL = "memory is full"
    NEW_PUNCTUATION_READY = "a punctuation has come"
    PROPAGATE_REQUESTED = "an operator downstream asks for punctuations"
    PROPAGATE_TIME_EXPIRED = "the time since the last propagation has passed"
    PROPAGATE_COUNT_REACHED = "as many punctuations have come since the last propagation as the threshold says"


Component = Literal["purge", "relocate", "disk_join", "build_index", "propagate"]


@dataclass
class Monitor:
    """What is watched, and the thresholds; both may be read and the latter changed at any time.

    Attributes:
        purge_threshold: punctuations between two purges; 1 is eager, more is lazy (001 §3.4).
        propagate_count: punctuations between two propagations, for the push mode; None for never by count.
        propagate_after: time between two propagations, in the clock's unit; None for never by time.
        since_purge: punctuations since the last purge.
        since_propagation: punctuations since the last propagation.
        last_propagation: when that was.
    """

    purge_threshold: int = 1
    propagate_count: int | None = 1
    propagate_after: float | None = None
    since_purge: int = 0
    since_propagation: int = 0
    last_propagation: float = 0.0


@dataclass(frozen=True)
class Listener:
    """An entry of the registry.

    Attributes:
        components: what runs, in this order.
        condition: what has to hold besides.
    """

    components: Sequence[Component]
    condition: Callable[[Monitor], bool] = lambda _: True


@dataclass
class Registry:
    """Which listeners each event has; they are asked in order.

    Attributes:
        listeners: by event. Changed at will.
    """

    listeners: dict[Event, list[Listener]] = field(default_factory=dict)

    def components_for(self, event: Event, monitor: Monitor) -> list[Component]:
        """What has to run now, in order."""
        return [
            component
            for listener in self.listeners.get(event, ())
            if listener.condition(monitor)
            for component in listener.components
        ]


def lazy_index() -> Registry:
    """The configuration of 001 Table 1: the index is built right before each propagation, which is by count."""
    return Registry(
        {
            Event.STREAMS_EMPTY: [Listener(("disk_join",))],
            Event.PURGE_THRESHOLD_REACHED: [Listener(("purge",))],
            Event.STATE_FULL: [Listener(("purge", "relocate"))],
            Event.PROPAGATE_COUNT_REACHED: [Listener(("build_index", "propagate"))],
            Event.PROPAGATE_TIME_EXPIRED: [Listener(("build_index", "propagate"))],
            Event.PROPAGATE_REQUESTED: [Listener(("purge", "build_index", "propagate"))],
        }
    )


def eager_index() -> Registry:
    """The same, but each punctuation is counted as it comes, so that it is propagated as soon as it may (001 §3.5)."""
    registry = lazy_index()
    registry.listeners[Event.NEW_PUNCTUATION_READY] = [Listener(("build_index",))]
    return registry
