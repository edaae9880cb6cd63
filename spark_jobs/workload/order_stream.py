"""The workload of TPC-H: orders and their lines, payments and shipments land as files of events."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spark_jobs.durable_files import exclusive_lock
from spark_jobs.errors import WorkloadError
from spark_jobs.settings import Home
from spark_jobs.workload.fulfilment import EVENT_TIMES, LONGEST_SECONDS, parts_of
from spark_jobs.workload.landing import land, land_parquet, prepare
from spark_jobs.workload.order_events import EventFiles, OrderFiles, OrderLineFiles, OrderLineRecords, Written
from spark_jobs.workload.order_source import Orders, OrderSource
from spark_jobs.workload.pace import FloatArray, Pace, PacedRun, Stop
from spark_jobs.workload.topics import TopicWriter
from spark_jobs.workload.tpch_files import generated_scales, tables_folder
from spark_jobs.workload.transit import Disorder, Transit
from spark_jobs.workload.workload_state import WorkloadState
from spark_jobs.workload.zipf import IntArray

MAX_ORDERS_PER_FILE = 20_000  # bounds memory when the rate asked for is more than this machine can write


@dataclass(frozen=True)
class OrderStreamOptions(Pace):
    """What the workload is to be like; see also Pace.

    Attributes:
        zipf: exponent of Zipf's law for customers, parts and suppliers; 0 keeps TPC-H's own.
        orders: end after this number of orders; None: no limit.
        bad_share: share of bad input among orders, and among lines (see bad_input.py).
        scale: TPC-H scale whose orders are taken; None: the only one that is generated.
        fulfilment: payments and shipments of the orders land too, so far out of order; None: they don't.
        servers: brokers of Kafka, to whose topics `orders` and `order_lines` these are written; None: to files.

    Raises:
        WorkloadError: a value is out of range.
    """

    zipf: float = 1.0
    orders: int | None = None
    bad_share: float = 0.0
    scale: float | None = None
    fulfilment: Disorder | None = None
    servers: str | None = None

    @property
    def limit(self) -> int | None:
        """Number of orders after which it ends; None: no limit."""
        return self.orders

    def _conditions(self) -> Iterator[tuple[bool, str]]:
        yield from super()._conditions()
        yield 0 <= self.zipf < math.inf, f"zipf {self.zipf:g}: give 0 (TPC-H's own keys), 1 (80/20 rule) or above"
        yield self.orders is None or self.orders > 0, f"orders {self.orders}: give 1 or above"
        yield 0 <= self.bad_share <= 1, f"bad share {self.bad_share:g}: give a share from 0 to 1"


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
        self._home = home
        self._options = options
        self._source = OrderSource(
            tables_folder(home, scale), zipf=options.zipf, seed=options.seed, bad_share=options.bad_share
        )
        self._state = WorkloadState(home.workload_state, scale=f"{scale:g}")
        self._topics = None if options.servers is None else TopicWriter(options.servers)
        lines = OrderLineFiles() if self._topics is None else OrderLineRecords()
        self._files: list[tuple[EventFiles, Path]] = [
            (files, home.landing(files.pipeline)) for files in (OrderFiles(), lines)
        ]
        for files, folder in self._files:
            prepare(folder, f"{files.pipeline}-*.{files.suffix}", home.workload_state)
        # Parts of orders that were placed in an earlier run come in this one.
        self._parts = {
            stream: Transit(event_time, home.workload_under_way / f"{stream}.parquet")
            for stream, event_time in (EVENT_TIMES.items() if options.fulfilment else ())
        }
        self._written = {files.pipeline: files.written for files, _ in self._files}
        for stream in self._parts:
            prepare(home.landing(stream), f"{stream}-*.parquet", home.workload_state)
            self._written[stream] = Written()

    def run(self, stop: Stop, on_tick: Callable[[dict[str, Written]], None]) -> dict[str, Written]:
        """Write until the end."""
        self._source.take(self._state.next_order, 1)  # reads ahead, so that the first tick isn't late
        self._home.workload_rate.unlink(missing_ok=True)  # an earlier run was steered by it
        run = PacedRun(
            self._options,
            steered_by=self._home.workload_rate,
            most_per_tick=MAX_ORDERS_PER_FILE,
            settles_in=LONGEST_SECONDS if self._parts else 0.0,
        )
        run.run(self._write, stop, lambda: on_tick(self._written))
        if self._topics is not None:
            self._topics.finish()
        return self._written

    def _write(self, moments: FloatArray, now: float, *, last: bool) -> None:
        """Land one file per pipeline with the orders of these moments, and what has followed earlier ones."""
        if len(moments) or last:
            first, file_number = self._state.reserve(len(moments))
            rows = self._source.take(first, len(moments))
            order_times = np.round(moments * 1e6).astype(np.int64)
            line_times = np.repeat(order_times, rows.lines_per_order)
            for (files, folder), table, times in zip(
                self._files, (rows.orders, rows.lines), (order_times, line_times), strict=True
            ):
                content = files.next_file(table, times, last=last)
                if content is None:
                    continue
                if self._topics is not None:
                    self._topics.send(files.pipeline, content.splitlines())
                else:
                    land(folder, f"{files.pipeline}-{file_number:09}.{files.suffix}", content)
            self._send_parts(first, rows, order_times)
        for stream, parts in self._parts.items():
            until = time.time() if last and self._options.past else now
            for table in parts.settle(until) if last else parts.landed(now):
                _, file_number = self._state.reserve(0)
                land_parquet(self._home.landing(stream), f"{stream}-{file_number:09}.parquet", table)
                self._written[stream].events += table.num_rows

    def _send_parts(self, first: int, rows: Orders, order_times: IntArray) -> None:
        disorder, seed = self._options.fulfilment, self._options.seed
        if disorder is None:
            return
        for purpose, (stream, (parts, of)) in enumerate(parts_of(rows.orders, first, order_times, seed).items()):
            delays = disorder.delays(seed, 20 + purpose, first, len(order_times))
            self._parts[stream].send(parts, delays[of])


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
