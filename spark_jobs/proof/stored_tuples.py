"""Which of a pipeline's held tuples are those of a source, of a stream, or of the streams' join, by their ids."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import extensions, sql

from spark_jobs.definition import PipelineDefinition
from spark_jobs.ledger.batch_ledger import read_as

_ALL = sql.SQL("true")
# The ids of streams' tuples begin with the stream's name, which holds neither.
_JOINED = sql.SQL("left(event_id, 1) IN ('[', '{')")


@dataclass(frozen=True)
class StoredTuples:
    """Temporary views of the held and of the pruned tuples of one kind, whose ids are as the events have them.

    Attributes:
        held: SQL name of the former, with the columns of freshet.held_tuple.
        pruned: SQL name of the latter: `event_id` and `place`.
        kept: SQL name of the temporary table of the held tuples' codes (`HeldTuples`).
        prefix: what ids begin with in the warehouse.
    """

    held: sql.Identifier
    pruned: sql.Identifier
    kept: sql.Identifier
    prefix: str

    @classmethod
    def of_source(cls, cursor: extensions.cursor, definition: PipelineDefinition) -> StoredTuples:
        """All that a pipeline holds; `of_former` is true of what was read by another definition than this one."""
        cursor.execute(f"SELECT {read_as('%s::jsonb')}", [definition.model_dump_json(by_alias=True)])
        [(present,)] = cursor.fetchall()
        return cls._create(cursor, definition.name, "", "", _ALL, present)

    @classmethod
    def of_stream(cls, cursor: extensions.cursor, pipeline: str, number: int, prefix: str) -> StoredTuples:
        """What is held of one of several streams."""
        of_stream = sql.SQL("starts_with(event_id, {})").format(sql.Literal(prefix))
        return cls._create(cursor, pipeline, f"_{number}", prefix, of_stream)

    @classmethod
    def of_join(cls, cursor: extensions.cursor, pipeline: str) -> StoredTuples:
        """What is held of tuples that several streams were joined to."""
        return cls._create(cursor, pipeline, "", "", _JOINED)

    @classmethod
    def _create(
        cls,
        cursor: extensions.cursor,
        pipeline: str,
        suffix: str,
        prefix: str,
        condition: sql.Composable,
        present: str | None = None,
    ) -> StoredTuples:
        names = {name: f"{name}{suffix}" for name in ("held", "pruned", "kept")}
        event_id: sql.Composable = sql.SQL("event_id")
        if prefix:
            event_id = sql.SQL("substr(event_id, {})").format(sql.Literal(len(prefix) + 1))
        cursor.execute(
            sql.SQL(
                """
                CREATE TEMPORARY VIEW {held} AS
                SELECT {event_id} AS event_id, place, fate, reason, relation, payload, payload_encoding, source_unit,
                    batch_no, EXISTS (
                        SELECT FROM freshet.batch WHERE batch.batch_no = held_tuple.batch_no AND state = 'started'
                    ) AS is_of_open_batch,
                    {present} IS NOT NULL AND coalesce((
                        SELECT read_as <> {present} FROM freshet.batch WHERE batch.batch_no = held_tuple.batch_no
                    ), NOT EXISTS (SELECT FROM freshet.batch WHERE batch.batch_no = held_tuple.batch_no)) AS of_former
                FROM freshet.held_tuple WHERE pipeline = {pipeline} AND {condition};
                CREATE TEMPORARY VIEW {pruned} AS
                SELECT {event_id} AS event_id, place FROM freshet.pruned_tuple
                WHERE pipeline = {pipeline} AND {condition}
                """
            ).format(
                held=sql.Identifier(names["held"]),
                pruned=sql.Identifier(names["pruned"]),
                event_id=event_id,
                present=sql.SQL("{}::text").format(sql.Literal(present)),
                pipeline=sql.Literal(pipeline),
                condition=condition,
            )
        )
        held, pruned, kept = (sql.Identifier("pg_temp", name) for name in names.values())
        return cls(held, pruned, kept, prefix)
