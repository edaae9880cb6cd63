"""A script of psycopg2: COPY of CSV into a staging table, a join in PostgreSQL, ON CONFLICT, a connection a core."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg2
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

from spark_jobs.experiments.load.case import LoadCase
from spark_jobs.experiments.load.data import EVENT_SCHEMA
from spark_jobs.experiments.load.run_result import Batch
from spark_jobs.experiments.load.scripts.marked_files import MARK, groups_to_load


def load(case: LoadCase, files: Sequence[Path], warehouse_url: str) -> list[Batch]:
    """Load the files that have no marker yet."""
    groups = groups_to_load(warehouse_url, files)
    with ThreadPoolExecutor(case.cores) as pool:  # psycopg2 and Arrow let other threads run
        shares = [pool.submit(_load, case, groups[n :: case.cores], warehouse_url) for n in range(case.cores)]
        return [batch for share in shares for batch in share.result()]


def _load(case: LoadCase, groups: list[list[Path]], warehouse_url: str) -> list[Batch]:
    batches = []
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        columns = EVENT_SCHEMA.replace("timestamp", "timestamptz")
        cursor.execute(f"CREATE TEMP TABLE staging ({columns}) ON COMMIT DELETE ROWS")
        cursor.execute("SET work_mem = '128MB'; SET timezone = 'UTC'")
        connection.commit()
        for files in groups:
            started = time.time()
            text = io.BytesIO()
            events = pq.read_table(files)
            # Without its zone, which is the session's: Arrow takes ten times as long to write one.
            local = events.set_column(events.column_names.index("at"), "at", events["at"].cast(pa.timestamp("us")))
            pv.write_csv(local, text, pv.WriteOptions(include_header=False))
            text.seek(0)
            cursor.copy_expert("COPY staging FROM STDIN (FORMAT csv)", text, size=1 << 20)
            cursor.execute("ANALYZE staging")
            cursor.executemany(MARK, [[file.name] for file in files])
            cursor.execute(
                f"INSERT INTO bench.fact (event_id, {', '.join(case.fetched)}, quantity, amount, happened_at) "
                f"SELECT id, {', '.join(case.fetched.values())}, quantity, amount, at "
                f"FROM staging JOIN bench.{case.relation} USING (key) ON CONFLICT (event_id) DO NOTHING"
            )
            stored = cursor.rowcount
            connection.commit()
            batches.append(Batch(started, time.time(), stored))
    return batches
