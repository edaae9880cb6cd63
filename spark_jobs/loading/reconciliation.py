"""Settles event ids that two tasks of one batch stored at the same time, one as a fact and one as held."""

from __future__ import annotations

from collections import Counter

from psycopg2 import extensions

from spark_jobs.loading.outcome import Place
from spark_jobs.loading.staging import stored_event_ids
from spark_jobs.warehouse.fact_table import FactTable

_IDS_AT_ONCE = 50_000


def drop_held_facts(cursor: extensions.cursor, fact: FactTable, pipeline: str, batch_no: int) -> Counter[Place]:
    """Delete the tuples that a batch holds although they are facts.

    Two transactions that run at the same time don't see each other's tuples, and no constraint spans the fact
    table and the held tuples. So duplicates across the two are allowed while a batch is open, and taken out when
    it is closed. The fact stays.

    Args:
        cursor: in a transaction that keeps the batch's loaders out.
        fact: the fact table.
        pipeline: its name.
        batch_no: the batch.

    Returns:
        how many were deleted, by place. Nothing to do where the batch holds nothing; otherwise an index probe for
        each tuple it holds, in bounded memory.
    """
    dropped: Counter[Place] = Counter()
    with cursor.connection.cursor("held_by_batch") as held:
        # Digests, which stand for ids that no fact can have, begin with a brace.
        held.execute(
            "SELECT event_id FROM freshet.held_tuple "
            "WHERE pipeline = %s AND batch_no = %s AND starts_with(event_id, '[')",
            [pipeline, batch_no],
        )
        while event_ids := [event_id for (event_id,) in held.fetchmany(_IDS_AT_ONCE)]:
            dropped += _drop_facts(cursor, fact, pipeline, event_ids)
    return dropped


def _drop_facts(cursor: extensions.cursor, fact: FactTable, pipeline: str, event_ids: list[str]) -> Counter[Place]:
    stored = stored_event_ids(cursor, fact, event_ids)
    if not stored.any():
        return Counter()
    cursor.execute(
        "WITH deleted AS (DELETE FROM freshet.held_tuple WHERE pipeline = %s AND event_id = ANY (%s) RETURNING place) "
        "SELECT place, count(*) FROM deleted GROUP BY place",
        [pipeline, [event_id for event_id, is_fact in zip(event_ids, stored, strict=True) if is_fact]],
    )
    return Counter(dict(cursor.fetchall()))
