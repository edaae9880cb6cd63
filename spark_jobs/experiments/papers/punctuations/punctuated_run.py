"""One run of PJoin or XJoin over two punctuated streams, on a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.base import Results, Tuples
from spark_jobs.joins.stream_stream.events import Monitor
from spark_jobs.joins.stream_stream.p_join import Find, PJoin
from spark_jobs.joins.stream_stream.patterns import constant
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.stream_stream.theory.punctuation_model import ProcessorCosts
from spark_jobs.joins.stream_stream.x_join import XJoin

MEAN_GAP = 2e-3
"""Seconds between two tuples of a stream (001 §4)."""
WINDOW = 10
"""Keys that are open at a time."""
BUCKETS = 100
# Microseconds, of a machine of 2004 with the paper's Java.
COSTS = ProcessorCosts(tuple=100, compare=2, result=5, scan=2, purge=1000)
ASSUMPTION = (
    "The paper says nothing of keys, buckets and costs. Here a stream has 10 keys open at a time, a tuple has one of "
    "them at random, and a punctuation closes the oldest; streams with one interval close their keys after equally "
    "many tuples, or they would drift apart like a random walk. Hash tables have 100 buckets, and a tuple is compared "
    "with all in its own. Processor time in microseconds, on a virtual clock: 100 a tuple, 2 a comparison, 5 a result, "
    "2 a tuple that a purge looks at, 1,000 to begin a purge, 100 where it finds its tuples by index. Output rates are "
    "those of inputs that always wait."
)
_TUPLES = 10_000
_LEAST_TUPLES = 4_000
_SAMPLES = 30
_MEMORY = 16 << 20


def tuple_count(setting: FigureSetting) -> int:
    """Tuples of each stream; 20 seconds of them at full scale."""
    return max(_LEAST_TUPLES, int(_TUPLES * min(1.0, 4 * setting.scale.hybrid_join_part)))


@dataclass(frozen=True)
class Sample:
    """What was so at one moment.

    Attributes:
        stream_seconds: how long the streams have run.
        processor_seconds: processor time spent.
        state: tuples kept of each stream.
        results: put out so far.
        propagated: punctuations handed on so far.
    """

    stream_seconds: float
    processor_seconds: float
    state: tuple[int, int]
    results: int
    propagated: int


@dataclass
class PunctuatedRun:
    """Both streams, tuple by tuple in order of arrival, with their punctuations between them.

    Args:
        intervals: for each stream its tuples between two punctuations, on average.
        tuples: of each stream.
        threshold: punctuations between two purges; None for XJoin, which has no use for them.
        find: how purges find tuples.
        together: whether both streams punctuate at the same moments, the ideal case of 001 §4.4.
        propagate_count: punctuations between two propagations.

    Attributes:
        samples: in order.
    """

    intervals: tuple[float, float]
    tuples: int
    threshold: int | None
    find: Find = "scan"
    together: bool = False
    propagate_count: int = 1
    samples: list[Sample] = field(default_factory=list)

    def run(self) -> PunctuatedRun:
        """Run it to the end of the streams."""
        self._microseconds, self._results, self._propagated = 0.0, 0, 0
        self.join = self._join()
        random = np.random.default_rng(1)
        arrivals = np.cumsum(random.exponential(MEAN_GAP, (2, self.tuples)), axis=1)
        marks = [self._punctuation_marks(stream, random) for stream in (0, 1)]
        if self.intervals[0] == self.intervals[1]:
            marks[1] = marks[0]
        keys = [_keys(marks[stream], self.tuples, random) for stream in (0, 1)]
        sampled = np.linspace(0, arrivals.max(), _SAMPLES + 1)[1:]
        done = [0, 0]
        for second, stream, until in self._moments(arrivals, marks, sampled):
            for each in (0, 1):
                count = int(np.searchsorted(arrivals[each], second, side="right"))
                self._arrive(each, keys[each], done[each], count)
                done[each] = count
            if stream is None:
                self._sample(second)
            else:
                self._punctuate(stream, until)
        return self

    def _join(self) -> XJoin:
        if self.threshold is None:
            return XJoin(2, Equality(), _MEMORY, VirtualSpill())
        monitor = Monitor(purge_threshold=self.threshold, propagate_count=self.propagate_count)
        return PJoin(2, Equality(), _MEMORY, VirtualSpill(), monitor=monitor, find=self.find)

    def _punctuation_marks(self, stream: int, random: np.random.Generator) -> np.ndarray:
        """After which tuples of a stream its punctuations come: ascending positions, by chance (Poisson)."""
        interval = self.intervals[stream]
        gaps = random.exponential(interval, int(2 * self.tuples / interval) + 10)
        marks = np.ceil(np.cumsum(gaps)).astype(np.int64)
        return marks[marks < self.tuples]

    def _moments(
        self, arrivals: np.ndarray, marks: list[np.ndarray], sampled: np.ndarray
    ) -> Iterator[tuple[float, int | None, int]]:
        """When something is due besides tuples: (second, stream, key closed) or (second, None, 0) for a sample."""
        moments: list[tuple[float, int | None, int]] = [(float(second), None, 0) for second in sampled]
        for stream in (0, 1):
            # Together, a stream closes a key when the later of both has come to its mark.
            for key in range(min(len(each) for each in marks) if self.together else len(marks[stream])):
                positions = [marks[each][key] for each in ((0, 1) if self.together else (stream,))]
                streams = (0, 1) if self.together else (stream,)
                second = max(arrivals[each][position] for each, position in zip(streams, positions, strict=True))
                moments.append((float(second), stream, key))
        return iter(sorted(moments, key=lambda moment: moment[0]))

    def _arrive(self, stream: int, keys: np.ndarray, first: int, until: int) -> None:
        if until <= first:
            return
        ids = np.arange(first, until)
        others = self._kept()[1 - stream]
        settled = self.join.arrive(stream, Tuples(ids, keys[first:until]))
        compared = (until - first) * others / BUCKETS
        self._microseconds += (until - first) * COSTS.tuple + COSTS.compare * compared + COSTS.result * settled.count
        self._note(settled)

    def _punctuate(self, stream: int, key: int) -> None:
        if not isinstance(self.join, PJoin):
            return
        scanned, waiting = self.join.scanned, self.join.monitor.since_purge
        self._note(self.join.punctuate(stream, constant(key)))
        self._microseconds += COSTS.scan * (self.join.scanned - scanned)
        if self.join.monitor.since_purge <= waiting:
            self._microseconds += COSTS.purge if self.find == "scan" else COSTS.tuple

    def _note(self, settled: Results) -> None:
        self._results += settled.count
        self._propagated += sum(len(pattern) for _, pattern in settled.propagated)

    def _kept(self) -> tuple[int, int]:
        first, second = self.join.parts.memory.counts[:2].sum(axis=1).tolist()
        return first, second

    def _sample(self, second: float) -> None:
        self.samples.append(Sample(second, self._microseconds / 1e6, self._kept(), self._results, self._propagated))


def _keys(marks: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """The key of each tuple: one of the WINDOW that are open."""
    closed = np.searchsorted(marks, np.arange(count), side="left")
    return closed + random.integers(0, WINDOW, count)
