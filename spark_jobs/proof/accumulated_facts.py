"""Facts that are filled in part by part: what each should be, and which events should not wait for one.

Which of several events of one stream with one key has come into the fact depends on their order: the fact names it.
Its columns are compared with that event; the others must be rejected.
"""

from __future__ import annotations

from collections.abc import Iterator

from psycopg2 import extensions, sql

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.fates import SECOND_PART, WAITING
from spark_jobs.definition.shapes import AccumulatedStreams
from spark_jobs.proof.join import Expected, JoinedEvents
from spark_jobs.proof.lookup import comparable
from spark_jobs.proof.parts_together import FALSE, PartsTogether
from spark_jobs.proof.proof import EXAMPLES, Findings
from spark_jobs.proof.staged_stream import StagedStream

_AND, _OR, _COMMA = (sql.SQL(text) for text in (" AND ", " OR ", ", "))


class AccumulatedEvents(JoinedEvents):
    """What the columns of accumulated facts should be: those of the key are what the parts were found by."""

    def _expected(self, column: str, origin: str) -> Expected:
        first = next(name for name, source in self._fact_columns.items() if source == origin)
        if origin in self._event_id and column == first:
            return Expected(column, sql.Identifier("landed", f"key_{column}"), self._fact_types[column], None)
        return super()._expected(column, origin)


