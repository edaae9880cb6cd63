"""The workload of the shipped pipelines: TPC-H orders and their lines land as files of events, in real time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from spark_jobs.durable_files import exclusive_lock
from spark_jobs.errors import WorkloadError
from spark_jobs.settings import Home
from spark_jobs.workload.bursts import ArrivalSchedule, bursty_arrivals, steady_arrivals
from spark_jobs.workload.landing import land, remove_unfinished
from spark_jobs.workload.order_events import EventFiles, OrderFiles, OrderLineFiles, Written
from spark_jobs.workload.order_source import OrderSource
from spark_jobs.workload.rates import HIGHEST_RATE, Phase, SteeredRate, phased
from spark_jobs.workload.tpch_files import generated_scales, tables_folder
from spark_jobs.workload.workload_state import WorkloadState

MAX_ORDERS_PER_FILE = 20_000  # bounds memory when the rate asked for is more than this machine can write
CLOCK_JUMP_SECONDS = 1.0  # between the wall clock and the running time: the machine slept, or its clock was set


@dataclass(frozen=True)
class OrderStreamOptions:
    """What the workload is to be like.

    Attributes:
        rate: mean number of orders per second.
        phases: from when on it is another.
        bursty: arrivals in self-similar bursts; otherwise steady.
        zipf: exponent of Zipf's law for customers, parts and suppliers; 0 keeps TPC-H's own.
        seed: equal seeds give equal events (but for their times).
        duration: end after this time; None: go on until stopped.
        orders: end after this number of orders; None: no limit.
        bad_share: share of bad input among orders, and among lines (see bad_input.py).
        tick: time from one file of a pipeline to the next.
        scale: TPC-H scale whose orders are taken; None: the only one that is generated.

    Raises:
        WorkloadError: a value is out of range.
    """

    rate: float = 200.0
    phases: Sequence[Phase] = ()
    bursty: bool = True
    zipf: float = 1.0
    seed: int = 1
    duration: timedelta | None = None
    orders: int | None = None
    bad_share: float = 0.0
    tick: timedelta = timedelta(seconds=0.5)
    scale: float | None = None

    def __post_init__(self) -> None:
        problems = [
            (
                0 < self.rate <= HIGHEST_RATE,
                f"rate {self.rate:g}: give more than 0 and at most {HIGHEST_RATE:,.0f} orders per second",
            ),
            *(
                (
                    0 <= phase.rate <= HIGHEST_RATE,
                    f"phase {phase.rate:g}: give at most {HIGHEST_RATE:,.0f} orders per second, or 0 for a pause",
                )
                for phase in self.phases
            ),
            (0 <= self.zipf < math.inf, f"zipf {self.zipf:g}: give 0 (TPC-H's own keys), 1 (80/20 rule) or above"),
            (self.seed >= 0, f"seed {self.seed}: give 0 or above"),
            (self.duration is None or self.duration > timedelta(), "duration: give more than nothing"),
            (self.orders is None or self.orders > 0, f"orders {self.orders}: give 1 or above"),
            (0 <= self.bad_share <= 1, f"bad share {self.bad_share:g}: give a share from 0 to 1"),
            (self.tick >= timedelta(milliseconds=10), f"tick {self.tick}: give 10ms or above"),
        ]
        wrong = [text for is_fine, text in problems if not is_fine]
        if wrong:
            raise WorkloadError(f"The workload can't be made like this. {'; '.join(wrong)}.")


class Stop(Protocol):
    """Something that tells when to end: a StopSignal, or a threading.Event."""

    def wait(self, seconds: float, /) -> bool:
        """Wait no longer than this; return whether the end has come."""


def write_order_stream(
    home: Home,
    options: OrderStreamOptions,
    stop: Stop,
    on_tick: Callable[[dict[str, Written]], None] = lambda written: None,
) -> dict[str, Written]:
    """Write events into the landing folders until time, count or `stop` ends it; return what was written.

    While it runs, `rates.steer` with the file `home.workload_rate` changes its rate.
    A second run goes on where the last one ended, with new event ids, however that one ended.

    Raises:
        WorkloadError: no TPC-H tables are there, another workload runs in this home, or the state is damaged.
    """
    scale = _scale(home, options.scale)
    try:
        with exclusive_lock(home.workload_state.with_suffix(".lock"), wait=False):
            return _OrderStream(home, scale, options).run(stop, on_tick)
    except BlockingIOError as error:
        raise WorkloadError(
            f"A workload is running in {home.root} already. Stop it before you start another."
        ) from error


class _OrderStream:
    """One run of the workload."""

    def __init__(self, home: Home, scale: float, options: OrderStreamOptions) -> None:
        self._options = options
        self._source = OrderSource(
            tables_folder(home, scale), zipf=options.zipf, seed=options.seed, bad_share=options.bad_share
        )
        self._state = WorkloadState(home.workload_state, scale=f"{scale:g}")
        self._files: list[tuple[EventFiles, Path]] = [
            (files, home.landing(files.pipeline)) for files in (OrderFiles(), OrderLineFiles())
        ]
        for files, folder in self._files:
            remove_unfinished(folder)
            if not home.workload_state.exists() and any(folder.glob(f"{files.pipeline}-*.{files.suffix}")):
                raise WorkloadError(
                    f"{folder} holds events, but {home.workload_state}, which says where to continue, is gone. "
                    "Use another FRESHET_HOME, or empty the landing folders and the warehouse."
                )
        home.workload_rate.unlink(missing_ok=True)  # an earlier run was steered by it
        rate = SteeredRate(home.workload_rate, phased(options.rate, options.phases))
        arrivals = bursty_arrivals(rate, seed=options.seed) if options.bursty else steady_arrivals(rate)
        self._schedule = ArrivalSchedule(arrivals)

    def run(self, stop: Stop, on_tick: Callable[[dict[str, Written]], None]) -> dict[str, Written]:
        """Write until the end, in real time."""
        tick = self._options.tick.total_seconds()
        end = self._options.duration.total_seconds() if self._options.duration else math.inf
        orders_left = self._options.orders or math.inf
        self._source.take(self._state.next_order, 1)  # reads ahead, so that the first tick isn't late
        started = time.monotonic()
        started_at = time.time()
        elapsed = 0.0
        backlog: npt.NDArray[np.float64] = np.empty(0)
        is_last = False
        while not is_last:
            # Ticks that were missed are not made up for: all that is due by now goes out with this one.
            next_tick = 0.0 if len(backlog) else (elapsed // tick + 1) * tick
            is_stopped = stop.wait(started + min(next_tick, end) - time.monotonic())
            elapsed = time.monotonic() - started
            if abs(time.time() - elapsed - started_at) > CLOCK_JUMP_SECONDS:
                started_at = time.time() - elapsed
            due = np.concatenate([backlog, self._schedule.due(min(elapsed, end))])
            moments, backlog = np.split(due, [int(min(MAX_ORDERS_PER_FILE, orders_left))])
            orders_left -= len(moments)
            is_last = is_stopped or elapsed >= end or orders_left == 0
            self._write(started_at + moments, last=is_last)
            on_tick(self._written())
        return self._written()

    def _write(self, moments: npt.NDArray[np.float64], *, last: bool) -> None:
        """Land one file per pipeline with the orders of these moments (seconds since 1970, UTC)."""
        if not len(moments) and not last:
            return
        first, file_number = self._state.reserve(len(moments))
        rows = self._source.take(first, len(moments))
        order_times = np.round(moments * 1e6).astype(np.int64)
        line_times = np.repeat(order_times, rows.lines_per_order)
        for (files, folder), table, times in zip(
            self._files, (rows.orders, rows.lines), (order_times, line_times), strict=True
        ):
            content = files.next_file(table, times, last=last)
            if content is not None:
                land(folder, f"{files.pipeline}-{file_number:09}.{files.suffix}", content)

    def _written(self) -> dict[str, Written]:
        return {files.pipeline: files.written for files, _ in self._files}


def _scale(home: Home, wanted: float | None) -> float:
    """The scale to take orders from: the one wanted, else the only one there is."""
    scales = generated_scales(home)
    there = ", ".join(f"{scale:g}" for scale in scales) or "none"
    if wanted is not None:
        if wanted not in scales:
            raise WorkloadError(
                f"TPC-H tables of scale {wanted:g} are not in {home.master_data} (there: {there}). "
                f"Run `freshet seed --scale {wanted:g}` first."
            )
        return wanted
    if not scales:
        raise WorkloadError(f"There are no TPC-H tables in {home.master_data} yet. Run `freshet seed` first.")
    if len(scales) > 1:
        raise WorkloadError(f"Several TPC-H scales are in {home.master_data}: {there}. Choose one with --scale.")
    return scales[0]
