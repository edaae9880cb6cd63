"""Retention: deletes what a pipeline keeps no longer, and keeps the sums of it, so that the balance still holds.

The ledger's sums go to freshet.ledger_pruned. Of a held tuple stays, in freshet.pruned_tuple, that it arrived.
Facts are never deleted here, nor are landed files. Large tables are gone through one stretch of their key after the
other: no row is looked at twice.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from psycopg2 import extensions

from spark_jobs.definition.fates import PLACES, WAITING
from spark_jobs.definition.operation import Retention
from spark_jobs.durations import parse_duration
from spark_jobs.errors import FreshetError
from spark_jobs.ledger import id_sketches
from spark_jobs.ledger.accumulated_parts import END_WAITING, KEEP_FROM_CLOSING
from spark_jobs.ledger.source_ranges import IS_OF_LOG
from spark_jobs.ledger.sums import HITS, PLACED, PROBES, RECORDS, added_histogram

_log = logging.getLogger(__name__)

# Rows that one transaction deletes at most: loaders and the page never wait long for it.
ROWS_AT_ONCE = 5_000
# Of pipelines that were registered before there was retention.
_DEFAULT: dict[str, str | None] = Retention().model_dump(mode="json")
_TOLD = {"*": "noted changes"}

_FOLD = f"""
    INSERT INTO freshet.ledger_pruned AS kept
        (pipeline, batches, arrived, facts, shed, unmatched, rejected, duplicates, placed, probes, hits, event_latency)
    SELECT %(pipeline)s, count(*), sum(arrived), sum(facts), sum(shed), sum(unmatched), sum(rejected), sum(duplicates),
        sum(placed), sum(probes), sum(hits), (SELECT array_agg(count ORDER BY bucket) FROM (
            SELECT bucket, sum(latency) AS count
            FROM deleted, unnest(event_latency) WITH ORDINALITY AS histogram (latency, bucket)
            GROUP BY bucket) AS summed)
    FROM deleted HAVING count(*) > 0
    ON CONFLICT (pipeline) DO UPDATE SET
        batches = kept.batches + excluded.batches, arrived = kept.arrived + excluded.arrived,
        facts = kept.facts + excluded.facts,
        shed = kept.shed + excluded.shed, unmatched = kept.unmatched + excluded.unmatched,
        rejected = kept.rejected + excluded.rejected, duplicates = kept.duplicates + excluded.duplicates,
        placed = kept.placed + excluded.placed,
        probes = kept.probes + excluded.probes, hits = kept.hits + excluded.hits,
        event_latency = {added_histogram("kept", "event_latency")}
"""
# Rows of the streams go with their batch.
_FOLD_STREAMS = """
    INSERT INTO freshet.stream_pruned AS kept (pipeline, stream, arrived)
    SELECT %(pipeline)s, stream, sum(arrived) FROM freshet.batch_stream JOIN old USING (batch_no) GROUP BY stream
    ON CONFLICT (pipeline, stream) DO UPDATE SET arrived = kept.arrived + excluded.arrived
"""
# What waits is told anew by each batch.
_FOLD_FATES = f"""
    INSERT INTO freshet.fate_pruned AS kept (pipeline, stream, fate, tuples)
    SELECT %(pipeline)s, stream, fate, sum(tuples) FROM freshet.batch_fate JOIN old USING (batch_no)
    WHERE fate <> '{WAITING}' GROUP BY stream, fate
    ON CONFLICT (pipeline, stream, fate) DO UPDATE SET tuples = kept.tuples + excluded.tuples
