"""What batches of a pipeline's ledger add up to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from spark_jobs.warehouse.latency import BUCKETS, Int64Array

_COUNTS = ("batches", "records", "facts", "shed", "unmatched", "rejected", "duplicates")


@dataclass(frozen=True)
class LedgerSums:
    """What some batches of one pipeline add up to.

    Attributes:
        batches: how many.
        records: records that they read, duplicates among them, counted where they were read.
        facts, shed, unmatched, rejected, duplicates: what became of them, counted where they were stored.
        last_commit: when the last committed one was committed.
        freshness: histogram of event time to commit, int64, shape (BUCKETS,).
    """

    batches: int = 0
    records: int = 0
    facts: int = 0
    shed: int = 0
    unmatched: int = 0
    rejected: int = 0
    duplicates: int = 0
    last_commit: datetime | None = None
    freshness: Int64Array = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))

    @property
    def arrived(self) -> int:
        """Events that arrived, those that came again left out."""
        return self.records - self.duplicates

    @property
    def unaccounted(self) -> int:
        """Events that arrived and are in no place: by the tuple's law there are none."""
        return self.arrived - self.facts - self.shed - self.unmatched - self.rejected

    @property
    def counts(self) -> tuple[int, ...]:
        """Its counts, which can be compared."""
        return tuple(getattr(self, name) for name in _COUNTS)

    def __add__(self, later: LedgerSums) -> LedgerSums:
        return LedgerSums(
            **{name: getattr(self, name) + getattr(later, name) for name in _COUNTS},
            last_commit=later.last_commit or self.last_commit,
            freshness=self.freshness + later.freshness,
        )
