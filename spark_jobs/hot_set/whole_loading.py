"""Reads all of R, where its needed columns fit into the memory of the hot tuples, while batches go on without."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import closing
from typing import NamedTuple

import pyarrow as pa
from psycopg2 import extensions

from spark_jobs.byte_sizes import format_bytes
from spark_jobs.hot_set.hot_tuples import HotTuples
from spark_jobs.joins.semi_stream.hot_set import HotSet
from spark_jobs.relation.catalog.sizes import estimated_row_count
from spark_jobs.relation.changes.unnoticed import current_snapshot
from spark_jobs.relation.changes.watched_tables import WatchedTable
from spark_jobs.relation.copy_pieces import copy_pieces
from spark_jobs.relation.queries import whole_query
from spark_jobs.relation.read_limit import ReadLimit
from spark_jobs.relation.relation_rows import RelationRows, rows_of
from spark_jobs.relation.relation_spec import RelationSpec
from spark_jobs.warehouse.connection import connect

_log = logging.getLogger(__name__)

# R may shrink, or grow slowly to where it does not fit: how large it is now takes a millisecond to ask.
_ASKED_SECONDS = 60.0
# A scan keeps PostgreSQL from removing dead rows. Where a limit makes it longer than this, R is not scanned.
_LONGEST_SCAN_SECONDS = 60.0
# Of a limited scan a piece at a time is read.
_LIMITED_PIECE_BYTES = 1 << 16


class WholeRows(NamedTuple):
    """All of R.

    Attributes:
        rows: its tuples, whose codes differ.
        noticed: pg_snapshot as text, taken before they were read.
        tables: those that held its rows then.
    """

    rows: RelationRows
    noticed: str
    tables: tuple[WatchedTable, ...]


def read_whole(
    url: str,
    spec: RelationSpec,
    memory_bytes: int,
    limit: ReadLimit | None = None,
    wanted: Callable[[], bool] = lambda: True,
) -> tuple[RelationRows, str] | None:
    """Read all of R in one scan, as long as it fits.

    Args:
        url: libpq URL of the warehouse.
        spec: R.
        memory_bytes: what its hot tuples may take.
        limit: tuples that may be read in a second; None: any number.
        wanted: whether to go on.

    Returns:
        The tuples, of which each code is there once, and the pg_snapshot, as text, that they are at least as new as;
        None where they do not fit, or are not wanted any more. O(tuples), about 0.5 microseconds each.

    Raises:
        psycopg2.Error, SchemaMismatchError, WarehouseUnavailableError: R can't be read.
    """
    pieces: list[list[pa.Array]] = []
    count = size = 0
    fetched = len(spec.read_types) - len(spec.fetched)

    def take(arrays: list[pa.Array]) -> None:
        nonlocal count, size
        pieces.append(arrays)
        count += len(arrays[0])
        size += sum(array.nbytes for array in arrays[fetched:])
        if HotSet.bytes_for(round(count / spec.versions_per_key)) + size > memory_bytes or not wanted():
            raise _GivenUpError
        if limit is not None:
            limit.take(len(arrays[0]))
            limit.wait()

    with closing(connect(url, application_name=f"freshet scan of {spec.relation}")) as connection:
        connection.set_client_encoding("UTF8")
        noticed = current_snapshot(connection)
        connection.rollback()
        try:
            with connection.cursor() as cursor:
                piece = {} if limit is None else {"piece_bytes": _LIMITED_PIECE_BYTES}
                copy_pieces(cursor, whole_query(spec), spec.read_types, take, **piece)
        except _GivenUpError:
            return None
    columns = [pa.concat_arrays(arrays) for arrays in zip(*pieces, strict=True)]
    pieces.clear()
    rows = rows_of(columns, spec).with_unique_codes()
    return (rows, noticed) if HotTuples.bytes_of(rows) <= memory_bytes else None


class WholeLoading:
    """Reads R in another thread, when it seems to fit and nobody has it yet.

    Args:
        spec: R.
        memory_bytes: memory of its hot tuples.
        read_limit: tuples of R a second; None: any number.
        url: libpq URL of the warehouse.
        executor: where it is read.
    """

    def __init__(
        self, spec: RelationSpec, memory_bytes: int, read_limit: float | None, url: str, executor: Executor
    ) -> None:
        self._spec = spec
        self._memory_bytes = memory_bytes
        self._read_limit = read_limit
        self._url = url
        self._executor = executor
        self._reading: Future[WholeRows | None] | None = None
        self._asked_at = 0.0
        self._ended = threading.Event()

    def begin(self, tables: tuple[WatchedTable, ...], row_count: int | None = None) -> bool:
        """Begin to read R, if it seems to fit.

        Args:
            tables: those that hold its rows.
            row_count: about how many tuples it has; None: as many as when it was described.
        """
        count = self._spec.row_count if row_count is None else row_count
        self._asked_at = time.monotonic()
        if HotTuples.bytes_for(count, self._spec) > self._memory_bytes:
            return False
        if self._read_limit is not None and count > self._read_limit * _LONGEST_SCAN_SECONDS:
            return False
        self._reading = self._executor.submit(self._read, tables)
        return True

    def result(self, tables: tuple[WatchedTable, ...], connection: extensions.connection) -> WholeRows | None:
        """All of R, once it has been read. If it has not been, or the tables are others by now, it is read when due.

        Args:
            tables: those that hold its rows now.
            connection: to the warehouse.
        """
        if self._reading is None:
            if time.monotonic() - self._asked_at >= _ASKED_SECONDS:
                count = estimated_row_count(connection, self._spec.schema, self._spec.table)
                connection.commit()
                self.begin(tables, None if count is None else round(count / self._spec.versions_per_key))
            return None
        if not self._reading.done():
            return None
        reading, self._reading = self._reading, None
        found = reading.result()
        if found is not None and found.tables != tables:
            self.begin(tables)
            return None
        return found

    def stop(self) -> None:
        """Read no further."""
        self._ended.set()

    def _read(self, tables: tuple[WatchedTable, ...]) -> WholeRows | None:
        limit = None if self._read_limit is None else ReadLimit(self._read_limit)
        started = time.perf_counter()
        found = read_whole(self._url, self._spec, self._memory_bytes, limit, lambda: not self._ended.is_set())
        seconds = time.perf_counter() - started
        if found is None:
            _log.info("%s: not all of it fits into %s", self._spec.relation, format_bytes(self._memory_bytes))
            return None
        _log.info("%s: read whole, %d tuples in %.2f s", self._spec.relation, len(found[0]), seconds)
        return WholeRows(*found, tables)


class _GivenUpError(Exception):
    """It does not fit, or is not wanted any more."""
