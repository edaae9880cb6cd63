"""Looks at held tuples, by the reason for which they are held; and forgets those that no try will make facts of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg2 import extensions

from spark_jobs.definition.fates import PLACES, UNMATCHED, WAITING_PLACES, Place, listed, named
from spark_jobs.definition.formats import FORMATS
from spark_jobs.ledger.accumulated_parts import END_WAITING, KEEP_FROM_CLOSING
from spark_jobs.ledger.status.backlog import REQUEUED
from spark_jobs.loading.payload import IN_BASE64
from spark_jobs.reprocessing.request import NAMED
from spark_jobs.shown_text import shown_text

_FORMATS = sorted({each.held_as for each in FORMATS.values()})
_RECORDS = ", ".join(f"'{each}{end}'" for end in ("", IN_BASE64) for each in _FORMATS)
_TRIED = f"(place IN ({listed(WAITING_PLACES)}) OR fate IN ({listed(named(requeue=True))}))"
UNREAD = f"payload_encoding IN ({_RECORDS}) AND starts_with(event_id, chr(123)) AND {_TRIED}"
"""SQL condition: a record that was no tuple of the source, or had no id; by a corrected schema it may be one."""
HAS_EVENT = f"(payload_encoding IN ({_RECORDS}) AND starts_with(event_id, '[') AND {_TRIED} OR {UNREAD})"
"""SQL condition: a try may make a fact of it. What one of several streams can't read stays held, and so does poison."""
# The part `join` of a stored definition, or null. The spelling of the last version stays until a driver starts.
_JOIN = """coalesce(
    definition -> 'join',
    CASE definition -> 'correlate' ->> 'emit' WHEN 'complete' THEN
        (definition -> 'correlate') || jsonb_build_object('window', definition -> 'correlate' -> 'within') END
)"""
# As `late_window` has it: of outer joins, and without a window, nothing is joined later.
_JOINS_LATE = """
    joined ->> 'window' IS NOT NULL
    AND NOT jsonb_path_exists(joined, '$.expired ? (@ == "emit" || @.* == "emit")')
"""
WAITS_TO_BE_JOINED = f"""
    event_id ~ '^[a-z0-9_]+/\\[' AND EXISTS (
        SELECT FROM freshet.pipeline CROSS JOIN LATERAL (SELECT {_JOIN}) AS of (joined)
        WHERE name = %(pipeline)s AND (
            fate IN ({listed(named(retried="late join"))}) AND {_JOINS_LATE}
            OR fate IN ({listed(named(retried="its row"))}) AND correlation_key IS NOT NULL
        )
    )
"""
"""SQL condition: a tuple of one of several streams that is joined without being asked for, once it can be."""

_CHOSEN = f"""
    pipeline = %(pipeline)s AND place = ANY (%(places)s) AND {NAMED}
    AND (%(since)s::timestamptz IS NULL OR arrived_at >= %(since)s::timestamptz)
    AND (%(until)s::timestamptz IS NULL OR held_at <= %(until)s::timestamptz)
"""
# Tuples of an open batch belong to its loaders.
SETTLED = "batch_no <> ALL (SELECT batch_no FROM freshet.batch WHERE pipeline = %(pipeline)s AND state = 'started')"
# What a lookup's key is in: the record, or of Debezium's envelope the row after the change. Of Avro, columns are held.
_ROW = """(
    SELECT CASE WHEN definition #>> '{source,envelope}' = 'debezium' AND definition #>> '{source,format}' = 'json'
        THEN coalesce(payload::json #> '{payload,after}', payload::json -> 'after') ELSE payload::json END
    FROM freshet.pipeline WHERE name = %(pipeline)s
)"""
_LESS_OF_PLACES = ", ".join(f"coalesce(-sum(count) FILTER (WHERE place = '{place}'), 0)" for place in PLACES)
_MOST_GROUPS = 100
_MOST_KEYS = 3
# That they arrived stays known, as it does of what retention deletes: sent again they are duplicates, and the ledger's
# sums and the proof count them as pruned. Who did it, and when, is a run that changes no count.
_FORGET = f"""
    {KEEP_FROM_CLOSING}
    WITH forgotten AS (
        DELETE FROM freshet.held_tuple WHERE {_CHOSEN} AND {SETTLED}
        RETURNING event_id, event_hash, batch_no, place, fate, correlation_key
    ), waiting AS ({END_WAITING.format(deleted="forgotten")}), remembered AS (
        INSERT INTO freshet.pruned_tuple (pipeline, event_id, event_hash, batch_no, place)
        SELECT %(pipeline)s, event_id, event_hash, batch_no, place FROM forgotten
        ON CONFLICT (pipeline, event_id) DO NOTHING RETURNING event_id
    ), pruned_before AS (
        SELECT place, count(*) AS count FROM forgotten WHERE event_id NOT IN (SELECT event_id FROM remembered)
        GROUP BY place
    ), booked AS (
        INSERT INTO freshet.ledger_pruned AS kept (pipeline, {", ".join(PLACES)}, duplicates, placed)
        SELECT %(pipeline)s, {_LESS_OF_PLACES}, sum(count), -sum(count)
        FROM pruned_before HAVING count(*) > 0
        ON CONFLICT (pipeline) DO UPDATE SET
            {", ".join(f"{place} = kept.{place} + excluded.{place}" for place in PLACES)},
            duplicates = kept.duplicates + excluded.duplicates,
            placed = kept.placed + excluded.placed
    )
    INSERT INTO freshet.reprocessing_run
        (pipeline, state, airflow_run, algorithm, places, arrived_from, tuple_limit, closed_at, due, taken, statistics)
    SELECT %(pipeline)s, 'finished', %(airflow_run)s, 'forget', %(places)s, %(since)s, count(*), clock_timestamp(),
        count(*), count(*), jsonb_build_object('by', %(by)s, 'reason', %(reason)s, 'text', %(text)s)
    FROM forgotten HAVING count(*) > 0 RETURNING taken
"""


