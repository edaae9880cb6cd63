"""Deletes old rows of large tables, one stretch of their key after the other: no row is looked at twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from psycopg2 import extensions

# Where the stretch behind a key ends; no row: it is the last one.
_HELD_STRETCH = """
    SELECT event_id FROM freshet.held_tuple WHERE pipeline = %(pipeline)s AND event_id > %(behind)s
    ORDER BY event_id OFFSET %(most)s - 1 LIMIT 1
"""
# Loaders let no event in again that was pruned. Should one be held a second time nevertheless, it has arrived once, and
# must not keep all others from being pruned.
_PRUNE_HELD = """
    WITH deleted AS (
        DELETE FROM freshet.held_tuple AS held USING (
            SELECT event_id FROM freshet.held_tuple
            WHERE pipeline = %(pipeline)s AND event_id > %(behind)s AND {until} AND place = '{place}'
                AND held_at < clock_timestamp() - %(age)s AND NOT EXISTS (
                    SELECT FROM freshet.batch WHERE batch.batch_no = held_tuple.batch_no AND state = 'started')
            FOR UPDATE SKIP LOCKED) AS old
        WHERE held.pipeline = %(pipeline)s AND held.event_id = old.event_id
        RETURNING held.event_id, held.event_hash, held.batch_no
    ), remembered AS (
        INSERT INTO freshet.pruned_tuple (pipeline, event_id, event_hash, batch_no, place)
        SELECT %(pipeline)s, event_id, event_hash, batch_no, '{place}' FROM deleted
        ON CONFLICT (pipeline, event_id) DO NOTHING RETURNING 1
    ), pruned_before AS (
        SELECT (SELECT count(*) FROM deleted) - (SELECT count(*) FROM remembered) AS count
    ), booked AS (
        INSERT INTO freshet.ledger_pruned AS kept (pipeline, {place}, duplicates)
        SELECT %(pipeline)s, -count, count FROM pruned_before WHERE count > 0
        ON CONFLICT (pipeline) DO UPDATE SET
            {place} = kept.{place} + excluded.{place}, duplicates = kept.duplicates + excluded.duplicates
    )
    SELECT count(*) FROM deleted
"""
_CHANGES_STRETCH = """
    SELECT change_no FROM freshet.relation_change WHERE change_no > %(behind)s
    ORDER BY change_no OFFSET %(most)s - 1 LIMIT 1
"""
_PRUNE_CHANGES = """
    DELETE FROM freshet.relation_change
    WHERE change_no > %(behind)s AND {until} AND changed_at < clock_timestamp() - %(age)s
"""


def prune_held(connection: extensions.connection, pipeline: str, place: str, age: timedelta, most: int) -> int:
    """Delete the tuples of a place that have been held for longer; that they arrived is remembered.

    Loaders know them by that: sent again, they are duplicates as they were while they were held. One that was pruned
    before is booked as a duplicate, so that the ledger's sums stay those of different tuples.

    Args:
        connection: in autocommit mode; each stretch is a transaction.
        pipeline: its name.
        place: one of `outcome.PLACES`.
        age: how long they are kept.
        most: rows of a stretch.

    Returns:
        how many were deleted. All tuples that the pipeline holds are looked at, once.
    """
    behind: str | None = ""
    deleted = 0
    with connection.cursor() as cursor:
        while behind is not None:
            arguments = {"pipeline": pipeline, "behind": behind, "age": age, "most": most}
            behind = _only(cursor, _HELD_STRETCH, arguments)
            until = "true" if behind is None else "event_id <= %(until)s"
            deleted += _only(cursor, _PRUNE_HELD.format(place=place, until=until), {**arguments, "until": behind})
    return deleted


def prune_changes(connection: extensions.connection, age: timedelta, most: int) -> int:
    """Delete noted changes of master data that are older; how many there were.

    They are numbered as time goes by: the first stretch without an old one is the last that is looked at.

    Args:
        connection: as for `prune_held`.
        age: how long they are kept.
        most: rows of a stretch.
    """
    behind: int | None = 0
    total = 0
    with connection.cursor() as cursor:
        while behind is not None:
            arguments = {"behind": behind, "age": age, "most": most}
            behind = _only(cursor, _CHANGES_STRETCH, arguments)
            until = "true" if behind is None else "change_no <= %(until)s"
            cursor.execute(_PRUNE_CHANGES.format(until=until), {**arguments, "until": behind})
            if not cursor.rowcount:
                break
            total += cursor.rowcount
    return total


def _only(cursor: extensions.cursor, statement: str, arguments: dict[str, Any]) -> Any:
    """The only value of a query's result; None if that is empty."""
    cursor.execute(statement, arguments)
    row = cursor.fetchone()
    return None if row is None else row[0]
