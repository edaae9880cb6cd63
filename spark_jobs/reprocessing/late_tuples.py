"""Joins late tuples of several streams after all, once the state holds nothing more that they could meet.

    late tuples of some keys ─┐
    landed events of theirs ──┴► the streams' join ──► results with a late tuple ──► held as shed ──► facts

Their partners have landed: in facts, or held as expired, which they are no longer then. So a late tuple is joined with
all landed events of its key, as if it had been in time, and with other late ones that are as old, too.
What comes of it is shed, in the transaction that takes the parts out of the held tuples: the run that goes on makes
facts of it, as of all that is shed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import extensions

from spark_jobs.columns.value_codes import codes_of
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.correlation import STREAM_SEPARATOR, qualified
from spark_jobs.definition.fates import JOINED, JOINED_LATE, LATE, UNMATCHED, named
from spark_jobs.driver.checks import PipelineTables
from spark_jobs.errors import FreshetError
from spark_jobs.join_state.bucket import FROM_THE_BEGINNING, Bucket, BucketPlan
from spark_jobs.ledger.batch_streams import batches_since
from spark_jobs.loading.held_rows import HeldRows
from spark_jobs.loading.outcome import Held
from spark_jobs.loading.payload import HELD_ID, held_table
from spark_jobs.reprocessing.landed_events import LandedEvents, held_ids
from spark_jobs.reprocessing.late_due import LateDue, LateTuple
from spark_jobs.reprocessing.run_ledger import BalanceChange, advance
from spark_jobs.reprocessing.settlement import ReprocessingRun
from spark_jobs.settings import Home
from spark_jobs.source.held_records import HeldRecords
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.stages.stream_plan import StreamPlan
from spark_jobs.warehouse.fact_staging import stored_event_ids

_log = logging.getLogger(__name__)

_AT_ONCE = 20_000
_JOINED_LATE = "joined by reprocessing: a part of it was late"
_PUT_OFF = """
    UPDATE freshet.held_tuple SET attempts = attempts + 1, tried_at = clock_timestamp(),
        retry_at = CASE WHEN attempts + 1 >= %(most_attempts)s THEN 'infinity'
            ELSE clock_timestamp() + %(first_pause)s * power(2, least(attempts, 12)) END
    WHERE pipeline = %(pipeline)s AND event_id = ANY (%(ids)s)
"""
_RELEASE = """
    WITH released AS (
        DELETE FROM freshet.held_tuple WHERE pipeline = %(pipeline)s AND event_id = ANY (%(ids)s)
        RETURNING place, split_part(event_id, '/', 1) AS stream, fate
    ), booked AS (
        INSERT INTO freshet.fate_pruned AS kept (pipeline, stream, fate, tuples)
        SELECT %(pipeline)s, stream, fate, -count(*) FROM released GROUP BY stream, fate
        UNION ALL
        SELECT %(pipeline)s, stream, %(joined)s, count(*) FROM released GROUP BY stream
        ON CONFLICT (pipeline, stream, fate) DO UPDATE SET tuples = kept.tuples + excluded.tuples
    )
    SELECT count(*) FILTER (WHERE place = %(place)s), count(*) FILTER (WHERE place <> %(place)s) FROM released
"""
# The ledger counts where events are; a run adds up what its tuples do. So results are put against their parts.
_BALANCE = """
    INSERT INTO freshet.ledger_pruned AS kept (pipeline, placed) VALUES (%s, %s)
    ON CONFLICT (pipeline) DO UPDATE SET placed = kept.placed + excluded.placed
