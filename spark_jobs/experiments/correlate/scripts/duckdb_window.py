"""A script of DuckDB: the auctions and bids of the window in tables, each group of files joined with both.

What lies in the tables is lost with the process: after a crash the script would have to read the window's files again,
and tell which of their results are facts already. It counts on no event being late.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from spark_jobs.experiments.correlate.data import LATENESS, WINDOW, CorrelateCase
from spark_jobs.experiments.correlate.scripts.stream_files import groups_of_files

_NEAR = (
    f"opened_at - INTERVAL {WINDOW.seconds} SECOND < bid_at AND bid_at < opened_at + INTERVAL {WINDOW.seconds} SECOND"
)
_RESULTS = f"""
    SELECT * FROM new_bids JOIN (FROM auctions UNION ALL FROM new_auctions) USING (auction_id) WHERE {_NEAR}
    UNION ALL BY NAME SELECT * FROM bids JOIN new_auctions USING (auction_id) WHERE {_NEAR}
"""
_TIMES = {"auctions": "opened_at", "bids": "bid_at"}


def load(case: CorrelateCase, events: Path, warehouse_url: str) -> list[tuple[float, int]]:
    """Join and load all files; for each transaction the moment of its end, and its tuples of all streams."""
    import duckdb
    import duckdb_ext

    ends = []
    columns = ", ".join(case.fact_columns)
    with duckdb.connect(config={"threads": os.cpu_count() or 1}) as connection:
        duckdb_ext.init(connection)
        connection.execute("LOAD postgres_scanner")
        connection.execute(f"ATTACH '{warehouse_url}' AS warehouse (TYPE postgres)")
        for files in groups_of_files(case, events):
            count = 0
            for stream, paths in files.items():
                new = f"CREATE OR REPLACE TABLE new_{stream} AS FROM read_parquet(?)"
                (read,) = connection.execute(new, [[str(path) for path in paths]]).fetchone() or (0,)
                connection.execute(f"CREATE TABLE IF NOT EXISTS {stream} AS FROM new_{stream} LIMIT 0")
                count += read
            connection.execute(f"CREATE OR REPLACE TABLE facts AS SELECT {columns} FROM ({_RESULTS})")
            connection.begin()
            connection.execute(
                "INSERT INTO warehouse.bench.auction_bids BY NAME FROM facts ORDER BY auction_id, bid_id"
            )
            names = [[path.name] for paths in files.values() for path in paths]
            connection.executemany("INSERT INTO warehouse.bench.loaded_file VALUES (?)", names)
            connection.commit()
            ends.append((time.time(), count))
            for stream, event_time in _TIMES.items():
                connection.execute(f"INSERT INTO {stream} FROM new_{stream}")
                kept = f"INTERVAL {(WINDOW + LATENESS).seconds} SECOND"
                newest = f"(SELECT max({event_time}) FROM new_{stream})"
                connection.execute(f"DELETE FROM {stream} WHERE {event_time} < {newest} - {kept}")
    return ends