"""
# The newest batch stays, whatever its age: the next driver tells by it whether its first batch is a replay,
# and which version of several streams' state counts.
_PRUNE_BATCHES = f"""
    WITH old AS (
        SELECT batch_no FROM freshet.batch
        WHERE pipeline = %(pipeline)s AND state <> 'started' AND closed_at < clock_timestamp() - %(age)s
            AND batch_no < (SELECT max(batch_no) FROM freshet.batch WHERE pipeline = %(pipeline)s)
        ORDER BY batch_no LIMIT %(most)s
    ), deleted AS (
        DELETE FROM freshet.batch USING old WHERE batch.batch_no = old.batch_no
        RETURNING {RECORDS} AS arrived,
            facts, shed, unmatched, rejected, duplicates, event_latency,
            {PROBES} AS probes,
            {HITS} AS hits, {PLACED} AS placed
    ), folded AS ({_FOLD}), streams AS ({_FOLD_STREAMS}), fates AS ({_FOLD_FATES})
    SELECT count(*) FROM deleted
"""
_PRUNE_RUNS = f"""
    WITH old AS (
        SELECT batch_no FROM freshet.reprocessing_run
        WHERE pipeline = %(pipeline)s AND state <> 'running' AND closed_at < clock_timestamp() - %(age)s
        ORDER BY batch_no LIMIT %(most)s
    ), deleted AS (
        DELETE FROM freshet.reprocessing_run AS run USING old WHERE run.batch_no = old.batch_no
        RETURNING 0 AS arrived, facts, shed, unmatched, rejected, 0 AS duplicates, NULL::bigint[] AS event_latency,
            0 AS probes, 0 AS hits, facts + shed + unmatched + rejected AS placed
    ), folded AS ({_FOLD.replace("count(*), sum(arrived)", "0, sum(arrived)")})
    SELECT count(*) FROM deleted
"""
# Each batch notes a range of each log, say of each partition of a topic. Of batches that are gone it matters only how
# far they reached: ranges that follow on one another become one. Sums of records that nobody counted are not known.
_LOGS = f"""
    SELECT unit FROM freshet.source_range WHERE pipeline = %(pipeline)s AND {IS_OF_LOG}
    GROUP BY unit HAVING count(*) > 1 ORDER BY unit
"""
_MERGE_RANGES = """
    WITH old AS (
        SELECT range_id, first, last, size, records, modified_ns,
            first IS DISTINCT FROM lag(last) OVER (ORDER BY first, last) AS begins
        FROM freshet.source_range AS range
        WHERE pipeline = %(pipeline)s AND unit = %(unit)s AND state = 'loaded' AND batch_no IS NOT NULL
            AND reason IS NULL AND NOT EXISTS (SELECT FROM freshet.batch WHERE batch.batch_no = range.batch_no)
    ), numbered AS (
        SELECT *, count(*) FILTER (WHERE begins) OVER (ORDER BY first, last) AS stretch FROM old
    ), merged AS (
        SELECT stretch, min(range_id) AS range_id, min(first) AS first, max(last) AS last, sum(size) AS size,
            min(modified_ns) AS modified_ns, CASE WHEN count(records) = count(*) THEN sum(records) END AS records
        FROM numbered GROUP BY stretch HAVING count(*) > 1
    ), widened AS (
        UPDATE freshet.source_range AS kept SET (first, last, size, modified_ns, records) =
            (merged.first, merged.last, merged.size, merged.modified_ns, merged.records)
        FROM merged WHERE kept.range_id = merged.range_id
    ), deleted AS (
        DELETE FROM freshet.source_range AS gone USING numbered JOIN merged USING (stretch)
        WHERE gone.range_id = numbered.range_id AND gone.range_id <> merged.range_id RETURNING 1
    )
    SELECT count(*) FROM deleted
"""
# What is kept as long as the ledger and adds up to nothing: table -> which of its rows are old.
_BY_AGE = {
    "ledger_minute": "minute < clock_timestamp() - %(age)s",
    "validation": "coalesce(closed_at, started_at) < clock_timestamp() - %(age)s",
    "pipeline_event": "happened_at < clock_timestamp() - %(age)s",
    "freshness_episode": "recovered_at < clock_timestamp() - %(age)s",
    "driver": "stopped_at < clock_timestamp() - %(age)s AND epoch < (SELECT max(epoch) FROM freshet.driver AS newest "
    "WHERE newest.pipeline = %(pipeline)s)",
}
# Where the stretch behind a key ends; no row: it is the last one.
_HELD_STRETCH = """
    SELECT event_id FROM freshet.held_tuple WHERE pipeline = %(pipeline)s AND event_id > %(behind)s
    ORDER BY event_id OFFSET %(most)s - 1 LIMIT 1
