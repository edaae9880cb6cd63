"""Contender (d), the limit: binary COPY of rows that are joined and encoded already, over one connection a core."""

from __future__ import annotations

import io
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg2
import pyarrow as pa

from spark_jobs.experiments.load.data import EVENTS_PER_FILE, LoadCase, event_table, joined_with_relation
from spark_jobs.experiments.load.freshet_join import bench_definition
from spark_jobs.experiments.load.run_result import ResourceMeter, Run
from spark_jobs.warehouse.copy_encoding.rows import encode
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.fact_table_check import describe_fact_table


def load_by_copy(case: LoadCase, warehouse_url: str) -> Run:
    """Load the measured events; only what happens from the first byte to the last commit counts."""
    tables = [
        joined_with_relation(event_table(case, n, EVENTS_PER_FILE)) for n in range(0, case.events, EVENTS_PER_FILE)
    ]
    with closing(psycopg2.connect(warehouse_url)) as connection:
        types = {field.name: field.type for field in tables[0].schema}
        fact = describe_fact_table(connection, bench_definition(case, Path("/")), types)
    streams = [io.BytesIO(_encoded(table, fact)) for table in tables]
    connections = [psycopg2.connect(warehouse_url) for _ in range(os.cpu_count() or 1)]
    started = time.perf_counter()
    with ResourceMeter() as meter, ThreadPoolExecutor(len(connections)) as pool:
        # psycopg2 lets other threads run while it waits for the server.
        shares = [streams[number :: len(connections)] for number in range(len(connections))]
        list(pool.map(_copy, connections, shares))
        seconds = time.perf_counter() - started
    for connection in connections:
        connection.close()
    return Run(case.events / seconds, case.events, meter.cpu_seconds / case.events * 1e6, 0, 0, {})


def _encoded(facts: pa.Table, table: FactTable) -> bytes:
    stream = encode(facts, table.targets).rows.stream()
    return b"".join(iter(lambda: stream.read(1 << 20), b""))


def _copy(connection: psycopg2.extensions.connection, streams: list[io.BytesIO]) -> None:
    for stream in streams:  # a transaction for each 100,000 rows, as large as those of the other contenders
        with connection, connection.cursor() as cursor:
            cursor.copy_expert("COPY bench.fact FROM STDIN (FORMAT binary)", stream, size=1 << 20)