@dataclass(frozen=True)
class HeldGroup:
    """Held tuples of one place, relation and reason, but for the numbers in it.

    Attributes:
        place: one of `PLACES`.
        reason: of all of them; where its numbers differ, with `…` for each.
        relation: the relation whose lookup it is about; None if it is about none.
        tuples: how many.
        hopeless: how many of them can't become facts.
        unread: how many of them could not be read: a new try may, once the schema is corrected.
        requeued: how many of them only wait for their next try: nothing has shed them.
        unjoined: how many of them wait to be joined with other streams' tuples; a new try is not for them.
        oldest: when the first of them arrived.
        keys: the keys that most of them have, and how many have each; of unmatched JSON records only.
    """

    place: Place
    reason: str
    relation: str | None
    tuples: int
    hopeless: int
    unread: int
    requeued: int
    unjoined: int
    oldest: datetime
    keys: tuple[tuple[str, int], ...] = ()

    @property
    def in_words(self) -> str:
        """A line for people: how many, where and why, and what may become of them."""
        keys = f" (most often {', '.join(f'{key}: {count:,}' for key, count in self.keys)})" if self.keys else ""
        hopeless = f" [{self.hopeless:,} can't become facts]" if self.hopeless else ""
        unread = f" [{self.unread:,} could not be read: correct the schema, then requeue]" if self.unread else ""
        unjoined = f" [{self.unjoined:,} wait to be joined]" if self.unjoined else ""
        waits = "requeued" if self.requeued == self.tuples else self.place
        return f"{self.tuples:>12,}  {waits:9}  {shown_text(self.reason + keys)}{hopeless}{unread}{unjoined}"


@dataclass(frozen=True)
class HeldSample:
    """One held tuple: where and why it is held, where it comes from, and its record as it arrived."""

    event_id: str
    place: Place
    reason: str
    arrived_at: datetime
    attempts: int
    source_unit: str | None
    source_position: int | None
    payload: str

    @property
    def in_words(self) -> str:
        """Two lines for people: what it is and why it is held; its record."""
        where = f"{self.source_unit}:{self.source_position}" if self.source_unit else ""
        return f"{shown_text(f'{self.event_id}  {where}  {self.reason}')}\n    {shown_text(str(self.payload))}"


@dataclass(frozen=True)
class HeldFilter:
    """Which held tuples.

    Attributes:
        pipeline: its name.
        places: where they are held.
        reason: text that their reason contains.
        text: text that their record contains.
        since: when they arrived, at the earliest; None: whenever.
        until: when they came to where they are held, at the latest, by the warehouse's clock; None: whenever.
    """

    pipeline: str
    places: Sequence[Place] = PLACES
    reason: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def arguments(self) -> dict[str, Any]:
        """As the queries here take it."""
        chosen = {"pipeline": self.pipeline, "places": list(self.places), "reason": self.reason, "text": self.text}
        return {**chosen, "since": self.since, "until": self.until}


def until_now(connection: extensions.connection, chosen: HeldFilter) -> HeldFilter:
    """The same, without what comes to be held from now on."""
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        row = cursor.fetchone()
    assert row is not None
    return replace(chosen, until=row[0])


