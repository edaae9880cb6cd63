"""A script of polars and ADBC: each part is copied aside and upserted into the row of its key, by a process a core."""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from spark_jobs.experiments.correlate.data import CorrelateCase
from spark_jobs.experiments.correlate.scripts.stream_files import groups_of_files


def load(case: CorrelateCase, events: Path, warehouse_url: str) -> list[tuple[float, int]]:
    """Load all files; for each transaction the moment of its end, and its tuples of all streams."""
    os.environ["POLARS_MAX_THREADS"] = "1"  # the processes share the cores
    processes = os.cpu_count() or 1
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        shares = [pool.submit(_load, case, events, warehouse_url, n, processes) for n in range(processes)]
        return sorted(end for share in shares for end in share.result())


def _load(case: CorrelateCase, events: Path, warehouse_url: str, share: int, shares: int) -> list[tuple[float, int]]:
    """Load the keys of one share, so that no two processes fill in one row."""
    import polars as pl
    from adbc_driver_postgresql import dbapi

    ends = []
    with dbapi.connect(warehouse_url) as connection, connection.cursor() as cursor:
        for files in groups_of_files(case, events):
            count = 0
            for stream, paths in files.items():
                columns = [name for name, of in case.fact_columns.items() if of == stream and name != "order_id"]
                parts = pl.read_parquet(paths, columns=["order_id", *columns]).filter(
                    pl.col("order_id") % shares == share
                )
                count += len(parts)
                cursor.adbc_ingest(f"part_{stream}", parts.sort("order_id").to_arrow(), mode="create", temporary=True)
                filled = ", ".join(f"{name} = excluded.{name}" for name in columns)
                names = ", ".join(["order_id", *columns])
                cursor.execute(
                    f"INSERT INTO bench.auction_bids ({names}) SELECT {names} FROM part_{stream} "
                    f"ON CONFLICT (order_id) DO UPDATE SET {filled}"
                )
                cursor.execute(f"DROP TABLE part_{stream}")
            markers = pl.DataFrame({"name": [f"{path.name} {share}" for paths in files.values() for path in paths]})
            cursor.adbc_ingest("loaded_file", markers.to_arrow(), mode="append", db_schema_name="bench")
            connection.commit()
            ends.append((time.time(), count))
    return ends