"""
# Loaders do not let a pruned event in again. Should one be held a second time all the same, it has arrived once, and
# must not keep the others from being pruned.
_PRUNE_HELD = """
    WITH deleted AS (
        DELETE FROM freshet.held_tuple AS held USING (
            SELECT event_id FROM freshet.held_tuple
            WHERE pipeline = %(pipeline)s AND event_id > %(behind)s AND {until} AND place = '{place}'
                AND held_at < clock_timestamp() - %(age)s AND NOT EXISTS (
                    SELECT FROM freshet.batch WHERE batch.batch_no = held_tuple.batch_no AND state = 'started')
            FOR UPDATE SKIP LOCKED) AS old
        WHERE held.pipeline = %(pipeline)s AND held.event_id = old.event_id
        RETURNING held.event_id, held.event_hash, held.batch_no, held.fate, held.correlation_key
    ), remembered AS (
        INSERT INTO freshet.pruned_tuple (pipeline, event_id, event_hash, batch_no, place)
        SELECT %(pipeline)s, event_id, event_hash, batch_no, '{place}' FROM deleted
        ON CONFLICT (pipeline, event_id) DO NOTHING RETURNING 1
    ), pruned_before AS (
        SELECT (SELECT count(*) FROM deleted) - (SELECT count(*) FROM remembered) AS count
    ), booked AS (
        INSERT INTO freshet.ledger_pruned AS kept (pipeline, {place}, placed, duplicates)
        SELECT %(pipeline)s, -count, -count, count FROM pruned_before WHERE count > 0
        ON CONFLICT (pipeline) DO UPDATE SET
            {place} = kept.{place} + excluded.{place}, placed = kept.placed + excluded.placed,
            duplicates = kept.duplicates + excluded.duplicates
    ), waiting AS ({end_waiting})
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


def prune(connection: extensions.connection, pipeline: str, retention: Mapping[str, str | None]) -> Counter[str]:
    """Delete what one pipeline keeps no longer, in many short transactions; safe beside the stream and beside itself.

    Args:
        connection: in autocommit mode, of a role that may delete from the control schema.
        pipeline: its name.
        retention: the definition's `retention`, durations as text; None: kept for ever.

    Returns:
        rows deleted, by table; held tuples by place.
    """
    pruned: Counter[str] = Counter()
    if age := retention.get("ledger"):
        pruned["batch"] = _repeat(connection, _PRUNE_BATCHES, pipeline, age)
        pruned["reprocessing_run"] = _repeat(connection, _PRUNE_RUNS, pipeline, age)
        pruned["source_range"] = _merge_ranges(connection, pipeline)
        id_sketches.prune(connection, pipeline, ROWS_AT_ONCE)
        for table, old in _BY_AGE.items():
            statement = f"""
                WITH deleted AS (
                    DELETE FROM freshet.{table} WHERE ctid = ANY (ARRAY (
                        SELECT ctid FROM freshet.{table} WHERE pipeline = %(pipeline)s AND {old} LIMIT %(most)s))
                    RETURNING 1
                )
                SELECT count(*) FROM deleted
            """
            pruned[table] = _repeat(connection, statement, pipeline, age)
    for place in PLACES:
        if age := retention.get(place):
            pruned[place] = prune_held(connection, pipeline, place, parse_duration(age), ROWS_AT_ONCE)
    return +pruned


