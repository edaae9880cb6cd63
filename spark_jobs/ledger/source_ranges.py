"""The position of a stream in its source, as the ledger keeps it: what was planned and read, by which batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from spark_jobs.columns.copy_encoding.characters import storable
from spark_jobs.definition.kinds import KINDS
from spark_jobs.ledger.poison import Poison, poison_of
from spark_jobs.ledger.unread_files import TAKEN, landing_time

if TYPE_CHECKING:  # tasks that decode know its ranges, and need no database
    from psycopg2 import extensions

IS_OF_LOG = f"kind IN ({', '.join(repr(kind.name) for kind in KINDS.values() if kind.is_log)})"
"""SQL condition: a range is one of offsets in a log, say a partition of a topic; others are bytes, say of a file."""

_WHOLE = "(first = 0 AND last IS NOT DISTINCT FROM size)"
_UNITS_AT_ONCE = 50_000
_REMOVED_AT_ONCE = 1_000
_LONGEST_REASON = 2_000


@dataclass(frozen=True)
class SourceRange:
    """Some consecutive records of one unit of a source: bytes of a landed file, or offsets of a log.

    Attributes:
        unit: the unit's name in its source: the file's in the landing folder, as `unit_of` writes it, or the log's.
        first: offset of its first byte, which begins a record; or of its first record.
        last: offset after its last byte, which ends a record; or after its last record.
        size: bytes of the whole file, as it was planned; of a log, about those of the range; None: not known.
        modified_ns: when its records arrived, in ns since 1970: the file was changed last, as it was planned; of a log,
            when they were seen first.
        poison: what of it is not decoded.
        kind: of the source, by its name in `KINDS`.
    """

    unit: str
    first: int
    last: int
    size: int | None
    modified_ns: int | None
    poison: Poison = ()
    kind: str = field(kw_only=True)

    @property
    def bytes(self) -> int:
        """How many bytes its records have; of a log, about how many."""
        of_log = self.kind in KINDS and KINDS[self.kind].is_log
        return self.size if of_log and self.size is not None else self.last - self.first

    @property
    def landed_at(self) -> datetime | None:
        """When its records arrived; a time that PostgreSQL and Python don't share is the nearest one that they do."""
        return None if self.modified_ns is None else landing_time(self.modified_ns)


class RecordMark(NamedTuple):
    """A record of a partition, by which it is known again.

    Attributes:
        offset: where it lies.
        digest: of what it is, int64.
    """

    offset: int
    digest: int


@dataclass(frozen=True)
class RangeEnd:
    """What became of a range.

    Attributes:
        records: records that were read of it, decoded or not; None if it was given up, and not read.
        reason: why it is set aside: its file can't be read; None if it was read.
        mark: of offsets, the last record that was read of it; None: there was none.
    """

    records: int | None
    reason: str | None = None
    mark: RecordMark | None = None


class TakenUnit(NamedTuple):
    """How far a file has been taken.

    Attributes:
        unit: its name.
        last: offset up to which it was planned without a gap.
        size, modified_ns: the file's identity then; None where it was not known.
    """

    unit: str
    last: int
    size: int | None
    modified_ns: int | None


def taken_units(connection: extensions.connection, pipeline: str, units: Sequence[str]) -> Iterator[TakenUnit]:
    """Those of some files of which anything is planned, loaded, set aside or lost; one by one, in bounded memory.

    A file of which several versions were seen under one name comes as often, and one that was read again, too.
    O(files that are asked for), however many were ever taken.

    Args:
        connection: to the warehouse, not in a transaction.
        pipeline: its name.
        units: the files that are asked for.
    """
    with connection, connection.cursor() as cursor:
        asked = sorted(units)  # neighbours are found on the same pages of the index
        for first in range(0, len(asked), _UNITS_AT_ONCE):
            # Nearly all files were taken at once, and there may be millions: those are not grouped.
            cursor.execute(
                f"""
                SELECT unit, last, size, modified_ns FROM freshet.source_range
                WHERE pipeline = %(pipeline)s AND unit = ANY (%(units)s) AND {TAKEN} AND {_WHOLE}
                UNION ALL
                SELECT unit, coalesce((SELECT upper(part) FROM unnest(parts) AS part WHERE lower(part) = 0), 0), size,
                    modified_ns
                FROM (SELECT unit, range_agg(int8range(first, last)) AS parts, size, modified_ns
                      FROM freshet.source_range
                      WHERE pipeline = %(pipeline)s AND unit = ANY (%(units)s) AND {TAKEN} AND NOT {_WHOLE}
                      GROUP BY unit, size, modified_ns) AS taken
                """,
                {"pipeline": pipeline, "units": asked[first : first + _UNITS_AT_ONCE]},
            )
            yield from map(TakenUnit._make, cursor)


