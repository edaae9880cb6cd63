"""What a reprocessing run is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from spark_jobs.definition.fates import WAITING_PLACES, WaitingPlace
from spark_jobs.joins.semi_stream import ALGORITHMS as CATALOGUE

BATCH_ALGORITHMS = ("auto", *(name for name, algorithm in CATALOGUE.items() if not algorithm.cached))
"""What `algorithm` may be. A run reads R once for all its tuples: a front stage before that would bring nothing."""

NAMED = "strpos(reason, %(reason)s) > 0 AND (%(text)s = '' OR strpos(payload, %(text)s) > 0)"
"""SQL condition: the tuple's reason and its record contain these texts; the empty one is in every other."""


@dataclass(frozen=True)
class ReprocessingRequest:
    """Which held tuples to take, and how.

    Attributes:
        limit: tuples to take at most.
        places: from where, in this order.
        arrived_from: only tuples that arrived then or later; None: from the first on.
        arrived_until: only tuples that arrived before; None: up to the last.
        reason, text: only tuples whose reason, and whose record, contains this.
        algorithm: one of `BATCH_ALGORITHMS`, for every lookup that can take it.
        all_unmatched: take unmatched tuples now whose next try is not due yet.
        yields: end early when the stream is overloaded.
        airflow_run: id of the DAG run that asks; None without Airflow.
        by: who asks, as is noted; None: nobody, a schedule.
    """

    limit: int
    places: tuple[WaitingPlace, ...] = WAITING_PLACES
    arrived_from: datetime | None = None
    arrived_until: datetime | None = None
    reason: str = ""
    text: str = ""
    algorithm: str = "auto"
    all_unmatched: bool = False
    yields: bool = True
    airflow_run: str | None = None
    by: str | None = None

    @property
    def names_some(self) -> bool:
        """Whether it is about some tuples only, by their reason, record or arrival."""
        return bool(self.reason or self.text or self.arrived_from or self.arrived_until)
