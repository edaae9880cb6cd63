"""What all contenders join, as Parquet files: Nexmark's auctions, bids and closings, or orders; the results' table."""

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
    "accumulate": "orders, payments and shipments, a row each order",
}

EVENTS_PER_FILE = 50_000  # of all streams together
WINDOW = timedelta(minutes=10)
LATENESS = timedelta(seconds=10)
SCHEMAS = {
    "auctions": "auction_id bigint, category int, seller bigint, opened_at timestamp",
    "bids": "bid_id bigint, auction_id bigint, bidder bigint, price bigint, bid_at timestamp",
    "closings": "closing_id bigint, auction_id bigint, closed_at timestamp",
    "orders": "order_id bigint, customer bigint, total bigint, ordered_at timestamp",
    "payments": "payment_id bigint, order_id bigint, amount bigint, paid_at timestamp",
    "shipments": "shipment_id bigint, order_id bigint, carrier int, shipped_at timestamp",
}
"""Columns that are read of each stream, as Spark's DDL: its id first, its event time last. Persons are no part."""

FACTS = {
    **{"auction_id": "auctions", "bid_id": "bids", "seller": "auctions", "category": "auctions", "bidder": "bids"},
    **{"price": "bids", "opened_at": "auctions", "bid_at": "bids", "closing_id": "closings", "closed_at": "closings"},
    **{"order_id": "orders", "customer": "orders", "total": "orders", "ordered_at": "orders"},
    **{"payment_id": "payments", "amount": "payments", "paid_at": "payments"},
    **{"shipment_id": "shipments", "carrier": "shipments", "shipped_at": "shipments"},
}
"""Columns of the fact table, and the stream that each comes from; those of streams that are not joined are left out."""

_FULL_MEMORY = 512 << 20
_SEED = 7
_AUCTION_SECONDS = 30.0
_PARTS = {"payments": 60.0, "shipments": 600.0}  # so long after its order, at most, does a part of it happen


def columns_of(stream: str) -> dict[str, str]:
    """Columns that are read of a stream, and their types."""
    return dict(column.split() for column in SCHEMAS[stream].split(", "))


@dataclass(frozen=True)
class CorrelateCase:
    """One case of the benchmark.

    Attributes:
        regime: of REGIMES. fits: auctions and bids, whose state fits into memory; tenth: memory holds a tenth of it;
            three: auctions, bids and closings; accumulate: orders, payments and shipments, in rows that are filled in.
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
        if self.accumulates:
            return ("orders", "payments", "shipments")
        return ("auctions", "bids", "closings") if self.regime == "three" else ("auctions", "bids")

    @property
    def accumulates(self) -> bool:
        """Whether a fact is a row that the streams' events fill in."""
        return self.regime == "accumulate"

    @property
    def workload(self) -> str:
        """What its events are, whatever is joined of them."""
        return "orders" if self.accumulates else "auctions"

    @property
    def key(self) -> tuple[str, ...]:
        """The fact table's."""
        return ("order_id",) if self.accumulates else tuple(next(iter(columns_of(each))) for each in self.streams)

    @property
    def fact_columns(self) -> dict[str, str]:
        """Columns of the fact table, and the stream that each comes from."""
        return {column: stream for column, stream in FACTS.items() if stream in self.streams}

    @property
    def tuples_per_event(self) -> float:
        """Tuples of these streams by all events, Nexmark's persons among them."""
        if self.accumulates:
            return 1.0
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

    def generator(self) -> Auctions | Orders:
        """What makes the events."""
        return Orders() if self.accumulates else Auctions()

    @property
    def memory_bytes(self) -> int:
        """What Freshet's operator may keep of the tuples of a window."""
        if self.regime != "tenth":
            return _FULL_MEMORY
        return SweepArea.bytes_for(round(self.all_events / self.windows), len(self.streams)) // 10


_STRIDE = 7919
_TYPES = {"bigint": "bigint", "int": "integer", "timestamp": "timestamptz"}