class AccumulatedParts(PartsTogether):
    """The temporary table `landed` of the facts that there are, with the events that they name, in place of a join.

    A fact without an event of a required stream has no row; nor has one of which a part is there no longer.

    Args:
        cursor: in the proof's transaction.
        definition: the pipeline.
        shape: its shape.
        streams: all of them.
    """

    def __init__(
        self,
        cursor: extensions.cursor,
        definition: PipelineDefinition,
        shape: AccumulatedStreams,
        streams: list[StagedStream],
    ) -> None:
        super().__init__(cursor, definition, streams)
        self._origins = definition.fact.columns
        self._required = shape.required

    def _events(self, definition: PipelineDefinition) -> JoinedEvents:
        return AccumulatedEvents(self._cursor, definition, self)

    def stage_waiting(self, stream: StagedStream) -> sql.Identifier:
        """Make the temporary table `waiting_<n>` of the held events that wait for their fact; names those held else."""
        elsewhere = stream.table("held_elsewhere")
        self._cursor.execute(
            sql.SQL(
                """
                CREATE TEMPORARY TABLE {waiting} ON COMMIT DROP AS
                SELECT event_id FROM {held} WHERE fate = {waits};
                CREATE TEMPORARY VIEW {elsewhere} AS SELECT * FROM {held} WHERE fate <> {waits}
                """
            ).format(
                waiting=stream.table("waiting"),
                elsewhere=elsewhere,
                held=stream.stored.held,
                waits=sql.Literal(WAITING.name),
            )
        )
        return elsewhere

    def check_waiting(self, stream: StagedStream, findings: Findings) -> None:
        """Report events that wait although their fact is there, and second parts of facts that have no first one."""
        makes_facts = sql.Literal(stream.name in self._required)
        self._report(
            stream,
            findings,
            "missing_result",
            """
            SELECT DISTINCT held.event_id, CASE WHEN {makes_facts} THEN 'it waits, and makes a fact by itself'
                ELSE 'it waits, and its fact is there' END
            FROM {held} AS held JOIN {landed} AS landed ON landed.event_id = held.event_id
            WHERE held.fate = {waits} AND NOT held.is_of_open_batch
                AND ({makes_facts} OR EXISTS (SELECT FROM {fact} AS fact WHERE {same_key}))
            """,
            makes_facts=makes_facts,
            waits=sql.Literal(WAITING.name),
        )
        self._report(
            stream,
            findings,
            "wrongly_rejected",
            """
            SELECT held.event_id, held.reason || ', and no fact has another' FROM {held} AS held
            WHERE held.fate = {second}
                AND EXISTS (SELECT FROM {landed} AS landed WHERE landed.event_id = held.event_id)
                AND NOT EXISTS (
                    SELECT FROM {landed} AS landed JOIN {fact} AS fact ON {same_key} AND NOT ({same_event})
                    WHERE landed.event_id = held.event_id)
            """,
            second=sql.Literal(SECOND_PART.name),
        )

    def _report(self, stream: StagedStream, findings: Findings, kind: str, query: str, **parts: sql.Composable) -> None:
        alias = sql.Identifier("landed")
        self._cursor.execute(
            sql.SQL(query).format(
                held=stream.stored.held,
                landed=stream.landed,
                fact=self.facts.fact_table,
                same_key=self._same_key(stream, alias),
                same_event=self._same_event(stream, alias),
                **parts,
            )
        )
        found = sorted(self._cursor.fetchall())
        findings.put(kind, len(found), [f"{stream.prefix}{id}: {told}" for id, told in found[:EXAMPLES]])

    def _columns(self, may_lack: sql.Composable = FALSE) -> Iterator[sql.Composable]:
        yield from super()._columns(may_lack)
        for column in self.facts.key_columns:
            yield sql.SQL("{} AS {}").format(sql.Identifier("fact", column), sql.Identifier(f"key_{column}"))

    def _from_clause(self) -> sql.Composable:
        joins = [
            sql.SQL(" LEFT JOIN {} AS {} ON {} AND {}").format(
                stream.table("part"),
                self._alias(stream),
                self._same_key(stream, self._alias(stream)),
                self._same_event(stream, self._alias(stream)),
            )
            for stream in self._streams
        ]
        makers = [self._is_there(stream) for stream in self._streams if stream.name in self._required]
        gone = [self._is_gone(stream) for stream in self.lacking]
        return sql.SQL("FROM {} AS fact{} WHERE ({}) AND NOT ({})").format(
            self.facts.fact_table, sql.SQL("").join(joins), _OR.join(makers), _OR.join([sql.SQL("false"), *gone])
        )

    def _is_there(self, stream: StagedStream) -> sql.Composable:
        return sql.SQL("{}.event_id IS NOT NULL").format(self._alias(stream))

    def _is_gone(self, stream: StagedStream) -> sql.Composable:
        """SQL: the fact names an event of the stream that has not landed."""
        named = [sql.SQL("{} IS NOT NULL").format(sql.Identifier("fact", self._stored_as(stream, column)))
                 for column in stream.source.event_id]  # fmt: skip
        return sql.SQL("({} AND NOT {})").format(_AND.join(named), self._is_there(stream))

    def _same_key(self, stream: StagedStream, alias: sql.Identifier) -> sql.Composable:
        """SQL: an event of the stream belongs to `fact`."""
        keys = zip(self.facts.key_columns, self.facts.key_types.values(), stream.on, strict=True)
        return _AND.join(self._equal(stream, alias, stored, wanted, column) for stored, wanted, column in keys)

    def _same_event(self, stream: StagedStream, alias: sql.Identifier) -> sql.Composable:
        """SQL: an event of the stream is the one that `fact` names."""
        types = self.facts.loaded_types
        return _AND.join(
            self._equal(stream, alias, self._stored_as(stream, column), types[stream.named(column)], column)
            for column in stream.source.event_id
        )

    def _stored_as(self, stream: StagedStream, column: str) -> str:
        """The column of the fact table for a column of an event's id: rather one that is not the key's."""
        stored = [name for name, origin in self._origins.items() if origin == stream.named(column)]
        return next((name for name in stored if name not in self.facts.key_columns), stored[0])

    def _equal(
        self, stream: StagedStream, alias: sql.Identifier, stored: str, wanted: str, column: str
    ) -> sql.Composable:
        staged = stream.staging.column(column)
        value = sql.SQL("{}.{}").format(alias, sql.Identifier(staged.name))
        return sql.SQL("{} = {}").format(sql.Identifier("fact", stored), comparable(value, staged.type, wanted))
