"""The data that all contenders load: a relation R, a stream of events as Parquet files, the fact table."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import numpy as np
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from psycopg2 import sql

from spark_jobs.experiments.load.case import EVENTS_PER_FILE, LoadCase
from spark_jobs.workload.zipf import ZipfDistribution

EVENT_SCHEMA = "id bigint, key bigint, quantity int, amount decimal(15,2), at timestamp"
# Spreads the popular keys all over R: consecutive ranks are far apart. Coprime to every size of R used here.
_STRIDE = 7_368_787
FIRST_SK = 1_000_000_007
VERSION_BIT = 40
"""Each change of a tuple of R adds 2^40 to its surrogate key: the lower bits still tell whose it is."""

_CLASSES = 1_000
_CHANGES_PER_SECOND = 1_000
_CHANGES_AT_ONCE = 100
_MISSING_SHARE = 0.05
_REPEATED_SHARE = 0.01

_RELATION = {
    False: ("name text NOT NULL", "rpad('tuple ' || key, 94, '.')"),
    True: (
        "class integer NOT NULL, label text NOT NULL, name text NOT NULL",
        f"key %% {_CLASSES}, 'label ' || key, rpad('tuple ' || key, 190, '.')",
    ),
}


def make_relation(warehouse_url: str, case: LoadCase) -> None:
    """Make R, unless it is there: bigint key, bigint surrogate key, fetched columns, and text that is not fetched."""
    table = sql.Identifier("bench", case.relation)
    columns, values = _RELATION[case.is_wide]
    with psycopg2.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS bench")
        cursor.execute("SELECT to_regclass(%s)", [f"bench.{case.relation}"])
        if cursor.fetchone() != (None,):
            return
        cursor.execute(
            sql.SQL("CREATE TABLE {} (key bigint NOT NULL, sk bigint NOT NULL, " + columns + ")").format(table)
        )
        cursor.execute(
            sql.SQL("INSERT INTO {} SELECT key, key * 3 + %s, " + values + " FROM generate_series(0, %s) key").format(
                table
            ),
            [FIRST_SK, case.relation_rows - 1],
        )
        cursor.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (key)").format(table))
    with closing(psycopg2.connect(warehouse_url)) as connection:
        connection.autocommit = True
        connection.cursor().execute(sql.SQL("VACUUM ANALYZE {}").format(table))


def empty_fact(warehouse_url: str, case: LoadCase) -> None:
    """Make the fact table anew, and let the server settle: every run starts from the same state."""
    fetched = "relation_sk bigint NOT NULL"
    if case.is_wide:
        fetched += ", relation_class integer NOT NULL, relation_label text NOT NULL"
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("DROP TABLE IF EXISTS bench.fact, bench.loaded_file")
        cursor.execute(
            f"CREATE TABLE bench.fact (event_id bigint PRIMARY KEY, {fetched}, quantity integer NOT NULL, "
            "amount numeric(15, 2) NOT NULL, happened_at timestamptz NOT NULL)"
        )
        cursor.execute("CREATE TABLE bench.loaded_file (name text PRIMARY KEY)")
        cursor.execute("DELETE FROM freshet.source_range")  # the same files are loaded again
        cursor.execute("DELETE FROM freshet.held_tuple")
        cursor.execute("CHECKPOINT")


_zipf = lru_cache(maxsize=1)(ZipfDistribution)  # takes a while for a large R


def event_table(case: LoadCase, first: int, count: int, at: datetime | None = None) -> pa.Table:
    """Events first to first + count - 1, which happened at one time, or now; the same numbers give the same events.

    Of the regime `changing` 5 % have a key that is not in R, and 1 % are events once more: of the same table, or of the
    one before it, as large.
    """
    at = at or datetime.now(UTC)
    table = _new_events(case, first, count, at)
    if not case.is_changing:
        return table
    rows = np.arange(count)
    chance = np.random.default_rng([2010, case.relation_rows, first, 1]).random(count)
    later = rows >= count // 2  # those of the first half are repeated, and stay themselves
    sources = np.where(later & (chance < 2 * _REPEATED_SHARE), rows - count // 2, rows)
    if not first:
        return table.take(pa.array(sources))
    sources[later & (chance < _REPEATED_SHARE)] += count
    return pa.concat_tables([table, _new_events(case, first - count, count, at)]).take(pa.array(sources))


def _new_events(case: LoadCase, first: int, count: int, at: datetime) -> pa.Table:
    random = np.random.default_rng([2010, case.relation_rows, first])
    ranks = _zipf(case.relation_rows, case.exponent).ranks(random.random(count))
    keys = (ranks * _STRIDE) % case.relation_rows
    if case.is_changing:
        keys[random.random(count) < _MISSING_SHARE] += case.relation_rows
    return pa.table(
        {
            "id": np.arange(first, first + count),
            "key": keys,
            "quantity": random.integers(1, 50, count, dtype=np.int32),
            "amount": _decimals(random.integers(1_00, 5_000_00, count)),
            "at": pa.repeat(pa.scalar(at, pa.timestamp("us", "UTC")), count),
        }
    )


def joined_with_relation(events: pa.Table, case: LoadCase) -> pa.Table:
    """The events of a table that find a tuple of R, with R's fetched columns, as the join makes them.

    Those come once that the table brings for the first time.
    """
    events = events.filter(pc.greater_equal(events["id"], events["id"][0]))
    events = events.take(pa.array(np.unique(events["id"].to_numpy(), return_index=True)[1]))
    events = events.filter(pc.less(events["key"], case.relation_rows))
    keys = events["key"].to_numpy()
    events = events.append_column("relation_sk", pa.array(keys * 3 + FIRST_SK))
    if not case.is_wide:
        return events
    labels = pc.binary_join_element_wise("label", events["key"].cast(pa.string()), " ")
    return events.append_column("relation_class", pa.array((keys % _CLASSES).astype(np.int32))).append_column(
        "relation_label", labels
    )


def _decimals(cents: NDArray[np.int64]) -> pa.Array:
    """decimal(15,2) from positive cents: the low halves of 128-bit integers, the high ones 0."""
    words = np.zeros((len(cents), 2), np.int64)
    words[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(15, 2), len(cents), [None, pa.py_buffer(words)])


def write_events(case: LoadCase, folder: Path) -> None:
    """Write warm-up and measured events as Parquet files of 100,000, named in their order, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    for first in range(0, case.all_events, EVENTS_PER_FILE):
        path = folder / f"events-{first:012d}.parquet"
        if not path.exists():
            hidden = path.with_name("." + path.name)
            pq.write_table(event_table(case, first, EVENTS_PER_FILE, now), hidden)
            hidden.rename(path)


@contextmanager
def changes(warehouse_url: str, case: LoadCase) -> Iterator[None]:
    """Change R a thousand times a second while the block runs, if the case wants it: each of 100 tuples at once."""
    ended = threading.Event()
    changer = threading.Thread(target=_change, args=(warehouse_url, case, ended), daemon=True)
    if case.is_changing:
        changer.start()
    try:
        yield
    finally:
        ended.set()
        if case.is_changing:
            changer.join()


def _change(warehouse_url: str, case: LoadCase, ended: threading.Event) -> None:
    random = np.random.default_rng(2010)
    update = sql.SQL("UPDATE {} SET sk = sk + %s WHERE key = ANY (%s)").format(sql.Identifier("bench", case.relation))
    due = time.monotonic()
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        while not ended.wait(max(0.0, due - time.monotonic())):
            keys = random.choice(case.relation_rows, _CHANGES_AT_ONCE, replace=False)
            cursor.execute(update, [1 << VERSION_BIT, keys.tolist()])
            due += _CHANGES_AT_ONCE / _CHANGES_PER_SECOND
