"""The plain SQL join of the landed events of several streams: the events that facts are made of.

A tuple is valid from its event time on for the length of the window, or in the fixed window that holds it, or for ever;
tuples whose keys match are joined where all are valid at a common time (004 §5.1). Of intervals on a line, all have a
time in common where each two have one; so have keys that overlap or lie in a band.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import combinations

from psycopg2 import extensions, sql

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.join import FixedWindow, Join
from spark_jobs.definition.matching import Band
from spark_jobs.proof.account import Account
from spark_jobs.proof.parts_together import PartsTogether, id_column
from spark_jobs.proof.staged_events import LANDED
from spark_jobs.proof.staged_stream import START, StagedStream

_MICROSECOND = timedelta(microseconds=1)
_COMMA, _AND, _NOTHING = (sql.SQL(text) for text in (", ", " AND ", ""))


class StreamJoin(PartsTogether):
    """The temporary table `landed` of joined tuples.

    Args:
        cursor: in the proof's transaction.
        definition: the pipeline.
        join: how its streams are joined.
        streams: all of them.
    """

    def __init__(
        self, cursor: extensions.cursor, definition: PipelineDefinition, join: Join, streams: list[StagedStream]
    ) -> None:
        super().__init__(cursor, definition, streams, join.emitting)
        self._join = join
        self._has_open_batch = sql.SQL(
            "EXISTS (SELECT FROM freshet.batch WHERE pipeline = {} AND state = 'started')"
        ).format(sql.Literal(definition.name))

    def make(self, accounts: Sequence[Account]) -> None:
        """Make the table of what the accounts have read; where the join is an outer one, also what stands alone.

        Args:
            accounts: of the streams, in their order.
        """
        super().make(accounts)
        for stream in self._streams:
            if stream.name in self._emitting:
                self._add_alone(stream)

    def _slot(self, stream: StagedStream) -> sql.Composable:
        """SQL: the number of the fixed window that an event lies in; else a constant."""
        if not isinstance(self._join.window, FixedWindow):
            return sql.SQL("0")
        length = sql.Literal(self._join.window.fixed // _MICROSECOND)
        return sql.SQL("floor({}::numeric / {})").format(stream.column(START), length)

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
        match = self._join.match
        mine, theirs = ([self._part(stream, stream.column(name)) for name in stream.on] for stream in (one, other))
        equal = len(self._join.equal(one.name))
        yield from (sql.SQL("{} = {}").format(*pair) for pair in zip(mine[:equal], theirs[:equal], strict=True))
        if match == "overlap":
            yield sql.SQL("{} < {} AND {} < {}").format(mine[-2], theirs[-1], theirs[-2], mine[-1])
        elif isinstance(match, Band):
            yield from self._in_band(match, one.source.columns[one.on[-1]], mine[-1], theirs[-1])
        slot = sql.SQL("slot")
        yield sql.SQL("{} = {}").format(self._part(one, slot), self._part(other, slot))
        if isinstance(self._join.window, timedelta):
            length = sql.Literal(self._join.window // _MICROSECOND)
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
