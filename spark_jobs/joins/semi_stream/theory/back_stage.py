"""What a model of an algorithm predicts of it, be it alone or behind a front stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_jobs.joins.semi_stream.theory.setting import Setting
from spark_jobs.joins.semi_stream.theory.stream_popularity import StreamPopularity


@dataclass(frozen=True)
class BackStage:
    """A back stage whose stream never lets it wait.

    Attributes:
        waiting_tuples: stream tuples that memory holds, h_S.
        unsettled_tuples: those of them that wait for their match, on average, and those in a stream buffer.
        matches_per_access: w, stream tuples that an access to R settles.
        access_seconds: an access and all that belongs to it, c_loop of 000 equation (3).
    """

    waiting_tuples: float
    unsettled_tuples: float
    matches_per_access: float
    access_seconds: float

    @property
    def seconds_per_tuple(self) -> float:
        """What a stream tuple costs; one over the service rate, 000 equation (4)."""
        return self.access_seconds / self.matches_per_access


BackStageModel = Callable[[Setting, StreamPopularity, float], BackStage]
