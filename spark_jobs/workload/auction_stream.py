"""The workload of auction_bids: Nexmark's persons, auctions and bids land as Parquet files of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np

from spark_jobs.durable_files import exclusive_lock
from spark_jobs.errors import WorkloadError
from spark_jobs.settings import Home
from spark_jobs.workload.landing import land_parquet, prepare
from spark_jobs.workload.nexmark import EVENT_TIMES, STREAMS, Nexmark
from spark_jobs.workload.order_events import Written
from spark_jobs.workload.pace import FloatArray, Pace, PacedRun, Stop
from spark_jobs.workload.transit import Disorder, Transit
from spark_jobs.workload.workload_state import WorkloadState

MAX_EVENTS_PER_TICK = 500_000  # bounds memory when the rate asked for is more than this machine can write


@dataclass(frozen=True)
class AuctionStreamOptions(Pace):
    """What the workload is to be like; see also Pace.

    Attributes:
        events: end after this number of events, of which 2 % are persons, 6 % auctions and 92 % bids; None: no limit.
        auction: how long auctions are open on average.
        disorder: how far out of order events land.

    Raises:
        WorkloadError: a value is out of range.
    """

    events: int | None = None
    auction: timedelta = timedelta(seconds=30)
    disorder: Disorder = field(default_factory=Disorder)

    @property
    def limit(self) -> int | None:
        """Number of events after which it ends; None: no limit."""
        return self.events

    def _conditions(self) -> Iterator[tuple[bool, str]]:
        yield from super()._conditions()
        yield self.events is None or self.events > 0, f"events {self.events}: give 1 or above"
        yield self.auction > timedelta(), f"auction {self.auction}: give more than nothing"


def write_auction_stream(
    home: Home,
    options: AuctionStreamOptions,
    stop: Stop,
    on_tick: Callable[[dict[str, Written]], None] = lambda written: None,
) -> dict[str, Written]:
    """Write events into the landing folders until time, count or `stop` ends it; return what was written.

    A second run goes on where the last one ended, with new event ids, however that one ended.

    Raises:
        WorkloadError: another one runs in this home, or the state is damaged.
    """
    home.root.mkdir(parents=True, exist_ok=True)
    try:
        with exclusive_lock(home.auctions_state.with_suffix(".lock"), wait=False):
            return _AuctionStream(home, options).run(stop, on_tick)
    except BlockingIOError as error:
        raise WorkloadError(
            f"A workload of auctions is running in {home.root} already. Stop it before you start another."
        ) from error


class _AuctionStream:
    """One run of the workload."""

    def __init__(self, home: Home, options: AuctionStreamOptions) -> None:
        self._home = home
        self._options = options
        self._nexmark = Nexmark(options.seed, options.auction.total_seconds())
        self._state = WorkloadState(home.auctions_state, scale=None)
        for stream in STREAMS:
            prepare(home.landing(stream), f"{stream}-*.parquet", home.auctions_state)
        self._under_way = {stream: Transit(EVENT_TIMES[stream]) for stream in STREAMS}
        self._written = {stream: Written() for stream in STREAMS}

    def run(self, stop: Stop, on_tick: Callable[[dict[str, Written]], None]) -> dict[str, Written]:
        """Write until the end."""
        run = PacedRun(self._options, steered_by=None, most_per_tick=MAX_EVENTS_PER_TICK)
        run.run(self._write, stop, lambda: on_tick(self._written))
        return self._written

    def _write(self, moments: FloatArray, now: float, *, last: bool) -> None:
        """Send the events of these moments on their way, and land what has arrived: all of it at the end."""
        first, file_number = self._state.reserve(len(moments))
        events = self._nexmark.take(first, np.round(moments * 1e6).astype(np.int64))
        disorder, seed = self._options.disorder, self._options.seed
        for purpose, (stream, table) in enumerate(events.items()):
            under_way = self._under_way[stream]
            if table.num_rows:
                first_id = table[0][0].as_py()  # ids are consecutive
                under_way.send(table, disorder.delays(seed, 30 + purpose, first_id, table.num_rows))
            for part, landed in enumerate(under_way.settle(now) if last else under_way.landed(now)):
                name = f"{stream}-{file_number:09}-{part:03}.parquet"
                land_parquet(self._home.landing(stream), name, landed)
                self._written[stream].events += landed.num_rows
