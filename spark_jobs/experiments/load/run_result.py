"""The result of one run: how many facts a second, and what it took of the machine."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Run:
    """One contender's run over all events of a case.

    Attributes:
        facts_per_second: measured facts by the seconds from the end of the warm-up to the last commit.
        facts: measured facts.
        cpu_seconds_per_million: processor seconds of the whole machine per million facts, warm-up included.
        peak_worker_bytes: most memory of the Python workers; 0 where there are none.
        peak_java_bytes: most memory of the Java machine; 0 where there is none.
        detail: the contender's own figures.
    """

    facts_per_second: float
    facts: int
    cpu_seconds_per_million: float
    peak_worker_bytes: int
    peak_java_bytes: int
    detail: dict[str, object]


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
    """Samples the machine while a block runs.

    Processor time is that of the whole machine, since the PostgreSQL server works for the run as well: run
    nothing else beside it. Memory is the proportional set size, so that what workers share counts once.

    Attributes:
        cpu_seconds: processor seconds spent, user and system, all processes.
        peak_worker_bytes: most memory that the Python workers of this process held together.
        peak_java_bytes: most memory of its Java machine.
    """

    SAMPLE_SECONDS = 0.25

    def __enter__(self) -> ResourceMeter:
        """Start to measure."""
        self.cpu_seconds = 0.0
        self.peak_worker_bytes = 0
        self.peak_java_bytes = 0
        self._ended = threading.Event()
        self._busy_before = _busy_seconds()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and settle the figures."""
        self.cpu_seconds = _busy_seconds() - self._busy_before
        self._ended.set()
        self._sampler.join()

    def _sample(self) -> None:
        while not self._ended.wait(self.SAMPLE_SECONDS):
            workers, java = _sizes()
            self.peak_worker_bytes = max(self.peak_worker_bytes, workers)
            self.peak_java_bytes = max(self.peak_java_bytes, java)


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system + times.nice + times.irq + times.softirq)


def _sizes() -> tuple[int, int]:
    """Bytes that the Python workers, and the Java machine, of this process hold now."""
    workers = java = 0
    for process in psutil.Process().children(recursive=True):
        try:
            if process.name() == "java":
                java += process.memory_full_info().pss
            elif "pyspark" in " ".join(process.cmdline()):
                workers += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return workers, java
