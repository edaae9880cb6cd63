"""Chooses its algorithm by itself, and changes it when the stream has changed."""

from __future__ import annotations

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.experiments.numbered_relation import NumberedRelation
from spark_jobs.experiments.semi_stream.stream_sample import StreamSample
from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.base import Int64Array, SemiStreamJoin, Step
from spark_jobs.joins.semi_stream.cached_join import CachedJoin
from spark_jobs.joins.semi_stream.front_stage import FrontStage
from spark_jobs.joins.semi_stream.theory.choice import Choice, choose
from spark_jobs.joins.semi_stream.theory.popularity import ZipfStream
from spark_jobs.joins.semi_stream.theory.prediction import predict
from spark_jobs.joins.semi_stream.theory.setting import DiskCosts, ProcessorCosts, Setting
from spark_jobs.joins.semi_stream.theory.skew_estimate import estimate_exponent

# What is assumed before the first sample: the papers' skew, and R in any order.
_ASSUMED_EXPONENT = 1.0
# The sample takes this part of memory, but no more tuples than this. The first one covers this part of the tuples that
# memory could hold, the later ones as many as it could hold several times.
_SAMPLE_PART = 64
_LARGEST_SAMPLE = 1 << 16
_SMALLEST_SAMPLE = 8
_FIRST_SPAN_BYTES = 160
_SPAN_BYTES = 10
# Estimates are averaged over this many samples. One that is further off than small samples are by chance begins anew.
_AVERAGED = 4
_SURPRISE = 0.25
# Less than this is no drift: of the exponent, and of R's size and the arrival rate as a part of them.
_EXPONENT_DRIFT = 0.05
_DRIFT = 0.1
# To change costs a queue that runs empty and a front stage that learns anew: it has to be worth this factor.
_GAIN = 1.05
# A front stage tells the exponent better than the sample when it has seen this many tuples for each of its slots.
_SEEN_PER_SLOT = 40


