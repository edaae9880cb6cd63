"""The batch ledger: one row for each batch of a pipeline, whose counts add up to what is stored.

It is the stream's checkpoint, too. A batch is opened with the ranges of the source that it is to read, and closed with
what became of them: position, facts and held tuples move together. One that was cut off stays open, and the next
driver goes on with it.

A loading transaction writes what it stored as a part of its batch (freshet.batch_part) and commits both or
nothing. Closing a batch sums its parts up, and adds them to the sums by minute. So the ledger is exact whatever was cut
off where.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import psycopg2.extras
from psycopg2 import extensions

from spark_jobs.control.fencing import lock_against_loaders, require_epoch
from spark_jobs.definition.fates import PLACES, Place
from spark_jobs.definition.kinds import KINDS
from spark_jobs.errors import WriterFencedError
from spark_jobs.ledger import id_sketches
from spark_jobs.ledger.batch_streams import (
    StreamProgress,
    StreamTally,
    close_streams,
    former_batch,
    open_streams,
    opened_streams,
)
from spark_jobs.ledger.latency import total
from spark_jobs.ledger.source_ranges import RangeEnd, SourceRange, close_ranges, plan_ranges, planned_ranges
from spark_jobs.ledger.sums import HITS, PROBES, RECORDS, added_histogram
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.warehouse.fact_staging import stored_event_ids
from spark_jobs.warehouse.fact_table import FactTable

_IDS_AT_ONCE = 50_000
# A row a minute and pipeline.
_ADD_TO_MINUTE = f"""
    INSERT INTO freshet.ledger_minute AS known (pipeline, minute, batches, arrived, facts, shed, unmatched, rejected,
        duplicates, probes, hits, event_latency, arrival_latency, stage_seconds)
    SELECT pipeline, date_trunc('minute', closed_at), 1,
        {RECORDS}, facts, shed, unmatched, rejected, duplicates, {PROBES}, {HITS},
        coalesce(event_latency, '{{}}'), coalesce(arrival_latency, '{{}}'),
        coalesce(statistics -> 'stage_seconds', '{{}}')
    FROM freshet.batch WHERE batch_no = %s
    ON CONFLICT (pipeline, minute) DO UPDATE SET
        batches = known.batches + excluded.batches,
        arrived = known.arrived + excluded.arrived,
        facts = known.facts + excluded.facts,
        shed = known.shed + excluded.shed,
        unmatched = known.unmatched + excluded.unmatched,
        rejected = known.rejected + excluded.rejected,
        duplicates = known.duplicates + excluded.duplicates,
        probes = known.probes + excluded.probes,
        hits = known.hits + excluded.hits,
        event_latency = coalesce({added_histogram("known", "event_latency")}, '{{}}'),
        arrival_latency = coalesce({added_histogram("known", "arrival_latency")}, '{{}}'),
        stage_seconds = (
            SELECT coalesce(jsonb_object_agg(stage, seconds), '{{}}')
            FROM (
                SELECT stage, sum(value::float8) AS seconds
                FROM (SELECT * FROM jsonb_each_text(known.stage_seconds)
                      UNION ALL SELECT * FROM jsonb_each_text(excluded.stage_seconds)) AS spent (stage, value)
                GROUP BY stage) AS summed)
