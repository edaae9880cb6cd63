"""Measures what a run takes of the machine: processor time, and memory of the Python workers."""

from __future__ import annotations

import threading

import psutil


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
