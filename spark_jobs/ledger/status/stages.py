"""Where the time from an event to its fact goes: means by stage, over the batches of the window."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from spark_jobs.ledger.status.ledger_reading import Ledger
from spark_jobs.warehouse.latency import mean


@dataclass(frozen=True)
class Stages:
    """Mean milliseconds of each stage; None where nothing was measured.

    Attributes:
        arrival: from the event until it has landed.
        waiting: from then until its batch begins.
        front_stage: reading, screening and joining with hot tuples; the slowest task's.
        back_stage: joining with R, all lookups together; the slowest task's of each.
        commit: storing facts and held tuples; the slowest tasks'.
    """

    arrival: float | None = None
    waiting: float | None = None
    front_stage: float | None = None
    back_stage: float | None = None
    commit: float | None = None


def mean_stages(ledger: Ledger) -> Stages:
    """Means over the window's batches, each with the weight of the events that it stored; arrival within 10 %."""
    seconds: Counter[str] = Counter()
    weights: Counter[str] = Counter()
    for batch in ledger.recent:
        arrived = batch.arrived
        for stage, spent in (batch.stage_seconds or {}).items():
            seconds[stage] += arrived * spent  # type: ignore[assignment]
            weights[stage] += arrived
    means = {stage: round(1000 * seconds[stage] / weight, 1) for stage, weight in weights.items() if weight}
    from_event, from_landing = mean(ledger.event_latency), mean(ledger.arrival_latency)
    if from_event is not None and from_landing is not None:
        means["arrival"] = round(1000 * max(from_event - from_landing, 0.0), 1)
    return Stages(**{stage: means.get(stage) for stage in Stages.__dataclass_fields__})