"""


def read_as(definition: str) -> str:
    """SQL: what tells whether records are read as by another definition; null of several streams.

    Args:
        definition: SQL expression of type jsonb.
    """
    where = " - ".join(f"'{key}'" for key in ("after_load", *(kind.key for kind in KINDS.values())))
    return f"md5((nullif({definition} -> 'source', 'null') - {where})::text)"


class OpenBatch(NamedTuple):
    """A batch that is open.

    Attributes:
        batch_no: its number in the ledger, larger than that of every earlier batch.
        ranges: what it reads.
        lost: numbers of the ranges that were given up: they are gone for good, and not read any more.
        streams: of several streams, how far each had come when it was opened; else empty.
        after: of several streams, number of the committed batch whose state it starts from; 0: there is none.
    """

    batch_no: int
    ranges: list[SourceRange]
    lost: frozenset[int] = frozenset()
    streams: tuple[StreamProgress, ...] = ()
    after: int = 0


def open_batch(
    connection: extensions.connection,
    pipeline: str,
    epoch: int,
    ranges: Sequence[SourceRange],
    streams: Sequence[StreamProgress] = (),
) -> int:
    """Open a batch with what it is to read.

    Args:
        connection: the driver's; this is one transaction on it.
        pipeline: its name.
        epoch: the driver's epoch.
        ranges: none of them taken by another batch.
        streams: of several streams, how far each has come.

    Returns:
        its number.

    Raises:
        WriterFencedError: a newer driver has taken over.
    """
    with connection, connection.cursor() as cursor:
        require_epoch(cursor, pipeline, epoch)
        cursor.execute(
            f"INSERT INTO freshet.batch (pipeline, epoch, read_as) SELECT name, %s, {read_as('definition')} "
            "FROM freshet.pipeline WHERE name = %s RETURNING batch_no",
            [epoch, pipeline],
        )
        row = cursor.fetchone()
        assert row is not None
        plan_ranges(cursor, pipeline, row[0], ranges)
        open_streams(cursor, row[0], streams)
    return int(row[0])


def take_open_batches(connection: extensions.connection, pipeline: str, epoch: int, fact: FactTable) -> list[OpenBatch]:
    """The batches that former drivers have left open, oldest first: the driver of this epoch goes on with them.

    Batches without ranges, unless they are of several streams, are of a version that kept its position elsewhere:
    they are closed as abandoned, with the counts of their parts.

    Args:
        connection: the driver's; this is one transaction on it.
        pipeline: its name.
        epoch: the driver's epoch.
        fact: the pipeline's fact table.

    Raises:
        WriterFencedError: a newer driver has taken over.
    """
    taken = []
    with connection, connection.cursor() as cursor:
        require_epoch(cursor, pipeline, epoch)
        query = (
            "SELECT batch_no FROM freshet.batch WHERE pipeline = %s AND state = 'started' ORDER BY batch_no FOR UPDATE"
        )
        for (batch_no,) in lock_against_loaders(cursor, pipeline, query, [pipeline]):
            ranges, lost = planned_ranges(cursor, batch_no)
            streams = opened_streams(cursor, batch_no)
            if ranges or streams:
                after = former_batch(cursor, pipeline, batch_no).batch_no if streams else 0
                taken.append(OpenBatch(batch_no, ranges, lost, streams, after))
            else:
                _close(cursor, pipeline, batch_no, "abandoned", None, {}, fact, ())
        cursor.execute(
            "UPDATE freshet.batch SET epoch = %s, "
            f"read_as = CASE WHEN read_as <> {read_as('definition')} THEN 'several' ELSE read_as END "
            "FROM freshet.pipeline WHERE batch_no = ANY (%s) AND name = batch.pipeline",
            [epoch, [batch.batch_no for batch in taken]],
        )
    return taken


def close_batch(
    connection: extensions.connection,
    batch_no: int,
    ends: Sequence[RangeEnd],
    statistics: Mapping[str, Any],
    fact: FactTable,
    streams: Sequence[StreamTally] = (),
    settle: Callable[[extensions.cursor], Sequence[StreamTally]] | None = None,
    unsettled: IdSketch | None = None,
) -> None:
    """Commit a batch: settle duplicates between facts and held tuples, sum its parts up, and note what was read.

    Closing a batch that is committed already does nothing: after a lost connection it may be called again.

    Args:
        connection: the driver's; this is one transaction on it.
        batch_no: the batch.
        ends: what became of its ranges, in their order.
        statistics: figures of the batch, as JSON takes them.
        fact: the pipeline's fact table.
        streams: of several streams, what became of each one's events.
        settle: of accumulating facts, what tells that instead; it may settle parts before, in the same transaction.
        unsettled: event ids that were read, less those that were loaded; None where nobody knows.

    Raises:
        WriterFencedError: a newer driver has taken over.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT pipeline, epoch FROM freshet.batch WHERE batch_no = %s", [batch_no])
        row = cursor.fetchone()
        if row is None:
            raise WriterFencedError(f"There is no batch {batch_no} in this warehouse's ledger.")
        pipeline, epoch = row
        require_epoch(cursor, pipeline, epoch)
        # Chunks have not waited for the disk, and files are removed after this: it has to, whatever the database says.
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'local', true) WHERE current_setting('synchronous_commit') = 'off'"
        )
        query = "SELECT state FROM freshet.batch WHERE batch_no = %s FOR UPDATE"
        ((state,),) = lock_against_loaders(cursor, pipeline, query, [batch_no])
        if state == "started":
            arrived = close_ranges(cursor, batch_no, ends)
            if settle is not None:
                streams = settle(cursor)
            whole = all(end.reason is None for end in ends)
            _close(cursor, pipeline, batch_no, "committed", arrived, statistics, fact, streams, unsettled, whole=whole)


