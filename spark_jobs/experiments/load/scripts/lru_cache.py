"""A script of psycopg2 alone: tuples of R in an LRU cache, those that are missing in it asked for together."""

from __future__ import annotations

import csv
import io
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow.parquet as pq

from spark_jobs.experiments.load.case import LoadCase
from spark_jobs.experiments.load.run_result import Batch
from spark_jobs.experiments.load.scripts.marked_files import MARK, groups_to_load

_EVENTS_AT_ONCE = 10_000
_TUPLE_BYTES = 200  # a key, a tuple of Python objects and their place in the cache


def load(case: LoadCase, files: Sequence[Path], warehouse_url: str) -> list[Batch]:
    """Load the files that have no marker yet."""
    batches = []
    cache: OrderedDict[int, tuple[Any, ...]] = OrderedDict()
    most = case.memory_bytes // _TUPLE_BYTES
    lookup = f"SELECT key, {', '.join(case.fetched.values())} FROM bench.{case.relation} WHERE key = ANY (%s)"
    copy = (
        f"COPY bench.fact (event_id, {', '.join(case.fetched)}, quantity, amount, happened_at) FROM STDIN (FORMAT csv)"
    )
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        for files_at_once in groups_to_load(warehouse_url, files, at_once=1):
            started, stored = time.time(), 0
            for events in pq.ParquetDataset(files_at_once).read().to_batches(_EVENTS_AT_ONCE):
                values = [events[name].to_pylist() for name in ("id", "key", "quantity", "amount", "at")]
                cursor.execute(lookup, [list({key for key in values[1] if key not in cache})])
                found = {row[0]: row[1:] for row in cursor.fetchall()}
                text = io.StringIO()
                rows = csv.writer(text)
                for event_id, key, *rest in zip(*values, strict=True):
                    fetched = found.get(key) or cache.get(key)
                    if fetched is not None:
                        cache[key] = fetched
                        cache.move_to_end(key)
                        rows.writerow((event_id, *fetched, *rest))
                        stored += 1
                while len(cache) > most:
                    cache.popitem(last=False)
                text.seek(0)
                cursor.copy_expert(copy, text)
            cursor.executemany(MARK, [[file.name] for file in files_at_once])
            connection.commit()
            batches.append(Batch(started, time.time(), stored))
    return batches
