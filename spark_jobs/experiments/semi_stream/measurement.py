"""What was measured of a join at work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """One measured run, warm-up left out. Times in seconds of the run's clock, virtual or real.

    Attributes:
        settled: stream tuples joined, or found to have no match.
        seconds: in which they were settled: work of join, disk and processor, and time without work; for a
            saturated stream there is none of the latter.
        pages_read: pages of R read by number.
        lookups: accesses to R by its index.
        bytes_read: bytes of R.
        probes: see Statistics.
        front_stage_hits: stream tuples that found their tuple of R in the front stage.
        shed: stream tuples given up.
        mean_processing: mean time that a settled tuple spent in the join while that worked
            (processing time of 000 §3).
        mean_waiting: mean time that it waited for the join to begin: outside because the join was busy,
            or inside because it stood still until more of the stream came (waiting time of 000 §3).
        mean_queue: mean number of stream tuples in the join when a step began.
    """

    settled: int
    seconds: float
    pages_read: int
    lookups: int
    bytes_read: int
    probes: int
    front_stage_hits: int
    shed: int
    mean_processing: float
    mean_waiting: float
    mean_queue: float

    @property
    def service_rate(self) -> float:
        """Settled tuples per second, μ of 000."""
        return self.settled / self.seconds

    @property
    def hit_ratio(self) -> float:
        """Share of the settled tuples that the front stage settled; 0 without one."""
        return self.front_stage_hits / self.settled

    @property
    def accesses(self) -> int:
        """Accesses to R: pages read by number, and lookups."""
        return self.pages_read + self.lookups

    @property
    def tuples_per_access(self) -> float:
        """Stream tuples that one access to R settled, w of 000; those of the front stage not counted."""
        return (self.settled - self.front_stage_hits) / max(1, self.accesses)

    @property
    def mean_stay(self) -> float:
        """Mean time from a tuple's arrival until it was settled."""
        return self.mean_processing + self.mean_waiting
