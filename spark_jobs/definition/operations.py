"""The parts of a definition that say how a pipeline is operated: freshness, shedding, reprocessing, retention."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from spark_jobs.definition.fields import Count, Duration, Kept, LedgerKept, Part


class Freshness(Part):
    """How soon after it happened an event shall be a fact; the time budget of a batch follows from it.

    Attributes:
        target: 99 of 100 facts shall be this fresh.
        grace: an alert is raised when the target has been missed for so long.
    """

    target: Duration = Field(default=timedelta(seconds=5), examples=["target: 5s"])
    grace: Duration = Field(default=timedelta(minutes=1), examples=["grace: 1m"])


class Shedding(Part):
    """What is done under overload: shed the costliest tuples (`considered`), or let all get late (`off`)."""

    policy: Literal["considered", "off"] = Field(default="considered", examples=["policy: considered"])


class Reprocessing(Part):
    """How shed tuples are loaded later, and unmatched ones tried again.

    Attributes:
        limit: tuples that one run takes at most.
        most_attempts: a tuple that was tried so often without success is rejected.
        first_pause: an unmatched tuple is tried again after this time, then after twice that, and so on; after a
            quarter of the pause, and 32 times this at most, where its relation is known to have changed.
    """

    limit: Count = Field(default=1_000_000, examples=["limit: 1000000"])
    most_attempts: Count = Field(default=12, examples=["most_attempts: 12"])
    first_pause: Duration = Field(default=timedelta(minutes=1), examples=["first_pause: 1m"])


class Retention(Part):
    """How long the warehouse keeps what is no fact; null: for ever.

    Attributes:
        ledger: batches, reprocessing runs, validations, drivers, alerts and noted changes of master data. Their
            sums are kept. No less than a day, of which the page shows the freshness.
        rejected: rejected tuples.
        unmatched: unmatched tuples that are still unmatched.
        shed: shed tuples that nobody has reprocessed.
    """

    ledger: LedgerKept | None = Field(default=timedelta(days=30), examples=["ledger: 30d"])
    rejected: Kept | None = Field(default=timedelta(days=90), examples=["rejected: 90d"])
    unmatched: Kept | None = Field(default=None, examples=["unmatched: 90d"])
    shed: Kept | None = Field(default=None, examples=["shed: 90d"])