"""


class _Candidates(NamedTuple):
    """Events of one stream that may be parts, with their ids as they are held; both shape (n,)."""

    tuples: pa.Table
    ids: pa.Array


class LateTuples:
    """The late tuples of a pipeline.

    Args:
        connection: to the warehouse.
        definition: the pipeline.
        tables: its tables.
        home: the installation, with the landed files.
        run: that makes the tries.
    """

    def __init__(
        self,
        connection: extensions.connection,
        definition: PipelineDefinition,
        tables: PipelineTables,
        home: Home,
        run: ReprocessingRun,
    ) -> None:
        self._connection = connection
        self._definition = definition
        self._tables = tables
        self._run = run
        readers = SliceReader.of_streams(definition)
        self._streams = [StreamPlan.of(definition, name, tables.fact, reader) for name, reader in readers.items()]
        self._landed = LandedEvents(home, self._streams)

    def join(self, most: int) -> int:
        """Join those that are due, the oldest first; how many were taken.

        O(records of the batches since the first of them happened), in memory those with their keys.

        Args:
            most: tuples to take at most.

        Raises:
            FreshetError: a landed file, or a record of a topic, is needed that is gone. What was taken is put off.
        """
        with self._connection, self._connection.cursor() as cursor:
            due = LateDue.of(cursor, self._definition.name, self._definition.correlate)
            rows = due.read(cursor, min(most, _AT_ONCE)) if due is not None else []
        if due is None or not rows:
            return 0
        late = pa.array([row.held_id for row in rows], pa.string())
        span = (rows[0].event_time - 2 * due.longest, rows[-1].event_time + 2 * due.longest)
        try:
            candidates = self._candidates(self._keys(rows), span)
        except FreshetError:
            with self._connection, self._connection.cursor() as cursor:
                self._put_off(cursor, late.to_pylist())
                advance(cursor, self._run.batch_no, BalanceChange())
            raise
        # One that was taken before, or will be, meets these all the same.
        near = (rows[0].event_time - due.longest, min(due.until, rows[-1].event_time + due.longest))
        return self._settle(late, near, candidates)

    def _keys(self, rows: Sequence[LateTuple]) -> np.ndarray:
        """Codes of the keys of held tuples."""
        codes = [np.empty(0, np.int64)]
        for stream in self._streams:
            prefix = stream.held.name + STREAM_SEPARATOR
            own = [row for row in rows if row.held_id.startswith(prefix)]
            if own:
                held = held_table([row.record for row in own])
                read = HeldRecords(stream.reader.decoder, stream.held.event_id, prefix)
                tuples, _ = read.read(held, (HELD_ID,))
                codes.append(codes_of(tuples, stream.key).codes)
        return np.unique(np.concatenate(codes))

    def _candidates(self, keys: np.ndarray, span: tuple[datetime, datetime]) -> list[_Candidates]:
        """The landed events of each stream that happened in a time and have one of some keys."""
        with self._connection, self._connection.cursor() as cursor:
            batches = batches_since(cursor, self._definition.name, span[0], deleted=True)
        found: list[list[pa.Table]] = [[] for _ in self._streams]
        first, last = (pa.scalar(end, pa.timestamp("us", "UTC")) for end in span)
        for batch_no in batches:
            for planned in self._landed.ranges(self._connection, batch_no):
                for stream, tuples in self._landed.read(planned):
                    plan = self._streams[stream]
                    times = tuples[plan.held.event.event_time].cast(first.type)
                    wanted = pc.and_(pc.greater_equal(times, first), pc.less_equal(times, last))
                    wanted = pc.and_(wanted, pa.array(np.isin(codes_of(tuples, plan.key).codes, keys)))
                    found[stream].append(tuples.filter(wanted))
        return [
            self._identified(plan, pa.concat_tables(parts).combine_chunks() if parts else None)
            for plan, parts in zip(self._streams, found, strict=True)
        ]

    def _identified(self, plan: StreamPlan, tuples: pa.Table | None) -> _Candidates:
        if tuples is None:
            return _Candidates(pa.table({}), pa.array([], pa.string()))
        return _Candidates(tuples, held_ids(plan, tuples))

    def _settle(self, late: pa.Array, near: tuple[datetime, datetime], candidates: Sequence[_Candidates]) -> int:
        name, fact = self._definition.name, self._tables.fact
        with self._connection, self._connection.cursor() as cursor:
            # Of what is held, only what is late and happened near, and what has expired, can be a part.
            ids = pa.concat_arrays([each.ids for each in candidates] + [late]).unique().to_pylist()
            cursor.execute(
                "SELECT event_id, fate = %s AND event_time BETWEEN %s AND %s AND batch_no <> ALL ("
                "SELECT batch_no FROM freshet.batch WHERE pipeline = %s AND state = 'started'), "
                "fate = ANY (%s) FROM freshet.held_tuple "
                "WHERE pipeline = %s AND event_id = ANY (%s) ORDER BY event_id FOR UPDATE",
                [LATE.name, *near, name, named(share="expired"), name, ids],
            )
            held = {event_id: (is_late, is_expired) for event_id, is_late, is_expired in cursor}
            chosen = [event_id for event_id, (is_late, _) in held.items() if is_late]
            tried = set(late.to_pylist()) & set(chosen)
            others = self._pruned(cursor, ids)
            others |= {event_id for event_id, (_, expired) in held.items() if not expired} - set(chosen)
            parts, released = self._joined(candidates, pa.array(sorted(others), pa.string()), chosen)
            rows = HeldRows.build(parts, self._tables.event, fact.key, self._run.batch_no)
            new = np.zeros(0, np.bool_)
            if len(rows):
                pruned = self._pruned(cursor, rows.event_ids)
                new = ~stored_event_ids(cursor, fact, rows.event_ids)
                new &= np.array([event_id not in pruned for event_id in rows.event_ids])
                new[new] = rows.without(~new).store(cursor)
            settled = {part for result, is_new in zip(released, new.tolist(), strict=True) if is_new for part in result}
            gone = sorted(settled & held.keys())
            cursor.execute(_RELEASE, {"pipeline": name, "ids": gone, "joined": JOINED.name, "place": UNMATCHED.place})
            [(unmatched, rejected)] = cursor.fetchall()
            waiting = sorted(tried - settled)
            self._put_off(cursor, waiting)
            results = int(np.count_nonzero(new))
            cursor.execute(_BALANCE, [name, unmatched + rejected - results])
            advance(cursor, self._run.batch_no, BalanceChange(shed=results, unmatched=-unmatched, rejected=-rejected))
        _log.info("%s: %d late tuples taken, %d joined tuples made of them", self._run, len(tried), results)
        return len(tried)

    def _put_off(self, cursor: extensions.cursor, event_ids: Sequence[str]) -> None:
        cursor.execute(_PUT_OFF, {"pipeline": self._definition.name, "ids": list(event_ids), **vars(self._run.policy)})

    def _pruned(self, cursor: extensions.cursor, event_ids: Sequence[str]) -> set[str]:
        """Those that were held, until retention deleted them or somebody had them forgotten."""
        cursor.execute(
            "SELECT event_id FROM freshet.pruned_tuple WHERE pipeline = %s AND event_id = ANY (%s)",
            [self._definition.name, list(event_ids)],
        )
        return {event_id for (event_id,) in cursor}

    def _joined(
        self, candidates: Sequence[_Candidates], others: pa.Array, chosen: Sequence[str]
    ) -> tuple[list[Held], list[tuple[str, ...]]]:
        """The results with a chosen tuple, as tuples to hold, and the ids of the parts of each."""
        # Without most_facts: that keeps one key from holding up the stream, which doesn't wait for this. What came
        # after the last of its key is held, and so is none of these.
        plan = replace(BucketPlan.of(self._definition, 1).without_punctuations(), most_results=None)
        arrived = [
            each.tuples.filter(pc.invert(pc.is_in(each.ids, others))) if each.tuples.num_rows else None
            for each in candidates
        ]
        beginning = [FROM_THE_BEGINNING] * len(arrived)
        wanted = pa.array(chosen, pa.string())
        results: list[Held] = []
        parts: list[tuple[str, ...]] = []
        with TemporaryDirectory() as folder:
            bucket = Bucket(plan, Path(folder), 0)
            try:
                for piece in bucket.take(arrived, beginning, beginning):
                    if not piece.joined.num_rows:
                        continue
                    ids = list(self._part_ids(piece.joined))
                    with_late = np.any([pc.is_in(each, wanted).to_numpy(zero_copy_only=False) for each in ids], axis=0)
                    if with_late.any():
                        kept = pa.array(with_late)
                        results.append(Held(JOINED_LATE, _JOINED_LATE, None, piece.joined.filter(kept)))
                        parts += zip(*(each.filter(kept).to_pylist() for each in ids), strict=True)
            finally:
                bucket.close()
        return results, parts

    def _part_ids(self, joined: pa.Table) -> Iterable[pa.Array]:
        """Of each stream the ids of the parts of joined tuples, as they are held."""
        for plan in self._streams:
            named = {qualified(plan.held.name, column.source): column.source for column in plan.held.event_id}
            yield held_ids(plan, joined.select(list(named)).rename_columns(list(named.values())))
