"""What all contenders join: Nexmark's auctions and bids as Parquet files, and the table that their pairs go into."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import psycopg2
import pyarrow.parquet as pq

from spark_jobs.workload.nexmark import Nexmark

EVENTS_PER_FILE = 50_000  # of all streams together
WINDOW = timedelta(minutes=10)
LATENESS = timedelta(seconds=10)
STREAMS = ("auctions", "bids")  # persons are left out: no part of the join
_SEED = 7
_AUCTION_SECONDS = 30.0


@dataclass(frozen=True)
class CorrelateCase:
    """One size of the benchmark.

    Attributes:
        events: persons, auctions and bids that are measured.
        warm_up: those before them, joined but not measured.
        windows: how many windows all events span: in event time, so that the join has to keep one of so many parts of
            them at a time.
    """

    events: int
    warm_up: int
    windows: float

    @property
    def all_events(self) -> int:
        """Measured and warm-up."""
        return self.warm_up + self.events

    @property
    def event_rate(self) -> float:
        """Events per second of event time."""
        return self.all_events / (self.windows * WINDOW.total_seconds())


FACT_TABLE = """
    CREATE TABLE bench.auction_bids (
        auction_id bigint NOT NULL, bid_id bigint NOT NULL, seller bigint NOT NULL, category integer NOT NULL,
        bidder bigint NOT NULL, price bigint NOT NULL, opened_at timestamptz NOT NULL, bid_at timestamptz NOT NULL,
        PRIMARY KEY (auction_id, bid_id)
    )
"""


def empty_fact(warehouse_url: str) -> None:
    """Make the fact table anew, forget what was loaded, let the server settle: every run starts from one state."""
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("CREATE SCHEMA IF NOT EXISTS bench")
        cursor.execute("DROP TABLE IF EXISTS bench.auction_bids")
        cursor.execute(FACT_TABLE)
        cursor.execute("TRUNCATE freshet.pipeline CASCADE")  # the same files are loaded again, from an empty state
        cursor.execute("CHECKPOINT")


def count_facts(warehouse_url: str) -> int:
    """Facts that a run has stored."""
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM bench.auction_bids")
        [(count,)] = cursor.fetchall()
    return int(count)


def write_events(case: CorrelateCase, folder: Path) -> dict[str, int]:
    """Write the streams, each in a folder of its name, one file for every 50,000 events; rows by stream.

    They are not compressed, which brings bids near the 100 bytes that Nexmark gives them. Spark takes files in the
    order of their modification times, so those of one stretch of event time are of one time.
    """
    nexmark = Nexmark(_SEED, _AUCTION_SECONDS)
    began = datetime.now(UTC).timestamp() - 2 * case.windows * WINDOW.total_seconds()
    rows = dict.fromkeys(STREAMS, 0)
    for stream in STREAMS:
        (folder / stream).mkdir(parents=True)
    for first in range(0, case.all_events, EVENTS_PER_FILE):
        numbers = np.arange(first, min(first + EVENTS_PER_FILE, case.all_events))
        events = nexmark.take(first, ((began + numbers / case.event_rate) * 1e6).astype(np.int64))
        for stream in STREAMS:
            path = folder / stream / f"{stream}-{first:012d}.parquet"
            pq.write_table(events[stream], path, compression="none", use_dictionary=False)
            os.utime(path, (1_700_000_000 + first / EVENTS_PER_FILE,) * 2)
            rows[stream] += events[stream].num_rows
    return rows
