"""A script of DuckDB and its PostgreSQL extension: R cached in DuckDB, or read again for each 400,000 events."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from spark_jobs.experiments.load.case import LoadCase
from spark_jobs.experiments.load.run_result import Batch
from spark_jobs.experiments.load.scripts.marked_files import groups_to_load

_OWN_BYTES = 128 << 20  # what DuckDB gets for events, facts and hash tables, besides R


def load(case: LoadCase, files: Sequence[Path], warehouse_url: str, *, cached: bool) -> list[Batch]:
    """Load the files that have no marker yet."""
    import duckdb
    import duckdb_ext

    batches = []
    fetched = ", ".join(f"{column} AS {fact}" for fact, column in case.fetched.items())
    query = f'SELECT id AS event_id, {fetched}, quantity, amount, "at" AS happened_at FROM read_parquet(?) JOIN'
    memory = f"{case.memory_bytes + _OWN_BYTES}B"
    with duckdb.connect(config={"threads": case.cores, "memory_limit": memory}) as connection:
        duckdb_ext.init(connection)
        connection.execute("LOAD postgres_scanner")
        connection.execute(f"ATTACH '{warehouse_url}' AS warehouse (TYPE postgres)")
        relation = f"warehouse.bench.{case.relation}"
        if cached:
            needed = ", ".join(("key", *case.fetched.values()))
            connection.execute(f"CREATE TABLE relation AS SELECT {needed} FROM {relation}")
            relation = "relation"
        for files_at_once in groups_to_load(warehouse_url, files):
            started = time.time()
            paths = [str(file) for file in files_at_once]
            # Joined before the transaction: within one that writes, R would be read over a single connection.
            # Sorted by the primary key: shuffled facts take PostgreSQL twice the time.
            joined = f"{query} {relation} USING (key) ORDER BY event_id"
            connection.execute(f"CREATE OR REPLACE TABLE facts AS {joined}", [paths])
            connection.begin()
            markers = [[file.name] for file in files_at_once]
            connection.executemany("INSERT INTO warehouse.bench.loaded_file VALUES (?)", markers)
            (count,) = connection.execute("INSERT INTO warehouse.bench.fact BY NAME FROM facts").fetchone() or (0,)
            connection.commit()
            batches.append(Batch(started, time.time(), count))
    return batches
