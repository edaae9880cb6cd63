"""A script of polars and ADBC: R's needed columns in memory, COPY by Arrow's PostgreSQL driver, a process a core."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from spark_jobs.experiments.load.case import LoadCase
from spark_jobs.experiments.load.run_result import Batch
from spark_jobs.experiments.load.scripts.marked_files import groups_to_load


def load(case: LoadCase, files: Sequence[Path], warehouse_url: str) -> list[Batch]:
    """Load the files that have no marker yet."""
    os.environ["POLARS_MAX_THREADS"] = "1"  # the processes share the cores
    groups = groups_to_load(warehouse_url, files)
    with ProcessPoolExecutor(case.cores, get_context("spawn")) as pool:
        shares = [pool.submit(_load, case, groups[n :: case.cores], warehouse_url) for n in range(case.cores)]
        return [batch for share in shares for batch in share.result()]


def _load(case: LoadCase, groups: list[list[Path]], warehouse_url: str) -> list[Batch]:
    import polars as pl
    from adbc_driver_postgresql import dbapi

    batches = []
    renamed = {"id": "event_id", "at": "happened_at", **{column: fact for fact, column in case.fetched.items()}}
    with dbapi.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT key, {', '.join(case.fetched.values())} FROM bench.{case.relation}")
        relation = pl.DataFrame(cursor.fetch_arrow_table()).rechunk()
        for files in groups:
            started = time.time()
            # In the events' order, which is that of the primary key: shuffled facts take PostgreSQL twice the time.
            joined = pl.read_parquet(files).join(relation, on="key", maintain_order="left")
            facts = joined.drop("key").rename(renamed)
            markers = pl.DataFrame({"name": [file.name for file in files]})
            cursor.adbc_ingest("loaded_file", markers.to_arrow(), mode="append", db_schema_name="bench")
            cursor.adbc_ingest("fact", facts.to_arrow(), mode="append", db_schema_name="bench")
            connection.commit()
            batches.append(Batch(started, time.time(), len(facts)))
    return batches