class AutoJoin(SemiStreamJoin):
    """Any algorithm of the catalogue, whichever is predicted to be the best for the stream as it is.

        stream ---> [ sample ] ---> the chosen algorithm ---> joined
                        |                    ^
                        v                    | finishes, then makes way for the next
             exponent, order of R ---> cost models of all algorithms

    It starts with the choice for Zipf exponent 1. A sample of the stream, and the frequency recorder of a front stage
    where there is one, tell the exponent; the sample, whether R is sorted by popularity. When what they tell, R's size
    or the arrival rate has drifted from what the last decision was made for, it decides again. If another algorithm,
    or another share of the front stage, is predicted to be 5 % better, it takes no more tuples in until all pending
    ones are settled, and goes on with the other. No tuple is lost, and memory never holds the tuples of two algorithms.
    Where memory is too small for the other, as when R's pages have grown, it goes on as it was.

    Keys that are not in R count as keys like others, as if a front stage could hold them.

    Args:
        relation: R.
        memory_bytes: the budget; a 64th of it is for the sample.
        disk_costs: what reading R costs, measured or known.
        processor_costs: what the join's own work costs.

    Attributes:
        arrival_rate: stream tuples per second, to be set at any time; None: the stream is faster than the join.
        decisions: every choice made so far, the one in force last; each gives its reason.

    Raises:
        MemoryBudgetError: the budget is too small for every algorithm.
    """

    def __init__(
        self,
        relation: NumberedRelation,
        memory_bytes: int,
        disk_costs: DiskCosts,
        processor_costs: ProcessorCosts,
    ) -> None:
        super().__init__()
        self.arrival_rate: float | None = None
        self._relation = relation
        self._disk_costs = disk_costs
        self._processor_costs = processor_costs
        sampled = memory_bytes // (_SAMPLE_PART * StreamSample.bytes_for(1))
        self._sample = StreamSample(max(_SMALLEST_SAMPLE, min(_LARGEST_SAMPLE, sampled)))
        self._sample.start(self._every(memory_bytes // _FIRST_SPAN_BYTES))
        self._memory_bytes = memory_bytes - self._sample.memory_used()
        self._stream = ZipfStream(max(1, relation.row_count), _ASSUMED_EXPONENT, shuffled=True)
        self._samples = 0
        self._decided_for: tuple[ZipfStream, float | None] = (self._stream, None)
        self.decisions = [choose(self._setting(), self._stream, arrival_rate=None)]
        self._make(self.decisions[0])
        self._draining = False
        self.statistics.extra["front_stage_hits"] = 0

    @property
    def algorithm(self) -> str:
        """The name of the algorithm at work."""
        return self._current.algorithm

    @property
    def room(self) -> int:
        """How many stream tuples `push` takes now; none while an algorithm makes way for another."""
        return 0 if self._draining else self._join.room

    @property
    def pending(self) -> int:
        """How many stream tuples wait."""
        return self._join.pending

    @property
    def reads_next(self) -> bool:
        """Whether the algorithm's next step accesses R."""
        return self._join.reads_next

    def memory_used(self) -> int:
        """Bytes of the sample and of the algorithm at work."""
        return self._sample.memory_used() + self._join.memory_used()

    def check(self) -> None:
        """Assert the invariants of the algorithm at work, and that it is the one decided for. O(memory)."""
        self._join.check()
        assert self._draining or self._current is self.decisions[-1]

    def _take_in(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        self._sample.observe(keys, pages)
        self._join.push(keys, pages, ids)
        self._count()

    def _step(self) -> Step:
        if self._sample.full:
            self._learn()
            self._sample.start(self._every(self._memory_bytes // _SPAN_BYTES))
            self._reconsider()
        step = self._join.advance(ending=self._draining or self._finishing)
        self._count()
        if self._draining and not self._join.pending:
            self._change()
        return step

    def _give_up(self, count: int) -> Int64Array:
        """What the algorithm at work sheds."""
        ids = self._join.shed(count)
        if self._draining and not self._join.pending:
            self._change()
        return ids

    def _learn(self) -> None:
        """Take what the sample tells into the estimates."""
        rows, front = max(1, self._relation.row_count), self._front_stage
        if front is not None and front.observed > _SEEN_PER_SLOT * front.capacity:
            exponent = estimate_exponent(front.frequencies, front.observed, rows)
            weight = 1.0
        else:
            exponent = self._sample.exponent(rows)
            self._samples += 1
            if self._samples == 1 or abs(exponent - self._stream.exponent) > _SURPRISE:
                self._samples = 1
            weight = 1 / min(self._samples, _AVERAGED)
        exponent = self._stream.exponent + weight * (exponent - self._stream.exponent)
        shuffled = self._sample.shuffled(rows, exponent, self._setting().page_rows)
        self._stream = ZipfStream(rows, exponent, shuffled)

    def _reconsider(self) -> None:
        """Decide again if what was decided for has drifted; begin to change if that is worth it."""
        if self._draining or not self._drifted():
            return
        self._decided_for = (self._stream, self.arrival_rate)
        setting = self._setting()
        now = self._current
        try:
            choice = choose(setting, self._stream, arrival_rate=self.arrival_rate)
            kept = predict(now.algorithm, setting, self._stream, now.front_share)
        except MemoryBudgetError:
            return  # R has outgrown what the models take to fit, and the algorithm at work has its memory.
        worth_it = choice.service_rate > _GAIN * kept.service_rate
        if self.arrival_rate is not None and kept.service_rate > self.arrival_rate:
            worth_it = choice.algorithm != now.algorithm
        if worth_it:
            self.decisions.append(choice)
            self._draining = True

    def _drifted(self) -> bool:
        stream, rate = self._decided_for
        now = self._stream
        if rate is None or self.arrival_rate is None:
            other_rate = rate is not self.arrival_rate
        else:
            other_rate = abs(self.arrival_rate - rate) > _DRIFT * rate
        return (
            other_rate
            or now.shuffled != stream.shuffled
            or abs(now.exponent - stream.exponent) > _EXPONENT_DRIFT
            or abs(now.row_count - stream.row_count) > _DRIFT * stream.row_count
        )

    def _change(self) -> None:
        """Put the last choice in force; nothing is pending. The arrays of the next one are empty until tuples come."""
        self._draining = False
        try:
            self._make(self.decisions[-1])
        except MemoryBudgetError:
            self.decisions.pop()

    def _make(self, choice: Choice) -> None:
        share = choice.front_share or None
        try:
            self._join = create(choice.algorithm, self._relation, self._memory_bytes, front_share=share)
            self._current = self.decisions[-1] = choice
            self._counted = (0, 0, 0, 0, 0)
        except MemoryBudgetError:
            # The models round where the algorithms do not: with memory for a tuple or two, they may differ.
            others = choice.predictions.keys() - {choice.algorithm}
            if not others:
                raise
            self._make(choose(self._setting(), self._stream, arrival_rate=self.arrival_rate, candidates=others))

    def _count(self) -> None:
        """Add what the algorithm at work has read and probed since the last time."""
        counts = self._join.statistics
        hits = counts.extra.get("front_stage_hits", 0)
        now = (counts.pages_read, counts.lookups, counts.bytes_read, counts.probes, hits)
        pages, lookups, size, probes, found = (new - old for new, old in zip(now, self._counted, strict=True))
        self._counted = now
        own = self.statistics
        own.pages_read += pages
        own.lookups += lookups
        own.bytes_read += size
        own.probes += probes
        own.extra["front_stage_hits"] += found

    @property
    def _front_stage(self) -> FrontStage | None:
        return self._join.front_stage if isinstance(self._join, CachedJoin) else None

    def _every(self, span: int) -> int:
        return max(1, span // self._sample.capacity)

    def _setting(self) -> Setting:
        relation = self._relation
        return Setting(
            max(1, relation.row_count),
            relation.tuple_bytes,
            max(1, relation.row_count) / max(1, relation.page_count),
            self._memory_bytes,
            self._disk_costs,
            self._processor_costs,
        )
