"""The limit: binary COPY of rows that are joined and encoded already, over one connection a core."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.columns.copy_encoding.rows import encode
from spark_jobs.experiments.load.case import LoadCase
from spark_jobs.experiments.load.data import joined_with_relation
from spark_jobs.experiments.load.event_forms import source_of
from spark_jobs.experiments.load.freshet_join import bench_definition
from spark_jobs.experiments.load.run_result import Batch, ResourceMeter
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.fact_table_check import describe_fact_table


def load_by_copy(case: LoadCase, files: Sequence[Path], warehouse_url: str) -> tuple[list[Batch], ResourceMeter]:
    """Load the events of files; only what happens from the first byte to the last commit counts, and is metered."""
    tables = [joined_with_relation(pq.read_table(file), case) for file in files]
    with closing(psycopg2.connect(warehouse_url)) as connection:
        types = {field.name: field.type for field in tables[0].schema}
        fact = describe_fact_table(connection, bench_definition(case, source_of(Path("/"), "parquet")), types)
    encoded = [(io.BytesIO(_encoded(table, fact)), len(table)) for table in tables]
    connections = [psycopg2.connect(warehouse_url) for _ in range(case.cores)]
    with ResourceMeter(warehouse_url) as meter, ThreadPoolExecutor(len(connections)) as pool:
        # psycopg2 lets other threads run while it waits for the server.
        shares = [encoded[number :: len(connections)] for number in range(len(connections))]
        batches = [batch for share in pool.map(_copy, connections, shares) for batch in share]
    for connection in connections:
        connection.close()
    return batches, meter


def _encoded(facts: pa.Table, table: FactTable) -> bytes:
    stream = encode(facts, table.targets).rows.stream()
    return b"".join(iter(lambda: stream.read(1 << 20), b""))


def _copy(connection: psycopg2.extensions.connection, tables: list[tuple[io.BytesIO, int]]) -> list[Batch]:
    batches = []
    for stream, rows in tables:  # a transaction for each 100,000 rows
        started = time.time()
        with connection, connection.cursor() as cursor:
            cursor.copy_expert("COPY bench.fact FROM STDIN (FORMAT binary)", stream, size=1 << 20)
        batches.append(Batch(started, time.time(), rows))
    return batches
