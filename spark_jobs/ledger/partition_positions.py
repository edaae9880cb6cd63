"""How far the partitions of a topic have been read: a partition is a unit of the ledger, its offsets make ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from psycopg2 import extensions

from spark_jobs.control.fencing import require_epoch
from spark_jobs.ledger.source_ranges import RecordMark, SourceRange, note_ranges


class PartitionPositions:
    """The positions of one pipeline.

    Every partition that is read has a range from its offset 0 on, without gaps: what is not to be read, or was removed
    before it could be read, is noted as such.

    Args:
        pipeline: its name.
        connect: gives the driver's connection to the warehouse, not in a transaction.
        epoch: tells the driver's epoch.
        prefix: how the ledger's units of the topic begin: with the stream that it is of several; they are given and
            told without it.

    Attributes:
        prefix: as it was given.
    """

    def __init__(
        self,
        pipeline: str,
        connect: Callable[[], extensions.connection],
        epoch: Callable[[], int],
        prefix: str = "",
    ) -> None:
        self.prefix = prefix
        self._pipeline = pipeline
        self._connect = connect
        self._epoch = epoch

    def read(self) -> dict[str, int]:
        """Unit -> the offset after the last one that was planned, or noted otherwise. O(ranges of the pipeline)."""
        connection = self._connect()
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT unit, max(last) FROM freshet.source_range WHERE pipeline = %s AND starts_with(unit, %s) "
                "GROUP BY unit",
                [self._pipeline, self.prefix],
            )
            return {unit.removeprefix(self.prefix): last for unit, last in cursor.fetchall()}

    def marks(self, units: Sequence[str]) -> dict[str, RecordMark]:
        """Unit -> the last record that was read of it, as far as it is known. O(units)."""
        connection = self._connect()
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT unit, record_offset, digest FROM freshet.partition_mark "
                "WHERE pipeline = %s AND unit = ANY (%s)",
                [self._pipeline, [self.prefix + unit for unit in units]],
            )
            return {unit.removeprefix(self.prefix): RecordMark(*mark) for unit, *mark in cursor.fetchall()}

    def note(self, ranges: Sequence[SourceRange], state: Literal["loaded", "lost"], reason: str) -> None:
        """Note ranges that no batch reads.

        Args:
            ranges: each begins where the unit's position is.
            state: loaded: not to be read; lost: it can't be read any more.
            reason: why.

        Raises:
            WriterFencedError: a newer driver has taken over.
        """
        connection = self._connect()
        with connection, connection.cursor() as cursor:
            require_epoch(cursor, self._pipeline, self._epoch())
            own = [replace(each, unit=self.prefix + each.unit) for each in ranges]
            note_ranges(cursor, self._pipeline, own, state, reason=reason)
