"""Sends the pipelines' figures as gauges to where Airflow sends its metrics: statsd, Datadog or OpenTelemetry."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

# The one that the triggerer has initialized; airflow.sdk has another one, for tasks.
from airflow.observability import stats

from spark_jobs.ledger.status.figures import STATES, figures

if TYPE_CHECKING:
    from spark_jobs.ledger.status.pipeline_status import PipelineStatus

SECONDS = 10.0


class FreshnessMetrics:
    """Sends `freshet.<pipeline>.<figure>` for each pipeline, every ten seconds at most.

    Beside the figures there is `state`, by its place in `STATES`, from 0 on. What is not known is not sent.
    """

    def __init__(self) -> None:
        self._due_at = 0.0

    def send(self, statuses: Iterable[PipelineStatus]) -> None:
        """Send the gauges if it is time."""
        if time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + SECONDS
        for status in statuses:
            for name, value in {**figures(status), "state": STATES.index(status.state)}.items():
                stats.gauge(f"freshet.{status.name}.{name}", value)