def count_forgettable(connection: extensions.connection, chosen: HeldFilter) -> int:
    """How many tuples `forget` would delete."""
    with connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM freshet.held_tuple WHERE {_CHOSEN} AND {SETTLED}", chosen.arguments())
        row = cursor.fetchone()
    return 0 if row is None else int(row[0])


def held_groups(
    connection: extensions.connection, chosen: HeldFilter, lookups: Sequence[tuple[str, Sequence[str]]] = ()
) -> list[HeldGroup]:
    """Why tuples are held, the largest group first; at most a hundred. Reads all that are held, once.

    Args:
        connection: to the warehouse; this is one transaction on it.
        chosen: which tuples.
        lookups: relation and stream columns of each lookup, to tell which keys are missing.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT place, CASE WHEN min(reason) = max(reason) THEN min(reason) "
            "ELSE regexp_replace(min(reason), '[0-9]+', '…', 'g') END, "
            f"relation, count(*), count(*) FILTER (WHERE NOT ({HAS_EVENT} OR {WAITS_TO_BE_JOINED})), "
            f"count(*) FILTER (WHERE {UNREAD}), count(*) FILTER (WHERE {REQUEUED}), "
            f"count(*) FILTER (WHERE {WAITS_TO_BE_JOINED}), min(arrived_at) FROM freshet.held_tuple WHERE {_CHOSEN} "
            "GROUP BY place, relation, regexp_replace(reason, '[0-9]+', '', 'g') "
            f"ORDER BY count(*) DESC, 1, 2 LIMIT {_MOST_GROUPS}",
            chosen.arguments(),
        )
        groups = [HeldGroup(*row) for row in cursor.fetchall()]
        missing = {relation: _missing_keys(cursor, chosen, relation, columns) for relation, columns in lookups}
    return [
        replace(group, keys=missing.get(group.relation or "", ())) if group.place == UNMATCHED.place else group
        for group in groups
    ]


def registered_lookups(connection: extensions.connection, pipeline: str) -> list[tuple[str, list[str]]]:
    """Relation and stream columns of each lookup, as the pipeline was registered last; of one that is unknown none."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT lookup ->> 'relation', ARRAY (SELECT jsonb_object_keys(lookup -> 'on')) FROM freshet.pipeline, "
            "jsonb_array_elements(coalesce(definition -> 'lookups', '[]')) AS lookup WHERE name = %s",
            [pipeline],
        )
        return cursor.fetchall()


def held_samples(
    connection: extensions.connection, chosen: HeldFilter, most: int, longest: int | None = None
) -> list[HeldSample]:
    """Some held tuples, those that arrived last first; of their records so many characters, or all."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT event_id, place, reason, arrived_at, attempts, source_unit, source_position, "
            "left(payload, coalesce(%(longest)s, length(payload))) FROM freshet.held_tuple "
            f"WHERE {_CHOSEN} ORDER BY arrived_at DESC, event_id LIMIT %(most)s",
            {**chosen.arguments(), "most": most, "longest": longest},
        )
        return [HeldSample(*row) for row in cursor.fetchall()]


def forget(connection: extensions.connection, chosen: HeldFilter, by: str, airflow_run: str | None = None) -> int:
    """Delete held tuples for good: they will not become facts, and sent again they are duplicates.

    Args:
        connection: to the warehouse; this is one transaction on it.
        chosen: which tuples. Those of an open batch stay.
        by: who wants it; noted with the time, in freshet.reprocessing_run.
        airflow_run: id of the DAG run that asks; None without Airflow.

    Returns:
        how many were forgotten.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(_FORGET, {**chosen.arguments(), "by": by, "airflow_run": airflow_run})
        row = cursor.fetchone()
    return 0 if row is None else int(row[0])


def _missing_keys(
    cursor: extensions.cursor, chosen: HeldFilter, relation: str, columns: Sequence[str]
) -> tuple[tuple[str, int], ...]:
    """The keys that most unmatched tuples of a relation have. Records that are no JSON objects tell none."""
    cursor.execute(
        f"""
        SELECT array_to_string(ARRAY (SELECT coalesce({_ROW} ->> name, 'null')
            FROM unnest(%(columns)s::text[]) AS name), ', ') AS key, count(*)
        FROM freshet.held_tuple
        WHERE {_CHOSEN} AND fate = '{UNMATCHED}' AND relation = %(relation)s AND payload_encoding = 'json'
            AND payload !~* '\\\\u(0000|d[89a-f])'  -- texts that JSON has, and PostgreSQL does not
        GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {_MOST_KEYS}
        """,
        {**chosen.arguments(), "relation": relation, "columns": list(columns)},
    )
    return tuple((key, count) for key, count in cursor.fetchall())
