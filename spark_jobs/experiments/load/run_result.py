"""The result of one run: how many facts a second, and what it took of the machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import psutil
import psycopg2
from numpy.typing import NDArray


class Batch(NamedTuple):
    """What was committed at once; moments in seconds since 1970.

    Attributes:
        started: when it began.
        ended: when it was committed.
        facts: how many it stored.
    """

    started: float
    ended: float
    facts: int


@dataclass(frozen=True)
class Run:
    """One contender's run over all events of a case.

    Attributes:
        facts_per_second: measured facts by the seconds from the end of the warm-up to the last commit.
        cold_facts_per_second: the same of its first batch.
        ready_seconds: from the start of the contender's work to its first batch: imports, what it keeps of R, Spark.
        facts: all facts that it stored.
        batches: in how many transactions, or batches of transactions.
        cpu_seconds_per_million: processor seconds per million facts, of the contender and the server, start included.
        steady_cpu_seconds_per_million: the same after the warm-up.
        own_cpu_seconds_per_million: of these, those of the contender's own process: a script, or a driver.
        worker_cpu_seconds_per_million: of the processes that it started, without Java.
        java_cpu_seconds_per_million: of its Java machine.
        server_cpu_seconds_per_million: of the server.
        idle_seconds_per_million: what the cores had left per million facts after the warm-up.
        peak_own_bytes: most memory of the contender's own process: a script, or a driver.
        peak_worker_bytes: most memory of the processes that it started, together, without Java.
        peak_java_bytes: most memory of its Java machine.
        detail: the contender's own figures.
    """

    facts_per_second: float
    cold_facts_per_second: float
    ready_seconds: float
    facts: int
    batches: int
    cpu_seconds_per_million: float
    steady_cpu_seconds_per_million: float
    own_cpu_seconds_per_million: float
    worker_cpu_seconds_per_million: float
    java_cpu_seconds_per_million: float
    server_cpu_seconds_per_million: float
    idle_seconds_per_million: float
    peak_own_bytes: int
    peak_worker_bytes: int
    peak_java_bytes: int
    detail: dict[str, object]

    @classmethod
    def of(
        cls,
        batches: Sequence[Batch],
        meter: ResourceMeter,
        warm_up: int,
        cores: int,
        detail: dict[str, object] | None = None,
    ) -> Run:
        """The figures of a run that is over.

        Args:
            batches: in any order.
            meter: ran from the start of the contender's work to its end.
            warm_up: facts that are not measured.
            cores: those that the contender and the server had.
            detail: the contender's own figures.
        """
        ordered = sorted(batches, key=lambda batch: batch.ended)
        rate, measured_facts = measured([(batch.ended, batch.facts) for batch in ordered], warm_up)
        first, last, facts = ordered[0], ordered[-1], sum(batch.facts for batch in ordered)
        seconds = measured_facts / rate
        millions = measured_facts / 1e6
        own, workers, java, server = meter.cpu_between(last.ended - seconds, last.ended) / millions
        return cls(
            facts_per_second=rate,
            cold_facts_per_second=first.facts / (first.ended - first.started),
            ready_seconds=min(batch.started for batch in ordered) - meter.started,
            facts=facts,
            batches=len(ordered),
            cpu_seconds_per_million=meter.cpu_seconds / facts * 1e6,
            steady_cpu_seconds_per_million=own + workers + java + server,
            own_cpu_seconds_per_million=own,
            worker_cpu_seconds_per_million=workers,
            java_cpu_seconds_per_million=java,
            server_cpu_seconds_per_million=server,
            idle_seconds_per_million=cores * seconds / millions - (own + workers + java + server),
            peak_own_bytes=meter.peak_own_bytes,
            peak_worker_bytes=meter.peak_worker_bytes,
            peak_java_bytes=meter.peak_java_bytes,
            detail=detail or {},
        )


def measured(ends: list[tuple[float, int]], warm_up: int) -> tuple[float, int]:
    """Facts per second and facts, after the batches that hold the warm-up.

    Args:
        ends: for each batch the moment of its commit in seconds, and its facts.
        warm_up: facts that are not measured.
    """
    loaded, started = 0, None
    for end, facts in ends:
        loaded += facts
        if loaded >= warm_up:
            started = end
            break
    if started is None or started == ends[-1][0]:
        raise ValueError("the warm-up took all batches: measure more events")
    rest = sum(facts for _, facts in ends) - loaded
    return rest / (ends[-1][0] - started), rest


class ResourceMeter:
    """Samples what this process, those that it starts and the server take, while a block runs.

    Memory is the proportional set size, so that what processes share counts once; the server's is not counted. What
    else runs on the machine does not count, but slows the run down; nor does the time that it takes to look.

    Args:
        warehouse_url: the server, on this machine.

    Attributes:
        started: when it began to measure, in seconds since 1970.
        cpu_seconds: processor seconds spent, user and system.
        peak_own_bytes: most memory of this process.
        peak_worker_bytes: most memory that the processes it started held together, without Java.
        peak_java_bytes: most memory of its Java machine.
    """

    SAMPLE_SECONDS = 0.5

    def __init__(self, warehouse_url: str) -> None:
        self._own, self._server = psutil.Process(), postmaster(warehouse_url)
        self._samples: list[tuple[float, NDArray[np.float64]]] = []
        self._looking_seconds = 0.0

    def __enter__(self) -> ResourceMeter:
        """Start to measure."""
        self.started = time.time()
        self.cpu_seconds = 0.0
        self.peak_own_bytes = 0
        self.peak_worker_bytes = 0
        self.peak_java_bytes = 0
        self._ended = threading.Event()
        self._look()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and settle the figures."""
        self._ended.set()
        self._sampler.join()
        self._look()
        self.cpu_seconds = float(np.sum(self._samples[-1][1] - self._samples[0][1]))

    def cpu_between(self, began: float, ended: float) -> NDArray[np.float64]:
        """Processor seconds between two moments, to a sample's length; of a meter that has ended.

        Returns:
            shape (4,): of this process, of those that it started, of their Java machine, of the server.
        """
        moments = [moment for moment, _ in self._samples]
        spent = np.transpose([seconds for _, seconds in self._samples])
        return np.array([np.diff(np.interp([began, ended], moments, each))[0] for each in spent])

    def _sample(self) -> None:
        while not self._ended.wait(self.SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        began = time.thread_time()
        spent, sizes = np.zeros(4), [0, 0, 0]
        for process in _tree(self._own):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                kind = 0 if process == self._own else 2 if process.name() == "java" else 1
                spent[kind] += _busy_seconds(process)
                sizes[kind] += process.memory_full_info().pss
        for process in _tree(self._server):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                spent[3] += _busy_seconds(process)
        self._looking_seconds += time.thread_time() - began
        spent[0] -= self._looking_seconds
        # A process that ends between two looks is missing for a moment, until its parent has taken its times over.
        self._samples.append((time.time(), np.maximum(spent, self._samples[-1][1]) if self._samples else spent))
        own, workers, java = sizes
        self.peak_own_bytes = max(self.peak_own_bytes, own)
        self.peak_worker_bytes = max(self.peak_worker_bytes, workers)
        self.peak_java_bytes = max(self.peak_java_bytes, java)


def postmaster(warehouse_url: str) -> psutil.Process:
    """The server's first process, whose children serve."""
    with closing(psycopg2.connect(warehouse_url)) as connection:
        server = psutil.Process(connection.info.backend_pid).parent()
    if server is None:
        raise RuntimeError("the server's sessions have no parent: it does not run on this machine")
    return server


def _tree(root: psutil.Process) -> Iterator[psutil.Process]:
    yield root
    yield from root.children(recursive=True)


def _busy_seconds(process: psutil.Process) -> float:
    """Of the process, and of its children that have ended."""
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