def taken_among(cursor: extensions.cursor, pipeline: str, ranges: Sequence[SourceRange]) -> set[int]:
    """Numbers of the ranges that are taken already: a file that was away and came back, as it was, is not a new one."""
    cursor.execute(
        f"""
        SELECT number FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[]) WITH ORDINALITY
            AS wanted (unit, first, last, size, modified_ns, number)
        WHERE EXISTS (SELECT FROM freshet.source_range AS range WHERE pipeline = %s AND range.unit = wanted.unit
            AND range.size = wanted.size AND range.modified_ns = wanted.modified_ns AND range.first <= wanted.first
            AND range.last >= wanted.last AND {TAKEN})
        """,
        [*_columns(ranges)[:5], pipeline],
    )
    return {number - 1 for (number,) in cursor.fetchall()}


def removable_units(
    connection: extensions.connection, pipeline: str, loaded_before: datetime, prefix: str = ""
) -> list[tuple[str, int, int]]:
    """Files that were loaded whole before a time and are not known to be removed: (unit, size, mtime in ns), some.

    Args:
        connection: this is one transaction on it.
        pipeline: its name.
        loaded_before: the time.
        prefix: how their names begin.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT unit, size, modified_ns FROM freshet.source_range AS range LEFT JOIN freshet.batch USING (batch_no)
            WHERE range.pipeline = %s AND range.state = 'loaded' AND removed_at IS NULL AND size IS NOT NULL
                AND starts_with(unit, %s) AND coalesce(closed_at, landed_at) < %s
            GROUP BY unit, size, modified_ns
            HAVING range_agg(int8range(first, last)) = int8multirange(int8range(0, size)) LIMIT %s
            """,
            [pipeline, prefix, loaded_before, _REMOVED_AT_ONCE],
        )
        return cursor.fetchall()


