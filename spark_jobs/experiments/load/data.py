"""The data that all contenders load: a relation R, a stream of events as Parquet files, the fact table."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from psycopg2 import sql

from spark_jobs.workload.zipf import ZipfDistribution

EVENTS_PER_FILE = 100_000
# Spreads the popular keys all over R: consecutive ranks are far apart. Coprime to every size of R used here.
_STRIDE = 7_368_787
_FIRST_SK = 1_000_000_007


@dataclass(frozen=True)
class LoadCase:
    """One size of the benchmark.

    Attributes:
        relation_rows: tuples of R.
        events: stream tuples that are measured.
        warm_up: stream tuples before them, loaded but not measured.
        exponent: Zipf exponent of the keys.
    """

    relation_rows: int
    events: int
    warm_up: int = 600_000
    exponent: float = 1.0

    RELATION_TUPLE_BYTES = 134

    @property
    def relation(self) -> str:
        """Name of R's table in schema `bench`."""
        return f"relation_{self.relation_rows}"

    @property
    def memory_bytes(self) -> int:
        """The memory that a join may use: 10 % of R."""
        return self.relation_rows * self.RELATION_TUPLE_BYTES // 10


FACT_TABLE = """
    CREATE TABLE bench.fact (
        event_id bigint PRIMARY KEY, relation_sk bigint NOT NULL, quantity integer NOT NULL,
        amount numeric(15, 2) NOT NULL, happened_at timestamptz NOT NULL
    )
"""


def make_relation(warehouse_url: str, case: LoadCase) -> None:
    """Make R, unless it is there: bigint key, bigint surrogate key, 100 bytes that are not fetched."""
    table = sql.Identifier("bench", case.relation)
    with psycopg2.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS bench")
        cursor.execute("SELECT to_regclass(%s)", [f"bench.{case.relation}"])
        if cursor.fetchone() != (None,):
            return
        cursor.execute(
            sql.SQL("CREATE TABLE {} (key bigint NOT NULL, sk bigint NOT NULL, name text NOT NULL)").format(table)
        )
        cursor.execute(
            sql.SQL(
                "INSERT INTO {} SELECT key, key * 3 + %s, rpad('tuple ' || key, 94, '.') "
                "FROM generate_series(0, %s - 1) key"
            ).format(table),
            [_FIRST_SK, case.relation_rows],
        )
        cursor.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (key)").format(table))
    with closing(psycopg2.connect(warehouse_url)) as connection:
        connection.autocommit = True
        connection.cursor().execute(sql.SQL("VACUUM ANALYZE {}").format(table))


def empty_fact(warehouse_url: str) -> None:
    """Make the fact table anew, and let the server settle: every run starts from the same state."""
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("DROP TABLE IF EXISTS bench.fact")
        cursor.execute(FACT_TABLE)
        cursor.execute("DELETE FROM freshet.source_range")  # the same files are loaded again
        cursor.execute("CHECKPOINT")


def event_table(case: LoadCase, first: int, count: int) -> pa.Table:
    """Events first to first + count - 1; the same numbers give the same events."""
    random = np.random.default_rng([2010, case.relation_rows, first])
    ranks = ZipfDistribution(case.relation_rows, case.exponent).ranks(random.random(count))
    return pa.table(
        {
            "id": np.arange(first, first + count),
            "key": (ranks * _STRIDE) % case.relation_rows,
            "quantity": random.integers(1, 50, count, dtype=np.int32),
            "amount": _decimals(random.integers(1_00, 5_000_00, count)),
            "at": pa.repeat(pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC")), count),
        }
    )


def joined_with_relation(events: pa.Table) -> pa.Table:
    """The events with R's surrogate key, as the join makes them."""
    return events.append_column("relation_sk", pa.array(events["key"].to_numpy() * 3 + _FIRST_SK))


def _decimals(cents: NDArray[np.int64]) -> pa.Array:
    """decimal(15,2) from positive cents: the low halves of 128-bit integers, the high ones 0."""
    words = np.zeros((len(cents), 2), np.int64)
    words[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(15, 2), len(cents), [None, pa.py_buffer(words)])


def write_events(case: LoadCase, folder: Path) -> None:
    """Write warm-up and measured events as Parquet files of 100,000, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for first in range(0, case.warm_up + case.events, EVENTS_PER_FILE):
        path = folder / f"events-{first:012d}.parquet"
        if not path.exists():
            pq.write_table(event_table(case, first, EVENTS_PER_FILE), path.with_name("." + path.name))
            path.with_name("." + path.name).rename(path)
            # Spark takes files in the order of their modification times.
            os.utime(path, (1_700_000_000 + first / EVENTS_PER_FILE,) * 2)
