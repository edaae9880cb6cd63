"""Proves of what was rejected as coming after the last of its key that a punctuation had landed which said so."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg2 import extensions, sql

from spark_jobs.definition.fates import AFTER_LAST, REJECTED, named
from spark_jobs.definition.join import Join
from spark_jobs.proof.account import Account
from spark_jobs.proof.proof import EXAMPLES, Findings
from spark_jobs.proof.staged_stream import StagedStream

_AND, _COMMA, _TRUE, _ONE = (sql.SQL(text) for text in (" AND ", ", ", "true", "1"))
# Ranges of before the ledger knew batches came first. Of an event that came several times any may have been taken.
_SAID = """
    CREATE TEMPORARY TABLE {said} ON COMMIT DROP AS
    SELECT landed.event_id, coalesce(range.batch_no, 0) AS batch_no, range_id, landed.position, {count} AS count, {keys}
    FROM {landed} AS landed JOIN freshet.source_range AS range USING (range_id)
    WHERE landed.event_id IS NOT NULL AND {says} AND landed.event_id NOT IN (
        SELECT held.event_id FROM {held} AS held JOIN {landed} AS landed USING (event_id)
        WHERE fate = ANY ({rejected}) AND range_id IS NOT NULL
        GROUP BY held.event_id HAVING count(*) = 1
    );
    CREATE INDEX ON {said} (key_0); ANALYZE {said}
"""
_WRONG = """
    SELECT held.event_id FROM {held} AS held JOIN {landed} AS landed USING (event_id)
    WHERE fate = {after_last}
    GROUP BY held.event_id HAVING NOT bool_or(EXISTS (
        SELECT FROM {telling} AS telling
        WHERE {same_key} AND {told_before} AND telling.count <= (
            SELECT count(DISTINCT said.event_id) FROM {said} AS said
            WHERE {same_key_said} AND {said_before} AND said.event_id <> held.event_id
        )
    ))
"""
# Batches, in them the streams in their order, and in a stream its files as they were planned, and positions in them.
_BEFORE = {
    "earlier": "{said}.batch_no <= held.batch_no",
    "same": """({said}.batch_no < held.batch_no OR {said}.batch_no = held.batch_no
        AND ({said}.range_id, {said}.position) < (landed.range_id, landed.position))""",
    "later": "{said}.batch_no < held.batch_no",
}


def check_after_last(
    cursor: extensions.cursor,
    join: Join,
    streams: Sequence[StagedStream],
    accounts: Sequence[Account],
    findings: Findings,
) -> None:
    """Report the tuples that were rejected as coming after the last of their key, with no punctuation that said so.

    It has to be of their stream and key, in another event that was loaded before them and not rejected itself. Nothing
    is told of streams of which files are there no longer. Of a topic's ranges that retention has merged the first batch
    counts for all.

    Args:
        cursor: in the proof's transaction.
        join: how the streams are joined.
        streams: all of them.
        accounts: of the streams, in their order, read.
        findings: takes what is found.
    """
    by_name = {stream.name: (stream, account) for stream, account in zip(streams, accounts, strict=True)}
    for name, punctuation in join.punctuations.items():
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
        said = _stage(cursor, stream, f"said_of_{stream.number}", says, _ONE)
        telling, place = said, "same"
        if teller != name:
            other, _ = by_name[teller]
            known = sql.SQL("{} IS NOT NULL").format(count)
            telling = _stage(cursor, other, f"told_of_{stream.number}", known, count)
            place = "earlier" if other.number < stream.number else "later"
        cursor.execute(
            sql.SQL(_WRONG).format(
                held=stream.stored.held,
                landed=stream.landed,
                after_last=sql.Literal(AFTER_LAST.name),
                said=said,
                telling=telling,
                same_key=_same_key(stream, "telling"),
                same_key_said=_same_key(stream, "said"),
                told_before=sql.SQL(_BEFORE[place]).format(said=sql.Identifier("telling")),
                said_before=sql.SQL(_BEFORE["same"]).format(said=sql.Identifier("said")),
            )
        )
        told = [f"{stream.prefix}{id}: no punctuation of its key had come before it" for (id,) in cursor]
        findings.put("wrongly_rejected", len(told), told[:EXAMPLES])


def _stage(
    cursor: extensions.cursor,
    stream: StagedStream,
    name: str,
    says: sql.Composable,
    count: sql.Composable,
) -> sql.Identifier:
    """A temporary table of the events that say something of their key, with the batch and the place that they had."""
    said = sql.Identifier("pg_temp", name)
    keys = (
        sql.SQL("landed.{} AS {}").format(stream.column(column), sql.Identifier(f"key_{number}"))
        for number, column in enumerate(stream.on)
    )
    cursor.execute(
        sql.SQL(_SAID).format(
            said=said,
            count=count,
            keys=_COMMA.join(keys),
            landed=stream.landed,
            says=says,
            held=stream.stored.held,
            rejected=sql.Literal(named(share=REJECTED.share)),
        )
    )
    return said


def _same_key(stream: StagedStream, alias: str) -> sql.Composable:
    return _AND.join(
        sql.SQL("{}.{} = landed.{}").format(
            sql.Identifier(alias), sql.Identifier(f"key_{number}"), stream.column(column)
        )
        for number, column in enumerate(stream.on)
    )
