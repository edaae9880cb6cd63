"""Reads all of R, where its needed columns fit into the memory of the hot tuples, while batches go on without."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import closing, suppress
from datetime import timedelta
from typing import NamedTuple

import psycopg2
import pyarrow as pa
from psycopg2 import extensions

from spark_jobs.byte_sizes import format_bytes
from spark_jobs.definition import Lookup
from spark_jobs.joins.semi_stream.hot_set import HotSet
from spark_jobs.lookup.changes.unnoticed import current_snapshot
from spark_jobs.lookup.changes.watched_tables import WatchedTable
from spark_jobs.lookup.hot_keys.hot_tuples import HotTuples
from spark_jobs.lookup.planning.memory import scan_refusal
from spark_jobs.lookup.relation.catalog.sizes import estimated_row_count
from spark_jobs.lookup.relation.copy_pieces import copy_pieces
from spark_jobs.lookup.relation.queries import whole_query
from spark_jobs.lookup.relation.read_limit import Clock, ReadLimit
from spark_jobs.lookup.relation.relation_rows import RelationRows, rows_of
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.warehouse.connection import connect

_log = logging.getLogger(__name__)

# R may shrink, or grow slowly to where it does not fit: how large it is now takes a millisecond to ask.
_ASKED_SECONDS = 60.0
# Estimates may say that R fits when it does not: after each scan in vain the next one is put off for twice as long,
# unless R has shrunk to this part of what it was.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 120.0, 3600.0
_SHRUNK = 0.9
# Who locks R to alter it must not have a scan wait: behind that all others would.
_LONGEST_WAIT = "SET LOCAL lock_timeout = '2s'"
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
    connection: extensions.connection,
    spec: RelationSpec,
    memory_bytes: int,
    limit: ReadLimit | None = None,
    wanted: Callable[[], bool] = lambda: True,
) -> tuple[RelationRows, str] | None:
    """Read all of R in one scan, as long as it fits.

    Args:
        connection: to the warehouse, of its own, not in a transaction.
        spec: R.
        memory_bytes: what its hot tuples may take.
        limit: tuples that may be read in a second; None: any number.
        wanted: whether to go on.

    Returns:
        The tuples, whose codes differ, and the pg_snapshot, as text, that they are at least as new as; None where they
        do not fit, two keys share a hash code, or they are not wanted any more. O(tuples), about 0.5 microseconds each.

    Raises:
        psycopg2.Error, SchemaMismatchError: R can't be read, or is locked.
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

    noticed = current_snapshot(connection)
    connection.rollback()
    try:
        with connection.cursor() as cursor:
            cursor.execute(_LONGEST_WAIT)
            piece = {} if limit is None else {"piece_bytes": _LIMITED_PIECE_BYTES}
            copy_pieces(cursor, whole_query(spec), spec.read_types, take, **piece)
    except _GivenUpError:
        return None
    columns = [pa.concat_arrays(arrays) for arrays in zip(*pieces, strict=True)]
    pieces.clear()
    rows = rows_of(columns, spec)
    return (rows, noticed) if HotTuples.bytes_of(rows) <= memory_bytes and rows.keys.codes_differ else None


class WholeLoading:
    """Reads R in another thread, when it seems to fit and nobody has it yet.

    Args:
        lookup: the lookup.
        spec: its relation, R.
        memory_bytes: memory of its hot tuples.
        url: libpq URL of the warehouse.
        executor: where it is read.
        clock: tells seconds.
    """

    def __init__(
        self,
        lookup: Lookup,
        spec: RelationSpec,
        memory_bytes: int,
        url: str,
        executor: Executor,
        clock: Clock = time.monotonic,
    ) -> None:
        self._lookup = lookup
        self._spec = spec
        self._memory_bytes = memory_bytes
        self._url = url
        self._executor = executor
        self._clock = clock
        self._reading: Future[WholeRows | None] | None = None
        self._asked_at = 0.0
        self._row_count = 0  # about, when it was begun to be read last
        self._put_off_until = 0.0
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._ended = threading.Event()
        self._scanning: extensions.connection | None = None

    @property
    def reading(self) -> bool:
        """Whether a result is to be expected."""
        return self._reading is not None

    def begin(self, tables: tuple[WatchedTable, ...], row_count: int | None = None) -> bool:
        """Begin to read R, if it seems to fit.

        Args:
            tables: those that hold its rows.
            row_count: about how many tuples it has; None: as many as when it was described.
        """
        count = self._spec.row_count if row_count is None else row_count
        self._asked_at = self._clock()
        if HotTuples.bytes_for(count, self._spec) > self._memory_bytes or scan_refusal(self._lookup, count) is not None:
            return False
        if self._asked_at < self._put_off_until and count > _SHRUNK * self._row_count:
            return False
        self._row_count = count
        self._reading = self._executor.submit(self._read, tables)
        return True

    def result(self, tables: tuple[WatchedTable, ...], connection: extensions.connection) -> WholeRows | None:
        """All of R, once it has been read. If it has not been, or the tables are others by now, it is read when due.

        Args:
            tables: those that hold its rows now.
            connection: to the warehouse.
        """
        if self._reading is None:
            if self._clock() - self._asked_at >= _ASKED_SECONDS:
                count = estimated_row_count(connection, self._spec.schema, self._spec.table)
                connection.commit()
                self.begin(tables, None if count is None else round(count / self._spec.versions_per_key))
            return None
        if not self._reading.done():
            return None
        reading, self._reading = self._reading, None
        found = reading.result()
        if found is None:
            self.put_off()
        elif found.tables != tables:
            self.begin(tables)
            return None
        return found

    def put_off(self) -> None:
        """R has been read in vain: leave it alone for a while, each time for longer."""
        self._put_off_until = self._clock() + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)

    def stop(self) -> None:
        """Read no further, and wait for no lock."""
        self._ended.set()
        scanning = self._scanning
        if scanning is not None:
            with suppress(psycopg2.Error):  # it has ended just now
                scanning.cancel()

    def _read(self, tables: tuple[WatchedTable, ...]) -> WholeRows | None:
        limit = None if self._lookup.read_limit is None else ReadLimit(self._lookup.read_limit)
        started = time.perf_counter()
        name = f"freshet scan of {self._spec.relation}"
        # Without patience: it is read when the warehouse is back.
        with closing(connect(self._url, application_name=name, patience=timedelta())) as connection:
            self._scanning = connection
            if self._ended.is_set():
                return None
            found = read_whole(connection, self._spec, self._memory_bytes, limit, lambda: not self._ended.is_set())
        seconds = time.perf_counter() - started
        if found is None:
            _log.info("%s: not all of it can be hot in %s", self._spec.relation, format_bytes(self._memory_bytes))
            return None
        _log.info("%s: read whole, %d tuples in %.2f s", self._spec.relation, len(found[0]), seconds)
        return WholeRows(*found, tables)


class _GivenUpError(Exception):
    """It does not fit, or is not wanted any more."""
