"""What all contenders join: Nexmark's auctions, bids and closings as Parquet files, and the table of the results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spark_jobs.joins.structures.sweep_area import SweepArea
from spark_jobs.workload.nexmark import AUCTIONS, BIDS, GROUP, Nexmark

REGIMES = {
    "fits": "auctions and bids",
    "tenth": "the same, state ten times Freshet's memory",
    "three": "auctions, bids and closings",
}

EVENTS_PER_FILE = 50_000  # of all streams together
WINDOW = timedelta(minutes=10)
LATENESS = timedelta(seconds=10)
SCHEMAS = {
    "auctions": "auction_id bigint, category int, seller bigint, opened_at timestamp",
    "bids": "bid_id bigint, auction_id bigint, bidder bigint, price bigint, bid_at timestamp",
    "closings": "closing_id bigint, auction_id bigint, closed_at timestamp",
}
"""Columns that are read of each stream, as Spark's DDL: its id first, its event time last. Persons are no part."""

FACTS = {
    **{"auction_id": "auctions", "bid_id": "bids", "seller": "auctions", "category": "auctions", "bidder": "bids"},
    **{"price": "bids", "opened_at": "auctions", "bid_at": "bids", "closing_id": "closings", "closed_at": "closings"},
}
"""Columns of the fact table, and the stream that each comes from; without closings the last two are not there."""

_FULL_MEMORY = 512 << 20
_SEED = 7
_AUCTION_SECONDS = 30.0


@dataclass(frozen=True)
class CorrelateCase:
    """One case of the benchmark.

    Attributes:
        regime: of REGIMES. fits: auctions and bids, whose state fits into memory; tenth: memory holds a tenth of it;
            three: auctions, bids and closings.
        events: persons, auctions and bids that are measured.
        warm_up: those before them, joined but not measured.
        windows: how many windows all events span: in event time, so that the join has to keep one of so many parts of
            them at a time.
    """

    regime: str
    events: int
    warm_up: int
    windows: float

    @property
    def streams(self) -> tuple[str, ...]:
        """Those that are joined."""
        return tuple(SCHEMAS)[: 3 if self.regime == "three" else 2]

    @property
    def fact_columns(self) -> dict[str, str]:
        """Columns of the fact table, and the stream that each comes from."""
        return {column: stream for column, stream in FACTS.items() if stream in self.streams}

    @property
    def tuples_per_event(self) -> float:
        """Tuples of these streams by all of Nexmark's events, persons among them."""
        return (
            sum({"auctions": AUCTIONS, "bids": BIDS, "closings": AUCTIONS}[stream] for stream in self.streams) / GROUP
        )

    @property
    def all_events(self) -> int:
        """Measured and warm-up."""
        return self.warm_up + self.events

    @property
    def event_rate(self) -> float:
        """Events per second of event time."""
        return self.all_events / (self.windows * WINDOW.total_seconds())

    @property
    def memory_bytes(self) -> int:
        """What Freshet's operator may keep of the tuples of a window."""
        if self.regime != "tenth":
            return _FULL_MEMORY
        return SweepArea.bytes_for(round(self.all_events / self.windows), len(self.streams)) // 10


_TYPES = {"category": "integer", "opened_at": "timestamptz", "bid_at": "timestamptz", "closed_at": "timestamptz"}


def empty_fact(warehouse_url: str, case: CorrelateCase) -> None:
    """Make the fact table anew, forget what was loaded, let the server settle: every run starts from one state."""
    columns = ", ".join(f"{column} {_TYPES.get(column, 'bigint')} NOT NULL" for column in case.fact_columns)
    key = ", ".join(column for column in ("auction_id", "bid_id", "closing_id") if column in case.fact_columns)
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("CREATE SCHEMA IF NOT EXISTS bench")
        cursor.execute("DROP TABLE IF EXISTS bench.auction_bids")
        cursor.execute(f"CREATE TABLE bench.auction_bids ({columns}, PRIMARY KEY ({key}))")
        cursor.execute("TRUNCATE freshet.pipeline CASCADE")  # the same files are loaded again, from an empty state
        cursor.execute("CHECKPOINT")


def count_facts(warehouse_url: str) -> int:
    """Facts that a run has stored."""
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM bench.auction_bids")
        [(count,)] = cursor.fetchall()
    return int(count)


class Streams:
    """Nexmark's events, stretch by stretch, and closings: the end of each auction as an event of its own."""

    def __init__(self) -> None:
        self._nexmark = Nexmark(_SEED, _AUCTION_SECONDS)
        self._to_close: list[pa.Table] = []

    def take(self, first: int, moments: NDArray[np.float64], *, last: bool = False) -> Iterator[tuple[str, pa.Table]]:
        """Each stream's events of a stretch.

        Args:
            first: number of the first of Nexmark's events.
            moments: their times in seconds since 1970.
            last: all that is still open closes.
        """
        events = self._nexmark.take(first, (moments * 1e6).astype(np.int64))
        auctions = events["auctions"]
        ids = auctions["auction_id"]
        self._to_close.append(pa.table([ids, ids, auctions["expires_at"]], ["closing_id", "auction_id", "closed_at"]))
        closing_ = pa.concat_tables(self._to_close)
        now = pa.scalar(int(moments[-1] * 1e6), pa.timestamp("us", "UTC"))
        closed = pa.array(np.ones(closing_.num_rows, np.bool_)) if last else pc.less_equal(closing_["closed_at"], now)
        self._to_close = [closing_.filter(pc.invert(closed))]
        yield "auctions", auctions
        yield "bids", events["bids"]
        yield "closings", closing_.filter(closed).sort_by("closed_at")


def write_events(case: CorrelateCase, folder: Path) -> dict[str, int]:
    """Write the streams, each in a folder of its name, one file for every 50,000 events; rows by stream.

    They are not compressed, which brings bids near the 100 bytes that Nexmark gives them. Spark takes files in the
    order of their modification times, so those of one stretch of event time are of one time.
    """
    streams = Streams()
    began = datetime.now(UTC).timestamp() - 2 * case.windows * WINDOW.total_seconds()
    rows = dict.fromkeys(SCHEMAS, 0)
    for stream in SCHEMAS:
        (folder / stream).mkdir(parents=True)
    for first in range(0, case.all_events, EVENTS_PER_FILE):
        numbers = np.arange(first, min(first + EVENTS_PER_FILE, case.all_events))
        last = first + EVENTS_PER_FILE >= case.all_events
        for stream, events in streams.take(first, began + numbers / case.event_rate, last=last):
            path = folder / stream / f"{stream}-{first:012d}.parquet"
            pq.write_table(events, path, compression="none", use_dictionary=False)
            os.utime(path, (1_700_000_000 + first / EVENTS_PER_FILE,) * 2)
            rows[stream] += events.num_rows
    return rows