def _close(
    cursor: extensions.cursor,
    pipeline: str,
    batch_no: int,
    state: str,
    arrived: int | None,
    statistics: Mapping[str, Any],
    fact: FactTable,
    streams: Sequence[StreamTally],
    unsettled: IdSketch | None = None,
    *,
    whole: bool = True,
) -> None:
    """Close a batch whose row is locked against its loaders.

    `arrived`: records of its ranges, None if not counted; `whole`: nothing of them is set aside.
    """
    cursor.execute(
        "DELETE FROM freshet.batch_part WHERE batch_no = %s "
        "RETURNING facts, shed, unmatched, rejected, duplicates, event_latency, arrival_latency, sketch, dropped",
        [batch_no],
    )
    parts = cursor.fetchall()
    facts, *held, duplicates = (sum(part[k] for part in parts) for k in range(5))
    dropped, dropped_ids, told = Counter[Place](), IdSketch(), list[str]()
    if any(any(part[1:4]) for part in parts):
        dropped, dropped_ids, told = _drop_held_facts(cursor, fact, pipeline, batch_no)
    id_sketches.close(cursor, pipeline, batch_no, [part[7:] for part in parts], unsettled, dropped_ids, told)
    held = [number - dropped[place] for place, number in zip(PLACES, held, strict=True)]
    duplicates += dropped.total()
    placed = None
    if streams:
        # What is stored are results, and events that are in none; what arrived are events.
        placed = close_streams(cursor, pipeline, batch_no, streams)
        arrived = sum(tally.arrived for tally in streams)
        duplicates = sum(tally.duplicates for tally in streams)
    elif arrived is not None and whole:
        # A batch that was retried meets what its earlier attempts have stored: those were not sent twice. What they
        # have stored of a file that is set aside now did not arrive: nothing tells the one from the other.
        duplicates = min(duplicates, max(arrived - facts - sum(held), 0))
    cursor.execute(
        """
        UPDATE freshet.batch SET state = %s, closed_at = clock_timestamp(), arrived = %s, facts = %s, shed = %s,
            unmatched = %s, rejected = %s, duplicates = %s, placed = %s, event_latency = %s, arrival_latency = %s,
            statistics = %s
        WHERE batch_no = %s
        """,
        [
            *(state, arrived, facts, *held, duplicates, placed),
            total(part[5] for part in parts).tolist(),
            total(part[6] for part in parts).tolist(),
            psycopg2.extras.Json(dict(statistics), dumps=json.dumps),
            batch_no,
        ],
    )
    _add_to_minute(cursor, batch_no)


def _drop_held_facts(
    cursor: extensions.cursor, fact: FactTable, pipeline: str, batch_no: int
) -> tuple[Counter[Place], IdSketch, list[str]]:
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
        how many were deleted, by place; their event ids; and some of these. Costs an index probe for each tuple that
        the batch holds, in bounded memory.
    """
    dropped: Counter[Place] = Counter()
    ids = IdSketch()
    told: list[str] = []
    with cursor.connection.cursor("held_by_batch") as held:
        # Digests, which stand for ids that no fact can have, begin with a brace.
        held.execute(
            "SELECT event_id FROM freshet.held_tuple "
            "WHERE pipeline = %s AND batch_no = %s AND starts_with(event_id, '[')",
            [pipeline, batch_no],
        )
        while event_ids := [event_id for (event_id,) in held.fetchmany(_IDS_AT_ONCE)]:
            stored = stored_event_ids(cursor, fact, event_ids)
            if not stored.any():
                continue
            cursor.execute(
                "DELETE FROM freshet.held_tuple WHERE pipeline = %s AND event_id = ANY (%s) "
                "RETURNING place, event_hash, event_id",
                [pipeline, [event_id for event_id, is_fact in zip(event_ids, stored, strict=True) if is_fact]],
            )
            deleted = cursor.fetchall()
            dropped.update(place for place, _, _ in deleted)
            ids.add(np.array([code for _, code, _ in deleted], np.int64))
            told = id_sketches.sample([*told, *(event_id for _, _, event_id in deleted)], id_sketches.MOST_DROPPED)
    return dropped, ids, told


def _add_to_minute(cursor: extensions.cursor, batch_no: int) -> None:
    """Add a batch that is being closed to the minute of its end; in the transaction that closes it, so once only.

    Costs two index look-ups and some 400 additions, below a millisecond.
    """
    cursor.execute(_ADD_TO_MINUTE, [batch_no])