def note_removed(connection: extensions.connection, pipeline: str, units: Sequence[str]) -> None:
    """Note that loaded files are no longer in the landing folder."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE freshet.source_range SET removed_at = clock_timestamp() "
            "WHERE pipeline = %s AND unit = ANY (%s) AND state = 'loaded' AND removed_at IS NULL",
            [pipeline, list(units)],
        )


def plan_ranges(cursor: extensions.cursor, pipeline: str, batch_no: int, ranges: Sequence[SourceRange]) -> None:
    """Note what a batch is to read, in its order; in the transaction that opens the batch.

    A file that is to be read again is read from its beginning: a range further on does not count as that. So is
    one that was set aside, and has been replaced.
    """
    begun = [planned for planned in ranges if planned.first == 0]
    cursor.execute(
        """
        UPDATE freshet.source_range AS range SET state = 'retried'
        FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS begun (unit, size, modified_ns)
        WHERE pipeline = %s AND range.unit = begun.unit AND (state = 'to retry'
            OR (state = 'set aside' AND (range.size, range.modified_ns) <> (begun.size, begun.modified_ns)))
        """,
        [[each.unit for each in begun], [each.size for each in begun], [each.modified_ns for each in begun], pipeline],
    )
    note_ranges(cursor, pipeline, ranges, "planned", batch_no=batch_no)


def planned_ranges(cursor: extensions.cursor, batch_no: int) -> tuple[list[SourceRange], frozenset[int]]:
    """What an open batch is to read, in its order, and the numbers of the ranges that were given up as lost."""
    cursor.execute(
        "SELECT unit, first, last, size, modified_ns, poison, kind, state = 'lost' FROM freshet.source_range "
        "WHERE batch_no = %s ORDER BY range_id",
        [batch_no],
    )
    rows = cursor.fetchall()
    return [_range(*row[:-1]) for row in rows], frozenset(number for number, row in enumerate(rows) if row[-1])


def loaded_ranges(cursor: extensions.cursor, batch_no: int) -> list[SourceRange]:
    """What a committed batch has read, in its order; also what was, or is to be, read once more by another one."""
    cursor.execute(
        "SELECT unit, first, last, size, modified_ns, poison, kind FROM freshet.source_range WHERE batch_no = %s "
        "AND (state = 'loaded' OR state IN ('to retry', 'retried') AND reason IS NULL) ORDER BY range_id",
        [batch_no],
    )
    return [_range(*row) for row in cursor.fetchall()]


def _range(
    unit: str, first: int, last: int, size: int | None, modified_ns: int | None, poison: Any, kind: str
) -> SourceRange:
    return SourceRange(unit, first, last, size, modified_ns, poison_of(poison), kind=kind)


def close_ranges(cursor: extensions.cursor, batch_no: int, ends: Sequence[RangeEnd]) -> int | None:
    """Note what became of a batch's ranges, given in its order; in the transaction that closes the batch.

    A range that was given up and not read stays lost.

    Returns:
        the records that were read of them all; None where some are lost, of which a former try may have stored some.
    """
    cursor.execute(
        """
        WITH numbered AS (
            SELECT range_id, row_number() OVER (ORDER BY range_id) AS number
            FROM freshet.source_range WHERE batch_no = %(batch)s
        )
        UPDATE freshet.source_range AS range
        SET state = CASE WHEN ended.records IS NULL THEN 'lost' WHEN ended.reason IS NULL THEN 'loaded'
                ELSE 'set aside' END,
            records = ended.records, reason = coalesce(ended.reason, range.reason)
        FROM numbered JOIN unnest(%(records)s::bigint[], %(reasons)s::text[]) WITH ORDINALITY
            AS ended (records, reason, number) USING (number)
        WHERE range.range_id = numbered.range_id
        """,
        {
            "batch": batch_no,
            "records": [end.records for end in ends],
            "reasons": [None if end.reason is None else storable(end.reason[:_LONGEST_REASON]) for end in ends],
        },
    )
    if cursor.rowcount != len(ends):
        raise AssertionError(f"batch {batch_no} has {cursor.rowcount} ranges in the ledger, and {len(ends)} were read")
    _keep_marks(cursor, batch_no, ends)
    records = [end.records for end in ends if end.records is not None]
    return sum(records) if len(records) == len(ends) else None


def _keep_marks(cursor: extensions.cursor, batch_no: int, ends: Sequence[RangeEnd]) -> None:
    """Keep the last record that was read of each partition; of one that was given up, none."""
    given_up = [number for number, end in enumerate(ends, 1) if end.records is None and end.mark is None]
    read = [(number, *end.mark) for number, end in enumerate(ends, 1) if end.mark is not None]
    numbered = (
        "SELECT pipeline, unit, row_number() OVER (ORDER BY range_id) FROM freshet.source_range WHERE batch_no = %s"
    )
    if given_up:
        cursor.execute(
            f"DELETE FROM freshet.partition_mark AS mark USING ({numbered}) AS range (pipeline, unit, number) "
            "WHERE mark.pipeline = range.pipeline AND mark.unit = range.unit AND number = ANY (%s)",
            [batch_no, given_up],
        )
    if read:
        cursor.execute(
            f"""
            INSERT INTO freshet.partition_mark (pipeline, unit, record_offset, digest)
            SELECT pipeline, unit, record_offset, digest FROM ({numbered}) AS range (pipeline, unit, number)
            JOIN unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS read (number, record_offset, digest) USING (number)
            ON CONFLICT (pipeline, unit)
                DO UPDATE SET (record_offset, digest) = (excluded.record_offset, excluded.digest)
            """,
            [batch_no, *map(list, zip(*read, strict=True))],
        )


def note_ranges(
    cursor: extensions.cursor,
    pipeline: str,
    ranges: Sequence[SourceRange],
    state: Literal["planned", "loaded", "set aside", "lost"],
    *,
    batch_no: int | None = None,
    reason: str | None = None,
) -> None:
    """Write ranges into the ledger.

    Args:
        cursor: in a transaction.
        pipeline: its name.
        ranges: in their order.
        state: of them all.
        batch_no: the batch that reads them; None for what is read by none: loaded by a version that kept its
            positions elsewhere, or not to be read.
        reason: why they are set aside or lost.
    """
    cursor.execute(
        """
        INSERT INTO freshet.source_range
            (pipeline, batch_no, state, reason, unit, first, last, size, modified_ns, landed_at, kind)
        SELECT %s, %s, %s, %s, noted.* FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[],
            %s::bigint[], %s::timestamptz[], %s::text[]) AS noted
        """,
        [
            *(pipeline, batch_no, state, reason),
            *_columns(ranges),
        ],
    )


def _columns(ranges: Sequence[SourceRange]) -> list[list[object]]:
    return [
        [each.unit for each in ranges],
        [each.first for each in ranges],
        [each.last for each in ranges],
        [each.size for each in ranges],
        [each.modified_ns for each in ranges],
        [each.landed_at for each in ranges],
        [each.kind for each in ranges],
    ]
