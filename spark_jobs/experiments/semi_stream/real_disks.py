"""R on real disks, with the keys 0 to row_count - 1: a direct file or a PostgreSQL table, made once, then reused."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.errors import DirectFileError, WorkloadError
from spark_jobs.experiments.direct_file.direct_relation import DirectRelation, open_direct_file
from spark_jobs.experiments.direct_file.writer import write_direct_file
from spark_jobs.experiments.numbered_relation import NumberedTable
from spark_jobs.lookup.relation.catalog.describe import describe_relation
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.warehouse.connection import connect
from spark_jobs.workload.tpch_files import Progress

SCHEMA = "freshet_bench"

_KEY_BYTES = 8
_CHUNK_BYTES = 16 << 20
_WIDEST_STORED_TUPLE = 8_000  # a tuple of PostgreSQL stands on one block of 8 KiB, with a header
_COPY_START = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_END = b"\xff\xff"


def direct_relation(
    folder: Path, row_count: int, tuple_bytes: int, page_rows: int, progress: Progress | None = None
) -> DirectRelation:
    """R in a direct file, which is written if it is not there.

    Args:
        folder: where the file is or will be; row_count * tuple_bytes of room are needed.
        row_count: tuples.
        tuple_bytes: size of a tuple with its key of 8 bytes.
        page_rows: tuples of a page.
        progress: told the share that is written.

    Raises:
        DirectFileError: the disk has not enough room.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"relation-{row_count}x{tuple_bytes}.snapshot"
    try:
        return open_direct_file(folder / name, page_rows)
    except DirectFileError:  # none yet, or a damaged one
        chunks = (
            (keys, np.full((len(keys), tuple_bytes - _KEY_BYTES), ord("."), np.uint8))
            for keys in _chunks_of_keys(row_count, tuple_bytes, name, progress)
        )
        write_direct_file(folder / name, chunks, tuple_bytes, row_count)
    return open_direct_file(folder / name, page_rows)


def postgres_relation(
    url: str, row_count: int, tuple_bytes: int, page_rows: int, progress: Progress | None = None
) -> NumberedTable:
    """R in a table of PostgreSQL, key and payload, which is filled in one transaction if it is not there.

    Args:
        url: libpq URL of the server; the table goes into the schema freshet_bench.
        row_count: tuples; each takes about 30 bytes more there than its size, and 20 more in the index.
        tuple_bytes: size of a tuple with its key of 8 bytes, up to 8,000.
        page_rows: tuples of a page.
        progress: told the share that is filled.

    Raises:
        WarehouseUnavailableError: there is no answer at the URL.
        WorkloadError: the tuples are too wide.
    """
    if not _KEY_BYTES <= tuple_bytes <= _WIDEST_STORED_TUPLE:
        raise WorkloadError(
            f"Tuples of {tuple_bytes:,} bytes can't be stored in PostgreSQL for this benchmark: "
            f"allowed are {_KEY_BYTES} to {_WIDEST_STORED_TUPLE:,}."
        )
    table = f"relation_{row_count}x{tuple_bytes}"
    with closing(connect(url, application_name="freshet bench")) as connection:
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('freshet.bench'))")
            cursor.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA)))
            cursor.execute("SELECT to_regclass(%s) IS NULL", [f"{SCHEMA}.{table}"])
            if cursor.fetchone() == (True,):
                _fill(cursor, sql.Identifier(SCHEMA, table), row_count, tuple_bytes, progress)
        spec = describe_relation(connection, _PayloadByKey(f"{SCHEMA}.{table}"), {"key": pa.int64()})
    return NumberedTable(LiveRelation.open(url, replace(spec, row_count=row_count), page_rows))


@dataclass(frozen=True)
class _PayloadByKey:
    relation: str
    on: dict[str, str] = field(default_factory=lambda: {"key": "key"})
    fetch: dict[str, str] = field(default_factory=lambda: {"payload": "payload"})
    validity: None = None


def _chunks_of_keys(
    row_count: int, tuple_bytes: int, name: str, progress: Progress | None
) -> Iterator[NDArray[np.int64]]:
    """The keys, int64, in arrays of as many as make some MB of tuples."""
    step = max(1, _CHUNK_BYTES // tuple_bytes)
    for first in range(0, row_count, step):
        if progress:
            progress(name, first / row_count)
        yield np.arange(first, min(first + step, row_count))
    if progress:
        progress(name, 1.0)


def _fill(
    cursor: extensions.cursor, table: sql.Identifier, row_count: int, tuple_bytes: int, progress: Progress | None
) -> None:
    """Make the table with its index and its statistics; nothing is left for a later vacuum to do."""
    cursor.execute(sql.SQL("CREATE TABLE {} (key bigint NOT NULL, payload text STORAGE PLAIN NOT NULL)").format(table))
    copy = sql.SQL("COPY {} FROM STDIN (FORMAT binary, FREEZE)").format(table)
    for keys in _chunks_of_keys(row_count, tuple_bytes, f"{SCHEMA}.relation", progress):
        cursor.copy_expert(copy, io.BytesIO(_in_copy_format(keys, tuple_bytes - _KEY_BYTES)), size=1 << 20)
    cursor.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (key)").format(table))
    cursor.execute(sql.SQL("ANALYZE {}").format(table))


def _in_copy_format(keys: NDArray[np.int64], payload_bytes: int) -> bytes:
    """Tuples as binary COPY takes them: the number of fields, then the length and the bytes of each."""
    fields = [("count", ">i2"), ("key_bytes", ">i4"), ("key", ">i8"), ("payload_bytes", ">i4")]
    tuples = np.empty(len(keys), np.dtype([*fields, ("payload", "u1", (payload_bytes,))]))
    tuples["count"], tuples["key_bytes"], tuples["payload_bytes"] = 2, _KEY_BYTES, payload_bytes
    tuples["key"], tuples["payload"] = keys, ord(".")
    return _COPY_START + tuples.tobytes() + _COPY_END