def _merge_ranges(connection: extensions.connection, pipeline: str) -> int:
    """Merge what was loaded of logs, each for itself; how many ranges are gone."""
    with connection.cursor() as cursor:
        cursor.execute(_LOGS, {"pipeline": pipeline})
        units = [unit for (unit,) in cursor.fetchall()]
        return sum(_only(cursor, _MERGE_RANGES, {"pipeline": pipeline, "unit": unit}) for unit in units)


def _repeat(connection: extensions.connection, statement: str, pipeline: str, age: str) -> int:
    """Run a statement that counts what it deletes until it finds no more."""
    arguments = {"pipeline": pipeline, "age": parse_duration(age), "most": ROWS_AT_ONCE}
    deleted = 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute(statement, arguments)
            row = cursor.fetchone()
        assert row is not None
        deleted += row[0]
        if row[0] < ROWS_AT_ONCE:
            return deleted


def prune_all(connection: extensions.connection) -> dict[str, Counter[str]]:
    """Prune every registered pipeline by the `retention` of its definition, as it was registered last.

    A pipeline that fails, for example because it was registered with an invalid age, does not keep others from being
    pruned.

    Args:
        connection: as for `prune`.

    Returns:
        what was deleted, by pipeline. Noted changes of master data, which pipelines share, are kept as long as the
        ledger that is kept longest; they stand under the name `*`.

    Raises:
        FreshetError: some pipelines could not be pruned, when all others are; the message names each with its error.
        psycopg2.Error: the warehouse is away.
    """
    retentions = _registered(connection)
    steps = {name: partial(prune, connection, name, retention) for name, retention in retentions.items()}
    ages = [age for retention in retentions.values() if (age := retention.get("ledger"))]
    if ages and len(ages) == len(retentions):
        steps["*"] = partial(_prune_shared, connection, ages)
    pruned, failures = {}, {}
    for name, step in steps.items():
        try:
            pruned[name] = step()
        except Exception as error:
            if connection.closed:
                raise
            failures[name] = error
            _log.exception("retention of %s failed; the others are pruned all the same", _TOLD.get(name, name))
    if failures:
        raise FreshetError(_complaint(failures, pruned)) from next(iter(failures.values()))
    return pruned


def _registered(connection: extensions.connection) -> dict[str, Mapping[str, str | None]]:
    """The `retention` of every registered pipeline, by name."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, definition -> 'retention' FROM freshet.pipeline ORDER BY name")
        return {name: retention or _DEFAULT for name, retention in cursor.fetchall()}


def _prune_shared(connection: extensions.connection, ages: Sequence[str]) -> Counter[str]:
    """Delete the noted changes that are older than all of these ages."""
    longest = max(map(parse_duration, ages))
    return +Counter(relation_change=prune_changes(connection, longest, ROWS_AT_ONCE))


def _complaint(failures: Mapping[str, Exception], pruned: Mapping[str, Counter[str]]) -> str:
    """What could not be pruned and why, and what could."""
    lines = [
        f"  {_TOLD.get(name, name)}: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        for name, error in failures.items()
    ]
    done = ", ".join(_TOLD.get(name, name) for name in pruned) or "nothing"
    advice = "Fix the cause, and prune again. What a pipeline's file says of `retention` counts from its next start on."
    return "\n".join(["Not all was pruned. Failed:", *lines, f"Pruned all the same: {done}.", advice])


def prune_held(connection: extensions.connection, pipeline: str, place: str, age: timedelta, most: int) -> int:
    """Delete the tuples of a place that have been held for longer; that they arrived is remembered.

    Loaders know them by that: sent again, they are duplicates as they were while they were held. One that was pruned
    before is booked as a duplicate, so that the ledger's sums stay those of different tuples.

    Args:
        connection: in autocommit mode; each stretch is a transaction.
        pipeline: its name.
        place: one of `stream_tuple.PLACES`.
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
            statement = _PRUNE_HELD.format(place=place, until=until, end_waiting=END_WAITING.format(deleted="deleted"))
            deleted += _only(cursor, KEEP_FROM_CLOSING + statement, {**arguments, "until": behind})
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
