"""A join at work on a stream that is faster than it."""

from __future__ import annotations

from spark_jobs.experiments.semi_stream.join_run import JoinRun
from spark_jobs.experiments.semi_stream.measurement import Measurement


class SaturatedRun(JoinRun):
    """A run of a join whose stream never lets it wait; measured as often as one likes.

    Only the join's own time counts, not that of drawing the stream or of measuring, which matters on a real clock.
    """

    def measure(self, tuples: int) -> Measurement:
        """Go on until at least so many more stream tuples are settled."""
        self.begin()
        until, started = self.settled + tuples, self.worked
        join = self.join
        while self.settled < until:
            while room := join.room:
                self.push(room)
            self.advance()
        return self.measurement(self.worked - started)
