"""What has changed in a relation since a reader's last look, and a bounded set of changed keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg2 import errors, extensions, sql

from spark_jobs.columns.copy_decoding.column_types import ColumnType
from spark_jobs.columns.copy_decoding.decode import decode_copy
from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.lookup.changes.staleness import UNNOTICED
from spark_jobs.lookup.changes.watched_tables import WatchedTable, watched_tables
from spark_jobs.lookup.relation.reading_connection import copy_out
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.lookup.relation.relation_spec import RelationSpec

_TEXT = ColumnType("text", pa.string(), None)
_BOOL = ColumnType("bool", pa.bool_(), np.dtype("u1"))

# Snapshots only go forward, but for a server that lost what it had committed: a replica that took over, a backup.
_CHANGES = (
    """
    SELECT pg_current_snapshot()::text,
        pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmax({noticed}),
        found.known, {found_keys}
    FROM (VALUES (1)) AS always LEFT JOIN LATERAL (
        SELECT coalesce(key ?& {names}, false) AS known, {keys}
        FROM freshet.relation_change WHERE """
    + UNNOTICED
    + """
        LIMIT {limit}
    ) AS found ON true
"""
)

Int64Array = NDArray[np.int64]

MOST_KEYS = 100_000


@dataclass(frozen=True)
class Changes:
    """What has changed in a relation between two looks.

    Attributes:
        noticed: pg_snapshot as text: with these changes, all by transactions visible in it are known.
        keys: changed keys, old ones and new ones, shape (n,); they may repeat.
        anything: whether any other tuple may have changed as well.
    """

    noticed: str
    keys: KeyColumns
    anything: bool

    @property
    def nothing(self) -> bool:
        """Whether R is as it was."""
        return not self.anything and not len(self.keys)


def current_snapshot(connection: extensions.connection) -> str:
    """The snapshot to begin with, as text: read R after this."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_snapshot()::text")
        [(snapshot,)] = cursor.fetchall()
    return str(snapshot)


def lasting_snapshot(connection: extensions.connection) -> str:
    """As `current_snapshot`, to be kept in a file: a crash of the server does not give its numbers out again.

    Transactions that committed without waiting for the disk, or rolled back, have numbers that the server forgets when
    it crashes. One that waits, and has a later number, makes it keep them all.

    Args:
        connection: to the warehouse, not in a transaction; a commit that waits for the disk is made on it.
    """
    with connection:
        snapshot = current_snapshot(connection)
    with connection, connection.cursor() as cursor:
        # One that has written nothing does not wait, even so.
        cursor.execute("SET LOCAL synchronous_commit TO local; SELECT pg_logical_emit_message(true, 'freshet', '')")
    return snapshot


