"""Proves of what was rejected as coming after the last of its key that a punctuation had landed which said so."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg2 import extensions, sql

from spark_jobs.definition.correlation import AFTER_LAST, Correlate
from spark_jobs.proof.account import Account
from spark_jobs.proof.proof import EXAMPLES, Findings
from spark_jobs.proof.staged_stream import StagedStream

_AND, _COMMA, _TRUE, _ONE = (sql.SQL(text) for text in (" AND ", ", ", "true", "1"))
# A file that was read by several batches counts for the first of them.
_SAID = """
    CREATE TEMPORARY TABLE {said} ON COMMIT DROP AS
    SELECT landed.event_id, file.batch_no, {count} AS count, {keys}
    FROM {landed} AS landed JOIN (
        SELECT number - 1 AS file, coalesce(min(batch_no), 0) AS batch_no
        FROM unnest(%(units)s::text[]) WITH ORDINALITY AS named (unit, number)
        LEFT JOIN freshet.source_range AS range
            ON range.pipeline = %(pipeline)s AND range.unit = named.unit AND range.state = 'loaded'
        GROUP BY number
    ) AS file USING (file)
    WHERE landed.event_id IS NOT NULL AND {says};
    CREATE INDEX ON {said} (key_0); ANALYZE {said}
"""
_WRONG = """
    SELECT held.event_id FROM {held} AS held JOIN {landed} AS landed USING (event_id)
    WHERE place = 'rejected' AND starts_with(reason, {after_last})
    GROUP BY held.event_id HAVING NOT bool_or(EXISTS (
        SELECT FROM {telling} AS telling
        WHERE {same_key} AND telling.batch_no <= held.batch_no AND telling.count <= (
            SELECT count(DISTINCT said.event_id) FROM {said} AS said
            WHERE {same_key_said} AND said.batch_no <= held.batch_no AND said.event_id <> held.event_id
        )
    ))
"""


def check_after_last(
    cursor: extensions.cursor,
    pipeline: str,
    correlate: Correlate,
    streams: Sequence[StagedStream],
    accounts: Sequence[Account],
    findings: Findings,
) -> None:
    """Report the tuples that were rejected as coming after the last of their key, with no punctuation that said so.

    It has to be of their stream and key, in another event that landed for the same batch or an earlier one. Nothing is
    told of streams of which files are there no longer.

    Args:
        cursor: in the proof's transaction.
        pipeline: its name.
        correlate: how the streams are joined.
        streams: all of them.
        accounts: of the streams, in their order, read.
        findings: takes what is found.
    """
    by_name = {stream.name: (stream, account) for stream, account in zip(streams, accounts, strict=True)}
    for name, punctuation in correlate.punctuations.items():
        stream, account = by_name[name]
        says: sql.Composable = _TRUE
        count: sql.Composable = _ONE
        teller = name
        if punctuation != "unique" and punctuation.when is not None:
            says = sql.SQL("landed.{}").format(stream.column(punctuation.when))
        elif punctuation != "unique":
            teller, column = punctuation.told_by
            count = sql.SQL("greatest(landed.{}, 0)").format(by_name[teller][0].column(column))
        if account.absent.units or by_name[teller][1].absent.units:
            continue
        said = _stage(cursor, pipeline, stream, account, f"said_of_{stream.number}", says, _ONE)
        telling = said
        if teller != name:
            known = sql.SQL("{} IS NOT NULL").format(count)
            telling = _stage(cursor, pipeline, *by_name[teller], f"told_of_{stream.number}", known, count)
        cursor.execute(
            sql.SQL(_WRONG).format(
                held=stream.stored.held,
                landed=stream.landed,
                after_last=sql.Literal(AFTER_LAST),
                said=said,
                telling=telling,
                same_key=_same_key(stream, "telling"),
                same_key_said=_same_key(stream, "said"),
            )
        )
        told = [f"{stream.prefix}{id}: no punctuation of its key had come before it" for (id,) in cursor]
        findings.put("wrongly_rejected", len(told), told[:EXAMPLES])


def _stage(
    cursor: extensions.cursor,
    pipeline: str,
    stream: StagedStream,
    account: Account,
    name: str,
    says: sql.Composable,
    count: sql.Composable,
) -> sql.Identifier:
    """A temporary table of the events that say something of their key, with the batch that they landed for."""
    said = sql.Identifier("pg_temp", name)
    keys = (
        sql.SQL("landed.{} AS {}").format(stream.column(column), sql.Identifier(f"key_{number}"))
        for number, column in enumerate(stream.on)
    )
    cursor.execute(
        sql.SQL(_SAID).format(said=said, count=count, keys=_COMMA.join(keys), landed=stream.landed, says=says),
        {"units": account.labels, "pipeline": pipeline},
    )
    return said


def _same_key(stream: StagedStream, alias: str) -> sql.Composable:
    return _AND.join(
        sql.SQL("{}.{} = landed.{}").format(
            sql.Identifier(alias), sql.Identifier(f"key_{number}"), stream.column(column)
        )
        for number, column in enumerate(stream.on)
    )
