"""Where each event of one of several streams is: in a result, waiting, held, or nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg2 import extensions, sql

from spark_jobs.definition.fates import AFTER_LAST, LATE, OPEN_SHARES, REJECTED, named
from spark_jobs.definition.joined_tuple import JOINED_ID
from spark_jobs.proof.account import Account
from spark_jobs.proof.join import JoinedEvents
from spark_jobs.proof.lookup import comparable
from spark_jobs.proof.parts_together import id_column
from spark_jobs.proof.proof import EXAMPLES, Findings, StreamPlaces
from spark_jobs.proof.staged_events import LANDED
from spark_jobs.proof.staged_stream import StagedStream
from spark_jobs.proof.stored_tuples import StoredTuples

# The state is that of the last committed batch: what a batch that is still open has joined, or held, waits until then.
_STANDING = """
    CREATE TEMPORARY TABLE {result} ON COMMIT DROP AS
    SELECT event_id, bool_or(is_settled) AS is_settled FROM (
        SELECT result.{id} AS event_id, NOT result.is_open AS is_settled FROM {results} AS result
        WHERE NOT EXISTS (SELECT FROM pg_temp.unstored WHERE unstored.id = result.event_id)
        UNION ALL
        SELECT landed.event_id, true FROM {landed} AS landed JOIN pg_temp.unequal AS fact ON {is_part}
        WHERE NOT fact.landed
        UNION ALL
        SELECT '[' || string_agg(part.value::text, ',' ORDER BY part.number) || ']', true
        FROM (SELECT event_id FROM {held_results} UNION ALL SELECT event_id FROM {pruned_results}) AS result
        CROSS JOIN LATERAL json_array_elements(CASE WHEN left(event_id, 1) = '[' THEN {ids} ELSE '[]' END::json)
            WITH ORDINALITY AS part (value, number)
        WHERE part.number BETWEEN {first} AND {last}
            AND NOT EXISTS (SELECT FROM {results} AS landed WHERE landed.event_id = result.event_id)
        GROUP BY result.event_id
    ) AS stored GROUP BY event_id;

    CREATE TEMPORARY TABLE {standing} ON COMMIT DROP AS
    SELECT event.*, times_waiting,
        result.event_id IS NOT NULL AND (is_settled OR times_waiting = 0) AS in_result,
        times_waiting > 0 AS waiting,
        is_held AND is_expired AS expired,
        is_held AND NOT is_expired AS rejected,
        is_held AND is_late AS late,
        is_held AND is_after_last AS after_last,
        EXISTS (SELECT FROM {pruned} AS pruned WHERE pruned.event_id = event.id) AS pruned
    FROM (
        SELECT CASE WHEN raw_held THEN raw_id ELSE coalesce(event_id, raw_id) END AS id, min(file) AS file,
            count(*) AS copies, count(*) FILTER (WHERE NOT pending) AS loaded
        FROM {landed} GROUP BY 1
    ) AS event
    LEFT JOIN {result} AS result ON result.event_id = event.id
    LEFT JOIN (SELECT event_id, count(*) AS times FROM {waiting} GROUP BY 1) AS waiting ON waiting.event_id = event.id
    LEFT JOIN (
        SELECT *, fate = ANY ({expired}) AS is_expired, fate = {late} AS is_late, fate = {after_last} AS is_after_last
        FROM {held}
    ) AS held ON held.event_id = event.id
    CROSS JOIN LATERAL (
        SELECT coalesce(waiting.times, 0) AS times_waiting,
            held.event_id IS NOT NULL AND NOT (waiting.times IS NOT NULL AND held.is_of_open_batch) AS is_held
    ) AS found