def empty_fact(warehouse_url: str, case: CorrelateCase) -> None:
    """Make the fact table anew, forget what was loaded, let the server settle: every run starts from one state."""
    kinds = {column: kind for stream in case.streams for column, kind in columns_of(stream).items()}
    # What an order's row is made of comes later, or never.
    needed = "" if case.accumulates else " NOT NULL"
    columns = ", ".join(f"{column} {_TYPES[kinds[column]]}{needed}" for column in case.fact_columns)
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("CREATE SCHEMA IF NOT EXISTS bench")
        cursor.execute("DROP TABLE IF EXISTS bench.auction_bids")
        cursor.execute(f"CREATE TABLE bench.auction_bids ({columns}, PRIMARY KEY ({', '.join(case.key)}))")
        cursor.execute("DROP TABLE IF EXISTS bench.loaded_file")
        cursor.execute("CREATE TABLE bench.loaded_file (name text PRIMARY KEY)")
        cursor.execute("TRUNCATE freshet.pipeline CASCADE")  # the same files are loaded again, from an empty state
        cursor.execute("CHECKPOINT")


def stored_facts(warehouse_url: str) -> tuple[int, str]:
    """Facts that a run has stored: how many, and a sum over hash codes of them all, which does not know their order."""
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), coalesce(sum(hashtextextended(fact::text, 0)), 0)::text FROM bench.auction_bids fact"
        )
        [(count, content)] = cursor.fetchall()
    return int(count), str(content)


class Auctions:
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


class Orders:
    """Orders, stretch by stretch, with their payments and shipments in the stretches in which these happen."""

    def __init__(self) -> None:
        self._orders = 0
        self._to_come = {
            stream: pa.table({"moment": pa.array([], pa.int64()), "order": pa.array([], pa.int64())})
            for stream in _PARTS
        }

    def take(self, first: int, moments: NDArray[np.float64], *, last: bool = False) -> Iterator[tuple[str, pa.Table]]:
        """As of `Auctions`; a third of the events of all stretches are orders, and happen when these are said to."""
        random = np.random.default_rng([_SEED, first])
        ordered = (moments[:: 1 + len(_PARTS)] * 1e6).astype(np.int64)
        ids = np.arange(self._orders, self._orders + len(ordered))
        self._orders += len(ids)
        yield "orders", _events("orders", ids, ids * _STRIDE % 10_000, ids * 31 % 50_000, ordered)
        for stream, delay in _PARTS.items():
            happen = ordered + (random.random(len(ids)) * delay * 1e6).astype(np.int64)
            waiting = pa.concat_tables([self._to_come[stream], pa.table({"moment": happen, "order": ids})])
            due = (
                pa.array(np.ones(len(waiting), np.bool_))
                if last
                else pc.less_equal(waiting["moment"], int(moments[-1] * 1e6))
            )
            self._to_come[stream] = waiting.filter(pc.invert(due))
            parts = waiting.filter(due).sort_by("moment")
            of = parts["order"].to_numpy()
            yield stream, _events(stream, of + 1, of, of % 5, parts["moment"].to_numpy())


def _events(stream: str, *columns: NDArray[np.int64]) -> pa.Table:
    """Events of a stream, by its columns, the last of which is their time in microseconds since 1970."""
    kinds = {"bigint": pa.int64(), "int": pa.int32(), "timestamp": pa.timestamp("us", "UTC")}
    named = zip(columns_of(stream).items(), columns, strict=True)
    return pa.table({name: pa.array(values).cast(kinds[kind]) for (name, kind), values in named})


def write_events(case: CorrelateCase, folder: Path) -> dict[str, int]:
    """Write the streams, each in a folder of its name, one file for every 50,000 events; rows by stream.

    They are not compressed, which brings bids near the 100 bytes that Nexmark gives them. Spark takes files in the
    order of their modification times, so those of one stretch of event time are of one time.
    """
    streams = case.generator()
    landed = datetime.now(UTC).timestamp() - 3600
    began = datetime.now(UTC).timestamp() - 2 * case.windows * WINDOW.total_seconds()
    rows: dict[str, int] = {}
    for first in range(0, case.all_events, EVENTS_PER_FILE):
        numbers = np.arange(first, min(first + EVENTS_PER_FILE, case.all_events))
        last = first + EVENTS_PER_FILE >= case.all_events
        for stream, events in streams.take(first, began + numbers / case.event_rate, last=last):
            path = folder / stream / f"{stream}-{first:012d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(events, path, compression="none", use_dictionary=False)
            os.utime(path, (landed + first / EVENTS_PER_FILE,) * 2)
            rows[stream] = rows.get(stream, 0) + events.num_rows
    return rows
