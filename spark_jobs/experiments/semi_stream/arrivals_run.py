"""A join at work on a stream whose tuples come at their own times."""

from __future__ import annotations

import time

import numpy as np

from spark_jobs.experiments.numbered_relation import NumberedRelation
from spark_jobs.experiments.semi_stream.join_run import Clock, JoinRun
from spark_jobs.experiments.semi_stream.measurement import Measurement
from spark_jobs.experiments.semi_stream.stream_blocks import Stream
from spark_jobs.experiments.semi_stream.waiting_tuples import FloatArray
from spark_jobs.experiments.virtual_disk import VirtualClock
from spark_jobs.joins.semi_stream.base import SemiStreamJoin, Step
from spark_jobs.joins.semi_stream.theory.processor_costs import ProcessorCosts
from spark_jobs.workload.arrival_schedule import ArrivalSchedule
from spark_jobs.workload.bursts import Arrivals

# Differences of times are not exact: a shorter wait might end just before what it waits for, again and again.
_SHORTEST_WAIT = 1e-9


class ArrivalsRun(JoinRun):
    """A run of a join whose stream tuples come at their own times; arguments as of `measure_with_arrivals`."""

    def __init__(
        self,
        join: SemiStreamJoin,
        relation: NumberedRelation,
        stream: Stream,
        arrivals: Arrivals,
        clock: Clock,
        processor: ProcessorCosts | None,
        most_pending: int | None = None,
        chunk: int = 1,
    ) -> None:
        super().__init__(join, relation, stream, clock, processor)
        self._schedule = ArrivalSchedule(arrivals)
        self._most_pending = most_pending
        self._chunk = chunk
        self._empty_room = join.room
        self._outside: FloatArray = np.empty(0)
        self._started = clock()

    def measure(self, tuples: int) -> Measurement:
        """Go on until at least so many more stream tuples are settled."""
        self.begin()
        until, started = self.settled + tuples, self._elapsed
        while self.settled < until:
            pushed = self._take_in_what_came()
            accesses = self.join.statistics.seeks
            settled = self.advance() if self.join.pending else 0
            if not (pushed or settled or self.join.statistics.seeks > accesses):
                self._idle()
        return self.measurement(self._elapsed - started)

    @property
    def _elapsed(self) -> float:
        return self.clock() - self._started

    @property
    def _idle_seconds(self) -> float:
        """Time in which the join did not work, since the run began."""
        return self._elapsed - self.worked

    def _take_in_what_came(self) -> int:
        """Push what has come by now, as far as there is room."""
        came = self._schedule.due(self._elapsed)
        if len(came):
            self._outside = np.concatenate([self._outside, came])
        taken = 0
        while count := self._takes_now():
            # The idle seconds until it leaves are added when it does; those before its coming are none of its.
            waited = self._elapsed - self._outside[:count] - self._idle_seconds
            pushed = self.push(count, waited)
            self._outside = self._outside[pushed:]
            taken += pushed
        return taken

    def _takes_now(self) -> int:
        count = min(self.join.room, len(self._outside))
        return count if self._most_pending is None else max(0, min(count, self._most_pending - self.join.pending))

    def settle(self, step: Step) -> int:
        """The same; a tuple has also waited while the join stood still."""
        settled = super().settle(step)
        self.waited += settled * self._idle_seconds
        return settled

    def _idle(self) -> None:
        """Let time pass until the join has its chunk, or until the next stream tuple comes."""
        missing = max(1, self._chunk - (self._empty_room - self.join.room))
        wait = max(self._schedule.next_due(missing) - self._elapsed, _SHORTEST_WAIT)
        if isinstance(self.clock, VirtualClock):
            self.clock.advance(wait)
        else:
            time.sleep(wait)