def incarnation(connection: extensions.connection) -> str:
    """What differs after each start of the server, and after each crash: its numbers may have been given out again.

    It sets its statistics back when it recovers, also where its first process has lived through the crash.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT concat_ws(' ', pg_postmaster_start_time(), stats_reset, inet_server_addr()) FROM pg_stat_bgwriter"
        )
        [(found,)] = cursor.fetchall()
    return str(found)


def unnoticed(connection: extensions.connection, spec: RelationSpec, noticed: str, most: int = MOST_KEYS) -> Changes:
    """The changes of a relation by transactions that a snapshot does not see, and the snapshot for the next look.

    Args:
        connection: to the warehouse; not in a transaction whose snapshot is older than this call.
        spec: the relation, by the key of one lookup.
        noticed: pg_snapshot of the last look, as text.
        most: if there are more changes, anything may have changed.

    Returns:
        the changes. O(changes since the oldest transaction that was running at the last look), by index.
    """
    types = (_TEXT, _BOOL, _BOOL, *(column.type for column in spec.key))
    try:
        snapshots, went_back, known, *keys = decode_copy(copy_out(connection, _query(spec, noticed, most)), types)
    except errors.DataError:
        # A key column has another type than when the changes were noted.
        connection.rollback()
        return Changes(current_snapshot(connection), RelationRows.empty(spec).keys, anything=True)
    changed = known.is_valid().to_numpy(zero_copy_only=False)
    anything = went_back[0].as_py() or pc.any(pc.invert(known)).as_py() or int(changed.sum()) > most
    encoded = KeyColumns.encode(keys, spec.key_kinds)
    return Changes(snapshots[0].as_py(), encoded.take(np.flatnonzero(changed & encoded.valid)), bool(anything))


def _query(spec: RelationSpec, noticed: str, most: int) -> sql.Composable:
    names = [sql.Identifier(f"key{i}") for i in range(len(spec.key))]
    keys = [
        sql.SQL("(key ->> {})::pg_catalog.{} AS {}").format(
            sql.Literal(column.name), sql.Identifier(column.type.postgres), name
        )
        for column, name in zip(spec.key, names, strict=True)
    ]
    return sql.SQL(_CHANGES).format(
        noticed=sql.SQL("{}::pg_snapshot").format(sql.Literal(noticed)),
        relation=sql.Literal(spec.relation),
        names=sql.Literal([column.name for column in spec.key]),
        keys=sql.SQL(", ").join(keys),
        found_keys=sql.SQL(", ").join(sql.SQL("found.{}").format(name) for name in names),
        limit=sql.Literal(most + 1),
    )


@dataclass(frozen=True)
class WholeRelation:
    """R as it was read whole, or brought up to date since. What was not in it then is absent if it has not changed.

    So it is known that a key is not in R without reading R.

    Attributes:
        noticed: pg_snapshot as text: changes by transactions visible in it have been brought in.
        tables: those that hold R's rows, with triggers that have noted every change since.
    """

    noticed: str
    tables: tuple[WatchedTable, ...]

    def changes(self, connection: extensions.connection, spec: RelationSpec) -> Changes | None:
        """What has changed in R until now; None where anything may have. O(changes), about 3 ms.

        Args:
            connection: to the warehouse, not in a transaction.
            spec: R.
        """
        with connection.cursor() as cursor:
            tables = watched_tables(cursor, [spec.relation])[spec.relation]
        if tables != self.tables:
            return None
        changes = unnoticed(connection, spec, self.noticed)
        return None if changes.anything else changes


class ChangedKeys:
    """Codes of changed keys, up to a limit; beyond it any key may have changed. Pickles by its array.

    Two keys may share a hash code: then an unchanged one is taken for a changed one, never the other way round.

    Args:
        most: how many distinct codes it takes.

    Attributes:
        overflow: whether any key may have changed.
    """

    def __init__(self, most: int = MOST_KEYS) -> None:
        self.overflow = False
        self._most = most
        self._codes: Int64Array = np.empty(0, np.int64)  # ascending, distinct

    def __len__(self) -> int:
        return len(self._codes)

    def add(self, codes: Int64Array) -> None:
        """Add codes, int64, shape (n,). O((n + size) log n)."""
        if self.overflow or not len(codes):
            return
        union = np.union1d(self._codes, codes)
        if len(union) > self._most:
            self.add_all()
        else:
            self._codes = union

    def add_all(self) -> None:
        """From now on any key may have changed."""
        self.overflow = True
        self._codes = self._codes[:0]

    def clear(self) -> None:
        """Forget all changes."""
        self.overflow = False
        self._codes = self._codes[:0]

    def contains(self, codes: Int64Array) -> NDArray[np.bool_]:
        """Which keys may have changed.

        Args:
            codes: int64, shape (n,).

        Returns:
            bool, shape (n,). O(n log size).
        """
        if self.overflow or not len(self._codes):
            return np.full(len(codes), self.overflow)
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.asarray(self._codes[places] == codes)

    def copy(self) -> ChangedKeys:
        """The set as it is now, for a batch that must not see it change. O(1)."""
        other = ChangedKeys(self._most)
        other.overflow, other._codes = self.overflow, self._codes
        return other
