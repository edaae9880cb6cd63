"""The plain SQL join of the landed events of several streams: the events that facts are made of.

A tuple is valid from its event time on for the length of the window, or in the fixed window that holds it, or for ever;
tuples whose keys match are joined where all are valid at a common time (004 §5.1). Of intervals on a line, all have a
time in common where each two have one; so have keys that overlap or lie in a band.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import combinations

import pyarrow as pa
from psycopg2 import extensions, sql

from spark_jobs.columns.event_id import MOST_CHARACTERS
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.correlation import COMPLETED_AT, JOINED_ID, FixedWindow
from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.fates import named
from spark_jobs.definition.matching import Band
from spark_jobs.proof.account import AbsentRecords, Account
from spark_jobs.proof.held import Int64Array, digest_id
from spark_jobs.proof.join import JoinedEvents
from spark_jobs.proof.staged_events import LANDED, LANDED_TABLE, StagedColumn
from spark_jobs.proof.staged_stream import CODE, START, StagedStream, joined_codes

_MICROSECOND = timedelta(microseconds=1)
_COMPLETED = StagedColumn("completed_at", "timestamptz")
_JOINED_ID = StagedColumn("joined_id", "text")
_COMMA, _AND, _OR, _XOR = (sql.SQL(text) for text in (", ", " AND ", " OR ", " # "))
_NOTHING, FALSE = sql.SQL(""), sql.SQL("false")


class StreamJoin:
    """The temporary table `landed` of joined tuples, in the place of one source's events.

    Its columns are those of `Staging`; `id_<n>`, the id of the part of stream n; and `is_open`, whether a part is not
    loaded yet. The file of a joined tuple is that of the part that arrived last. What may be a joined tuple and need
    not is `pending`: a part is not loaded yet, landed with several contents, or landed several times, of which at
    least once too late. With `expired: emit` the join is an outer one: events that have left the state without a
    result are joined tuples, too, with nulls for the rest.

    Args:
        cursor: in the proof's transaction.
        definition: the pipeline.
        streams: all of them.

    Attributes:
        facts: what the columns of the facts should be.
        labels: how to name each file, by its number: those of all streams, in the order in which they arrived.
        arrivals: when each of them arrived.
        absent: joined tuples whose parts are there no longer.
    """

    def __init__(self, cursor: extensions.cursor, definition: PipelineDefinition, streams: list[StagedStream]) -> None:
        assert definition.correlate is not None
        self._cursor = cursor
        self._correlate = definition.correlate
        self._has_open_batch = sql.SQL(
            "EXISTS (SELECT FROM freshet.batch WHERE pipeline = {} AND state = 'started')"
        ).format(sql.Literal(definition.name))
        self._streams = streams
        self.facts = self._events(definition)
        self.labels: list[str] = []
        self.arrivals: list[datetime] = []
        self.absent = AbsentRecords()
        self._lacking: list[StagedStream] = []

    def _events(self, definition: PipelineDefinition) -> JoinedEvents:
        return JoinedEvents(self._cursor, definition, self)

    @property
    def lacking(self) -> list[StagedStream]:
        """The streams of which records are there no longer, once the table is made."""
        return self._lacking

    def column(self, source_column: str) -> StagedColumn:
        """Where a column of the joined tuples is found."""
        if source_column in (COMPLETED_AT, JOINED_ID):
            return _COMPLETED if source_column == COMPLETED_AT else _JOINED_ID
        for stream in self._streams:
            for column in stream.source.columns:
                if stream.named(column) == source_column:
                    staged = stream.staging.column(column)
                    return StagedColumn(f"part_{stream.number}_{staged.name}", staged.type)
        raise KeyError(source_column)

    def object_codes(self, joined: pa.Table) -> Int64Array:
        """The codes of joined tuples by their values, as `landed` has them; int64, shape (n,)."""
        return joined_codes(joined, self._streams)

    def make(self, accounts: Sequence[Account]) -> None:
        """Make the table of what the accounts have read.

        Args:
            accounts: of the streams, in their order.
        """
        ranks = self._rank(accounts)
        if any(account.absent.units for account in accounts):
            # A record may be a part of any number of joined tuples.
            self.absent = AbsentRecords([unit for account in accounts for unit in account.absent.units], None)
        for stream, account in zip(self._streams, accounts, strict=True):
            if account.absent.units:
                self._lacking.append(stream)
            self._make_parts(stream, ranks[stream.number], came_once=not account.absent.units)
        self._make_joined()
        for stream in self._streams:
            if stream.name in self._correlate.emitting:
                self._add_alone(stream)

    def know_by_digest(self, kept: sql.Identifier) -> None:
        """Know joined tuples whose event ids are too long by the digests under which tuples of their values are held.

        Args:
            kept: SQL name of the codes of the joined tuples that are held (`HeldTuples`).
        """
        self._cursor.execute(
            sql.SQL(
                """
                UPDATE {landed} AS landed SET event_id = NULL, raw_id = kept.event_id, raw_held = true
                FROM {kept} AS kept
                WHERE length(landed.event_id) > {most} AND kept.object = landed.object
                    AND kept.event_id LIKE {digest}
                """
            ).format(landed=LANDED, kept=kept, most=sql.Literal(MOST_CHARACTERS), digest=sql.Literal(digest_id("%")))
        )

    def _rank(self, accounts: Sequence[Account]) -> list[list[int]]:
        """For each stream the numbers of its files among those of all."""
        files = [
            (arrived, label, stream, number)
            for stream, account in enumerate(accounts)
            for number, (arrived, label) in enumerate(zip(account.arrivals, account.labels, strict=True))
        ]
        ranks = [[0] * len(account.labels) for account in accounts]
        for rank, (arrived, label, stream, number) in enumerate(sorted(files)):
            ranks[stream][number] = rank
            self.labels.append(label)
            self.arrivals.append(arrived)
        return ranks

    def _make_parts(self, stream: StagedStream, ranks: list[int], *, came_once: bool) -> None:
        """The events of a stream that can be parts, each content once.

        One that was rejected, as too late, as coming after the last of its key, or since it would make too many, is
        none, unless it came before: that is in sight, or may be in what is there no longer. Nor is one that was held,
        and is no longer kept.
        """
        values = [stream.column(name) for name in stream.staging.columns]
        self._cursor.execute(
            sql.SQL(
                """
                CREATE TEMPORARY TABLE {parts} ON COMMIT DROP AS
                SELECT event_id, rank, loadable, pending AS is_open, {values}, {slot} AS slot,
                    pending OR of_contents > 1 OR is_late AS may_lack
                FROM (
                    SELECT part.*, late.event_id IS NOT NULL AS is_late,
                        count(*) OVER (PARTITION BY event_id) AS of_contents,
                        sum(copies) OVER (PARTITION BY event_id) AS of_copies
                    FROM (
                        SELECT event_id, min(rank) AS rank, bool_and(loadable) AS loadable,
                            bool_and(pending) AS pending, count(*) AS copies, {values}
                        FROM {landed} AS landed JOIN unnest(%s::integer[], %s::integer[]) AS ranked (file, rank)
                            USING (file)
                        WHERE event_id IS NOT NULL AND NOT raw_held AND {can_match}
                        GROUP BY event_id, {values}
                    ) AS part
                    LEFT JOIN (
                        SELECT event_id FROM {held} WHERE fate = ANY ({barred})
                        UNION SELECT event_id FROM {pruned}
                    ) AS late USING (event_id)
                ) AS part
                WHERE NOT (is_late AND of_copies = 1 AND {came_once});
                ANALYZE {parts}
                """
            ).format(
                parts=stream.table("part"),
                values=_COMMA.join(values),
                slot=self._slot(stream),
                landed=stream.landed,
                can_match=stream.can_match,
                held=stream.stored.held,
                pruned=stream.stored.pruned,
                came_once=sql.Literal(came_once),
                barred=sql.Literal(named(barred=True)),
            ),
            [list(range(len(ranks))), ranks],
        )

    def _slot(self, stream: StagedStream) -> sql.Composable:
        """SQL: the number of the fixed window that an event lies in; else a constant."""
        if not isinstance(self._correlate.within, FixedWindow):
            return sql.SQL("0")
        length = sql.Literal(self._correlate.within.fixed // _MICROSECOND)
        return sql.SQL("floor({}::numeric / {})").format(stream.column(START), length)

    def _make_joined(self) -> None:
        self._cursor.execute(
            sql.SQL(
                "CREATE TEMPORARY TABLE {name} ON COMMIT DROP AS SELECT {columns} {tables}; ANALYZE {landed}"
            ).format(
                name=sql.Identifier(LANDED_TABLE),
                columns=_COMMA.join(self._columns()),
                tables=self._from_clause(),
                landed=LANDED,
            )
        )

    def _add_alone(self, stream: StagedStream) -> None:
        """Add the events of a stream that are in no result, and neither wait nor are held: facts that lack the rest.

        Where a batch is open it may have emitted one that waited before it.
        """
        others = (
            sql.SQL(" LEFT JOIN {} AS {} ON false").format(other.table("part"), self._alias(other))
            for other in self._streams
            if other is not stream
        )
        self._cursor.execute(
            sql.SQL(
                """
                INSERT INTO {landed} SELECT {columns}
                FROM {parts} AS {alias}
                LEFT JOIN (SELECT DISTINCT event_id FROM {waiting}) AS waiting ON waiting.event_id = {event_id}
                LEFT JOIN (
                    SELECT {id} AS event_id, bool_and(pending) AS is_unsure FROM {landed} GROUP BY 1
                ) AS found ON found.event_id = {event_id} {others}
                WHERE coalesce(is_unsure, true) AND (waiting.event_id IS NULL OR {has_open_batch})
                    AND NOT EXISTS (SELECT FROM {held} AS held WHERE held.event_id = {event_id})
                    AND NOT EXISTS (SELECT FROM {pruned} AS pruned WHERE pruned.event_id = {event_id});
                ANALYZE {landed}
                """
            ).format(
                landed=LANDED,
                columns=_COMMA.join(self._columns(sql.SQL("coalesce(waiting.event_id, found.event_id) IS NOT NULL"))),
                parts=stream.table("part"),
                alias=self._alias(stream),
                waiting=stream.table("waiting"),
                event_id=self._part(stream, sql.Identifier("event_id")),
                id=id_column(stream),
                others=_NOTHING.join(others),
                has_open_batch=self._has_open_batch,
                held=stream.stored.held,
                pruned=stream.stored.pruned,
            )
        )

    def _columns(self, may_lack: sql.Composable = FALSE) -> Iterator[sql.Composable]:
        """SQL of the joined tuples' columns; a part may be missing, with nulls in its place.

        Args:
            may_lack: SQL: it may be a joined tuple, and need not.
        """
        ids = self._parts("event_id")
        inner: list[sql.Composable] = [sql.SQL("substr({0}, 2, length({0}) - 2)").format(event_id) for event_id in ids]
        codes: list[sql.Composable] = [self._part(stream, stream.column(CODE)) for stream in self._streams]
        if self._correlate.emitting:
            inner = [_or_else(each, stream.no_id) for each, stream in zip(inner, self._streams, strict=True)]
            codes = [_or_else(each, stream.no_code) for each, stream in zip(codes, self._streams, strict=True)]
        joined_id = sql.SQL("'[' || concat_ws(',', {}) || ']'").format(_COMMA.join(inner))
        starts = (self._part(stream, stream.column(START)) for stream in self._streams)
        times = (self._part(stream, stream.column(stream.source.event_time)) for stream in self._streams)
        yield sql.SQL("greatest({}) AS file").format(_COMMA.join(self._parts("rank")))
        for flag, of_parts in (("pending", "may_lack"), ("is_open", "is_open")):
            any_part = _OR.join(sql.SQL("{} IS true").format(part) for part in self._parts(of_parts))
            yield sql.SQL("{} OR {} AS {}").format(any_part, may_lack, sql.Identifier(flag))
        unloadable = (sql.SQL("{} IS false").format(part) for part in self._parts("loadable"))
        yield sql.SQL("NOT ({}) AS loadable").format(_OR.join(unloadable))
        yield sql.SQL("NULL::text AS raw_id, false AS raw_held, NULL::bigint AS record")
        if self._correlate.emitting:
            yield sql.SQL("'[' || to_json({})::text || ']' AS event_id").format(joined_id)
            yield sql.SQL("{} AS {}").format(joined_id, sql.Identifier(_JOINED_ID.name))
        else:
            yield sql.SQL("{} AS event_id").format(joined_id)
        yield sql.SQL("{} # greatest({}) AS object").format(_XOR.join(codes), _COMMA.join(starts))
        yield sql.SQL("greatest({}) AS {}").format(_COMMA.join(times), sql.Identifier(_COMPLETED.name))
        for stream in self._streams:
            yield sql.SQL("{} AS {}").format(self._part(stream, sql.SQL("event_id")), id_column(stream))
            for column in stream.source.columns:
                if column in stream.staging.columns:
                    named = sql.Identifier(self.column(stream.named(column)).name)
                    yield sql.SQL("{} AS {}").format(self._part(stream, stream.column(column)), named)

    def _from_clause(self) -> sql.Composable:
        return sql.SQL("FROM {}").format(_NOTHING.join(self._tables()))

    def _tables(self) -> Iterator[sql.Composable]:
        """SQL for FROM: each stream with those before it."""
        for stream in self._streams:
            table = sql.SQL("{} AS {}").format(stream.table("part"), self._alias(stream))
            conditions = [
                condition
                for earlier, later in combinations(self._streams[: stream.number + 1], 2)
                if later is stream
                for condition in self._conditions(earlier, later)
            ]
            yield sql.SQL(" JOIN {} ON {}").format(table, _AND.join(conditions)) if conditions else table

    def _conditions(self, one: StagedStream, other: StagedStream) -> Iterator[sql.Composable]:
        """SQL: parts of two streams have keys that match, and are both valid at some time."""
        match = self._correlate.match
        mine, theirs = ([self._part(stream, stream.column(name)) for name in stream.on] for stream in (one, other))
        equal = len(self._correlate.equal(one.name))
        yield from (sql.SQL("{} = {}").format(*pair) for pair in zip(mine[:equal], theirs[:equal], strict=True))
        if match == "overlap":
            yield sql.SQL("{} < {} AND {} < {}").format(mine[-2], theirs[-1], theirs[-2], mine[-1])
        elif isinstance(match, Band):
            yield from self._in_band(match, one.source.columns[one.on[-1]], mine[-1], theirs[-1])
        slot = sql.SQL("slot")
        yield sql.SQL("{} = {}").format(self._part(one, slot), self._part(other, slot))
        if isinstance(self._correlate.within, timedelta):
            length = sql.Literal(self._correlate.within // _MICROSECOND)
            pair = (self._part(one, one.column(START)), self._part(other, other.column(START)))
            yield sql.SQL("abs({}::numeric - {}) < {}").format(*pair, length)

    def _in_band(
        self, band: Band, kind: StreamType, left: sql.Composable, right: sql.Composable
    ) -> Iterator[sql.Composable]:
        width: object = Decimal(band.width(kind)).scaleb(-kind.scale)
        exact = sql.SQL("::numeric")
        if kind.name == "timestamp":
            width, exact = timedelta(microseconds=band.width(kind)), _NOTHING
        elif kind.name == "date":
            width, exact = band.width(kind), _NOTHING
        yield sql.SQL("greatest({0}, {1}){2} - least({0}, {1}) <= {3}").format(left, right, exact, sql.Literal(width))

    def _parts(self, column: str) -> Iterator[sql.Composable]:
        return (self._part(stream, sql.Identifier(column)) for stream in self._streams)

    def _part(self, stream: StagedStream, column: sql.Composable) -> sql.Composable:
        return sql.SQL("{}.{}").format(self._alias(stream), column)

    def _alias(self, stream: StagedStream) -> sql.Identifier:
        return sql.Identifier(f"part_{stream.number}")


def _or_else(value: sql.Composable, default: str | int) -> sql.Composable:
    return sql.SQL("coalesce({}, {})").format(value, sql.Literal(default))


def id_column(stream: StagedStream) -> sql.Identifier:
    """The column of joined tuples that has the event id of their part of a stream."""
    return sql.Identifier(f"id_{stream.number}")