"""
_PLACES: dict[str, str] = {
    "in_result": "in a result",
    **dict(zip(OPEN_SHARES, OPEN_SHARES, strict=True)),
    "pruned": "pruned",
}
# Of an event that came again, the first may be in a result and the second too late, or after the last.
_APART = {name: name for name in _PLACES} | {
    str(REJECTED.share): "rejected AND NOT ((late OR after_last) AND ({came_again}))",
    "pruned": "pruned AND NOT ({came_again})",
}
_WORDS = ", ".join(f"CASE WHEN {{alias}}.{name} THEN '{words}' END" for name, words in _PLACES.items())
_NUMBER = " + ".join(f"({name})::int" for name in _PLACES)
_NUMBER_APART = " + ".join(f"({condition})::int" for condition in _APART.values())


class Standings:
    """The places of a stream's events.

    It makes the temporary table `standing_<n>`, one row for each event: `id`, `file`; `copies` and `loaded`, how many
    records of it have landed, and are loaded; the places, of which one should be true; `late` and `after_last`, why it
    was rejected.

    Args:
        cursor: in the proof's transaction; `unstored`, `unequal` and `waiting_<n>` are made.
        stream: the stream.
        account: of its files.
        held: SQL name of its held tuples, but for those that wait.
        joined: of the joined tuples with R.
        results: the joined tuples that are held.
        findings: takes what is found.
    """

    def __init__(
        self,
        cursor: extensions.cursor,
        stream: StagedStream,
        account: Account,
        held: sql.Identifier,
        joined: JoinedEvents,
        results: StoredTuples,
        findings: Findings,
    ) -> None:
        self._cursor = cursor
        self._stream = stream
        self._account = account
        self._held = held
        self._findings = findings
        first, last = stream.id_positions
        self._execute(
            _STANDING,
            is_part=is_part(stream, joined),
            results=LANDED,
            held_results=results.held,
            pruned_results=results.pruned,
            ids=sql.SQL("event_id::json ->> 0" if JOINED_ID in joined.key_types else "event_id"),
            first=sql.Literal(first),
            last=sql.Literal(last),
        )

    def check(self) -> None:
        """Report the events that are in no place, or in several; those that wait and never landed; wrong lateness."""
        labels, prefix = self._account.labels, self._stream.prefix
        count = self._number("SELECT count(*) FROM {standing} WHERE loaded > 0 AND {number} = 0")
        self._execute(
            "SELECT id, file FROM {standing} WHERE loaded > 0 AND {number} = 0 ORDER BY file, id LIMIT {most}"
        )
        self._findings.put("missing", count, [f"{prefix}{id} of {labels[file]}" for id, file in self._cursor])
        several = "{number_apart} > 1 OR times_waiting > 1"
        count = self._number(f"SELECT count(*) FROM {{standing}} WHERE {several}")
        self._execute(
            "SELECT id, concat_ws(' and ', {words}, CASE WHEN times_waiting > 1 THEN times_waiting || ' times' END)"
            f" FROM {{standing}} AS standing WHERE {several} ORDER BY id LIMIT {{most}}",
            words=words("standing"),
        )
        self._findings.put("in_two_places", count, [f"{prefix}{id} is {places}" for id, places in self._cursor])
        self._extra_waiting()
        self._not_late()

    def places(self) -> StreamPlaces:
        """How many events are where."""
        self._execute(
            """
            SELECT coalesce(sum(loaded), 0), count(*) FILTER (WHERE in_result),
                count(*) FILTER (WHERE waiting AND NOT in_result),
                count(*) FILTER (WHERE expired AND NOT waiting AND NOT in_result),
                count(*) FILTER (WHERE rejected), count(*) FILTER (WHERE late), count(*) FILTER (WHERE after_last),
                count(*) FILTER (WHERE pruned AND {number} = 1),
                coalesce(sum(greatest(loaded - greatest({number}, 1), 0)), 0)
            FROM {standing} WHERE loaded > 0
            """
        )
        [counts] = self._cursor.fetchall()
        arrived, in_result, waiting, expired, rejected, late, after_last, pruned, duplicates = map(int, counts)
        return StreamPlaces(
            stream=self._stream.name,
            files=len(self._account.labels),
            arrived=arrived,
            in_result=in_result,
            waiting=waiting,
            expired=expired,
            rejected=rejected,
            late=late,
            after_last=after_last,
            pruned=pruned,
            duplicates=duplicates,
            pending=self._number("SELECT coalesce(sum(copies - loaded), 0) FROM {standing}"),
        )

    def _extra_waiting(self) -> None:
        """Tuples in the state that never landed; some may have, in files that are there no longer."""
        self._execute(
            """
            CREATE TEMPORARY TABLE {extra} ON COMMIT DROP AS
            SELECT DISTINCT event_id FROM {waiting} AS waiting
            WHERE NOT EXISTS (SELECT FROM {standing} AS standing WHERE standing.id = waiting.event_id)
            """,
            extra=self._stream.table("extra_waiting"),
        )
        count = self._number("SELECT count(*) FROM {extra}", extra=self._stream.table("extra_waiting"))
        extra = count - self._account.absent.explain(count)
        self._execute("SELECT event_id FROM {extra} ORDER BY 1 LIMIT {most}", extra=self._stream.table("extra_waiting"))
        self._findings.put("extra_waiting", extra, [f"{self._stream.prefix}{id}" for (id,) in self._cursor][:extra])

    def _not_late(self) -> None:
        """Tuples that were rejected as late, and were not: by how far the ledger says that their stream had come."""
        not_late = """
            FROM {held} AS held JOIN freshet.batch_stream AS progress
                ON progress.batch_no = held.batch_no AND progress.stream = {name}
            WHERE held.fate = {late}
                AND EXISTS (SELECT FROM {landed} AS landed WHERE landed.event_id = held.event_id)
                AND NOT EXISTS (SELECT FROM {landed} AS landed
                                WHERE landed.event_id = held.event_id AND landed.{event_time} < progress.reached)
        """
        count = self._number(f"SELECT count(*) {not_late}")
        self._execute(f"SELECT held.event_id, progress.reached::text {not_late} ORDER BY 1 LIMIT {{most}}")
        told = [
            f"{self._stream.prefix}{id}: it is not late, {self._stream.name} had come to {reached or 'nothing yet'}"
            for id, reached in self._cursor
        ]
        self._findings.put("wrongly_rejected", count, told)

    def _number(self, statement: str, **parts: sql.Composable) -> int:
        self._execute(statement, **parts)
        [(number,)] = self._cursor.fetchall()
        return int(number)

    def _execute(self, statement: str, **parts: sql.Composable) -> None:
        stream = self._stream
        self._cursor.execute(
            sql.SQL(statement.replace("{number}", f"({_NUMBER})").replace("{number_apart}", _NUMBER_APART)).format(
                name=sql.Literal(stream.name),
                came_again=sql.SQL("copies > 1 OR {}").format(sql.Literal(bool(self._account.absent.units))),
                id=id_column(stream),
                landed=stream.landed,
                held=self._held,
                pruned=stream.stored.pruned,
                waiting=stream.table("waiting"),
                result=stream.table("result"),
                standing=stream.table("standing"),
                event_time=stream.column(stream.source.event_time),
                late=sql.Literal(LATE.name),
                after_last=sql.Literal(AFTER_LAST.name),
                expired=sql.Literal(named(share="expired")),
                most=sql.Literal(EXAMPLES),
                **parts,
            )
        )


def words(alias: str) -> sql.Composable:
    """SQL: the places of an event of `standing_<n>` in words, separated by commas; nulls where it is not."""
    return sql.SQL(_WORDS).format(alias=sql.Identifier(alias))


def is_part(stream: StagedStream, joined: JoinedEvents) -> sql.Composable:
    """SQL: the event of `landed`, of this stream, is that which the key of `fact` names."""
    keys = dict(zip(joined.key_types, zip(joined.key_types.values(), joined.key_columns, strict=True), strict=True))
    conditions = []
    for column in stream.source.event_id:
        if stream.named(column) not in keys:  # facts are filled in part by part, and are known by another stream's
            return sql.SQL("false")
        wanted, stored = keys[stream.named(column)]
        staged = stream.staging.column(column)
        value = comparable(sql.SQL("landed.{}").format(sql.Identifier(staged.name)), staged.type, wanted)
        conditions.append(sql.SQL("fact.{} = {}").format(sql.Identifier(stored), value))
    return sql.SQL(" AND ").join(conditions)


def may_be_absent(streams: Iterable[StagedStream], joined: JoinedEvents) -> sql.Composable:
    """SQL: an event that the key of `fact` names has not landed, and is of one of these streams."""
    conditions = [
        sql.SQL("NOT EXISTS (SELECT FROM {} AS landed WHERE {})").format(stream.landed, is_part(stream, joined))
        for stream in streams
    ]
    return sql.SQL("({})").format(sql.SQL(" OR ").join([sql.SQL("false"), *conditions]))


def report_missing_results(
    cursor: extensions.cursor, streams: Sequence[StagedStream], labels: Sequence[str], findings: Findings
) -> None:
    """Report the tuples of the streams' join that are stored nowhere, with the places of their parts.

    Args:
        cursor: in the proof's transaction; `unstored` and the streams' standings are made.
        streams: all of them.
        labels: of the joined tuples' files.
        findings: takes what is found.
    """
    cursor.execute("SELECT count(DISTINCT id) FROM pg_temp.unstored WHERE NOT pending")
    [(count,)] = cursor.fetchall()
    if not count:
        return
    standings = [
        sql.SQL(" LEFT JOIN {table} AS {alias} ON {alias}.id = landed.{id}").format(
            table=stream.table("standing"), alias=sql.Identifier(stream.name), id=id_column(stream)
        )
        for stream in streams
    ]
    told = [
        sql.SQL("{name} || ' is ' || coalesce(nullif(concat_ws(' and ', {words}), ''), 'nowhere')").format(
            name=sql.Literal(stream.name), words=words(stream.name)
        )
        for stream in streams
    ]
    cursor.execute(
        sql.SQL(
            """
            SELECT DISTINCT ON (landed.file, landed.event_id) landed.event_id, landed.file, concat_ws(', ', {told})
            FROM {landed} AS landed JOIN (SELECT DISTINCT id FROM pg_temp.unstored WHERE NOT pending) AS unstored
                ON unstored.id = landed.event_id {standings}
            ORDER BY landed.file, landed.event_id LIMIT {most}
            """
        ).format(
            told=sql.SQL(", ").join(told),
            landed=LANDED,
            standings=sql.SQL("").join(standings),
            most=sql.Literal(EXAMPLES),
        )
    )
    findings.put("missing_result", count, [f"{id} of {labels[file]}: {places}" for id, file, places in cursor])
