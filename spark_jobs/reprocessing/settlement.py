"""Settling held tuples: one transaction makes facts of some, notes the tries of the others, and counts both."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions

from spark_jobs.columns.event_id import event_hashes, event_id_texts
from spark_jobs.control.fencing import session_name
from spark_jobs.definition.fates import GIVEN_UP, WAITING_PLACES, Fate, Place, listed
from spark_jobs.definition.stream_tuple import EventColumns, LoadCounts
from spark_jobs.ledger import id_sketches
from spark_jobs.loading.chunk import EncodedFacts, fitting
from spark_jobs.loading.fact_storage import StorageMode, store
from spark_jobs.loading.held_rows import storable_reasons
from spark_jobs.loading.loader import WorkerSession, session_of
from spark_jobs.loading.outcome import Held, Outcome
from spark_jobs.loading.payload import HELD_ID
from spark_jobs.loading.stream_batch import latencies, refused_tuples
from spark_jobs.reprocessing.held_reading import VERSION
from spark_jobs.reprocessing.run_ledger import BalanceChange, advance
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.warehouse.fact_staging import stored_event_ids
from spark_jobs.warehouse.fact_table import FactTable

# How often the pause doubles at most: after a dozen tries it is thousands of times the first.
_MOST_DOUBLINGS = 12

# A try counts if it was due. One that was made earlier, because R had changed or on request, changes nothing of
# when the next one is due.
_COUNTS = "(h.retry_at IS NULL OR h.retry_at <= now())"
_ATTEMPTS = f"(h.attempts + {_COUNTS}::int)"
_WAITS = f"t.place IN ({listed(WAITING_PLACES)})"
_EXHAUSTED = f"({_WAITS} AND {_ATTEMPTS} >= %(most_attempts)s)"
_PLACE = f"(CASE WHEN {_EXHAUSTED} THEN '{GIVEN_UP.place}' ELSE t.place END)"

# Retention counts from when a tuple came into its place.
_NOTE = f"""
    WITH tried AS (
        UPDATE freshet.held_tuple AS h SET
            place = {_PLACE},
            fate = CASE WHEN {_EXHAUSTED} THEN '{GIVEN_UP}' ELSE t.fate END,
            held_at = CASE WHEN h.place = {_PLACE} THEN h.held_at ELSE clock_timestamp() END,
            reason = CASE
                WHEN {_EXHAUSTED} THEN concat({_ATTEMPTS}, ' tries came to nothing; the last one: ', t.reason)
                ELSE t.reason END,
            relation = t.relation,
            attempts = {_ATTEMPTS},
            tried_at = clock_timestamp(),
            tried_xmin = (SELECT pg_snapshot_xmin(seen) FROM freshet.reprocessing_run WHERE batch_no = %(batch_no)s),
            retry_at = CASE
                WHEN NOT {_WAITS} OR {_EXHAUSTED} THEN NULL
                WHEN {_COUNTS} THEN now() + %(first_pause)s * power(2, least(h.attempts, {_MOST_DOUBLINGS}))
                ELSE h.retry_at END
        FROM unnest(%(event_ids)s::text[], %(places)s::text[], %(names)s::text[], %(reasons)s::text[],
                    %(relations)s::text[]) AS t(event_id, place, fate, reason, relation)
        WHERE h.pipeline = %(pipeline)s AND h.event_id = t.event_id
        RETURNING h.place
    )
    SELECT place, count(*) FROM tried GROUP BY place
"""

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class RetryPolicy:
    """When a tuple is tried again, and when that is given up.

    Attributes:
        most_attempts: tries that count, after which a tuple is rejected.
        first_pause: time from the first try to the second; each further pause is twice the one before.
    """

    most_attempts: int
    first_pause: timedelta


@dataclass(frozen=True)
class FailedTries:
    """Tries of n held tuples that made no facts of them; equally long lists.

    Attributes:
        event_ids: as freshet.held_tuple has them.
        fates: what has become of each.
        reasons: why.
        relations: the relation that is to blame; None where none is.
    """

    event_ids: Sequence[str]
    fates: Sequence[Fate]
    reasons: Sequence[str]
    relations: Sequence[str | None]

    def note(self, cursor: extensions.cursor, pipeline: str, batch_no: int, policy: RetryPolicy) -> Counter[Place]:
        """Write them into the rows, which the transaction has locked.

        Args:
            cursor: in that transaction.
            pipeline: whose tuples they are.
            batch_no: the run that made the tries.
            policy: the pipeline's.

        Returns:
            how many tuples are in which place now: tuples tried too often are rejected.
        """
        if not self.event_ids:
            return Counter()
        told = {"places": [fate.place for fate in self.fates], "names": [fate.name for fate in self.fates]}
        told |= {"event_ids": self.event_ids, "reasons": self.reasons, "relations": self.relations}
        cursor.execute(_NOTE, {**told, **vars(policy), "pipeline": pipeline, "batch_no": batch_no})
        return Counter(dict(cursor.fetchall()))


@dataclass(frozen=True)
class ReprocessingRun:
    """An open run, as the destination of its tasks' loads.

    Attributes:
        event: the pipeline's event columns.
        fact: its fact table.
        batch_no: number of the run.
        policy: when tuples are tried again.
    """

    event: EventColumns
    fact: FactTable
    batch_no: int
    policy: RetryPolicy

    @property
    def careful(self) -> bool:
        """Held tuples are no facts, and as long as their rows are locked no other transaction makes facts of them."""
        return False

    @property
    def compares_ids(self) -> bool:
        """What a run does not settle stays held: nothing is lost by it."""
        return False

    def session(self, url: str, patience: timedelta) -> WorkerSession:
        """This thread's session for the run."""
        pipeline = self.event.pipeline
        return session_of(url, pipeline, self.batch_no, session_name("reprocess", pipeline), patience)

    def transaction(self, part: Outcome) -> SettlingTransaction:
        """What settles a part of an outcome."""
        return SettlingTransaction(self, part)

    def __str__(self) -> str:
        return f"reprocessing run {self.batch_no} of pipeline {self.event.pipeline}"


class SettlingTransaction:
    """Settles the tuples of a part that are still held as they were when they were read; passes by the others.

    What it settles is no longer held so: it may be repeated at will, by itself, a task that is tried again, or
    another run.

    Args:
        run: where to.
        part: joined tuples, and tuples that made no facts; all with `_held_id` and `_held_version`.
    """

    def __init__(self, run: ReprocessingRun, part: Outcome) -> None:
        self._run = run
        self._facts: EncodedFacts | None = None
        self._held = part.held
        if part.facts is not None:
            self._facts, rejected = fitting(part.facts, run.fact, run.batch_no)
            self._held = part.held + rejected

    @property
    def ids(self) -> IdSketch:
        """None: they are not compared."""
        return IdSketch()

    def store(self, session: WorkerSession, mode: StorageMode) -> LoadCounts:
        """Settle them, all or nothing.

        Raises:
            WriterFencedError: the run is closed. Nothing was settled.
            psycopg2.Error: PostgreSQL raised an error; nothing was settled, unless the connection was lost.
        """
        connection = session.connection()
        with connection, connection.cursor() as cursor:
            if mode is StorageMode.TUPLE_BY_TUPLE:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # at the commit it would be too late to blame a tuple
            waiting = self._lock(cursor)
            facts, refused = self._store_facts(cursor, waiting, mode)
            placed = self._note_tries(cursor, waiting, refused)
            latency = latencies(facts, self._run.event.event_time, session.commit_seconds)
            changes = BalanceChange.of(waiting.places, facts.num_rows, placed)
            advance(cursor, self._run.batch_no, changes, latency)
            committing = time.perf_counter()
        session.commit_seconds = time.perf_counter() - committing
        return LoadCounts.of(facts.num_rows, placed)

    def recorded(self, session: WorkerSession) -> None:
        """What was settled is passed by when it is stored again."""
        return

    def _lock(self, cursor: extensions.cursor) -> _Waiting:
        """Lock the rows of all tuples, in one order for all runs."""
        tuples = ([self._facts.tuples] if self._facts is not None else []) + [group.tuples for group in self._held]
        ids = [event_id for table in tuples for event_id in table[HELD_ID].to_pylist()]
        versions = [version for table in tuples for version in table[VERSION].to_pylist()]
        cursor.execute(
            "SELECT event_id, xmin::text::bigint, place FROM freshet.held_tuple "
            "WHERE pipeline = %s AND event_id = ANY (%s) ORDER BY event_id FOR UPDATE",
            [self._run.event.pipeline, sorted(ids)],
        )
        as_read = dict(zip(ids, versions, strict=True))
        return _Waiting({event_id: place for event_id, version, place in cursor if as_read[event_id] == version})

    def _store_facts(
        self, cursor: extensions.cursor, waiting: _Waiting, mode: StorageMode
    ) -> tuple[pa.Table, list[Held]]:
        """The tuples that are facts now, and the refused ones."""
        if self._facts is None:
            return pa.table({}), []
        facts = self._facts.where(waiting.among(self._facts.tuples), self._run.fact)
        repeated = self._repeated(cursor, facts.tuples)
        if repeated.any():
            self._drop(cursor, facts.tuples.filter(pa.array(repeated))[HELD_ID].to_pylist())
            facts = facts.where(~repeated, self._run.fact)
        # What is neither new nor refused is a fact already, though not by Freshet: no longer held, it is one of ours.
        _, refused = store(cursor, self._run.fact, facts.tuples, facts.rows, mode)
        stored = facts.tuples
        if refused:
            kept = np.ones(stored.num_rows, np.bool_)
            kept[list(refused)] = False
            stored = stored.filter(pa.array(kept))
        id_sketches.make_facts(
            cursor,
            self._run.event.pipeline,
            self._run.batch_no,
            stored[HELD_ID].to_pylist(),
            event_hashes(stored, self._run.fact.key),
        )
        return stored, [refused_tuples(facts.tuples, refused)] if refused else []

    def _repeated(self, cursor: extensions.cursor, tuples: pa.Table) -> Bools:
        """Which tuples are of events that are stored already, or come before: those that could not be read when they
        were held, of which nobody knew that. Shape (n,)."""
        unread = np.array([held_id.startswith("{") for held_id in tuples[HELD_ID].to_pylist()], np.bool_)
        asked = np.flatnonzero(unread)
        if not len(asked):
            return unread
        ids = event_id_texts(tuples.take(pa.array(asked)), self._run.fact.key).to_pylist()
        cursor.execute(
            "SELECT event_id FROM freshet.held_tuple WHERE pipeline = %(pipeline)s AND event_id = ANY (%(ids)s) "
            "UNION ALL SELECT event_id FROM freshet.pruned_tuple WHERE pipeline = %(pipeline)s "
            "AND event_id = ANY (%(ids)s)",
            {"pipeline": self._run.event.pipeline, "ids": ids},
        )
        known = {event_id for (event_id,) in cursor.fetchall()}
        repeated = np.zeros(len(unread), np.bool_)
        stored = stored_event_ids(cursor, self._run.fact, ids)
        for place, event_id, is_fact in zip(asked.tolist(), ids, stored.tolist(), strict=True):
            repeated[place] = is_fact or event_id in known
            known.add(event_id)
        return repeated

    def _drop(self, cursor: extensions.cursor, held_ids: list[str]) -> None:
        """Hold duplicates no more, and count them as such; that they leave their place the run counts."""
        pipeline = self._run.event.pipeline
        id_sketches.make_facts(cursor, pipeline, self._run.batch_no, held_ids, np.empty(0, np.int64))
        cursor.execute(
            "INSERT INTO freshet.ledger_pruned AS kept (pipeline, duplicates) VALUES (%s, %s) "
            "ON CONFLICT (pipeline) DO UPDATE SET duplicates = kept.duplicates + excluded.duplicates",
            [pipeline, len(held_ids)],
        )

    def _note_tries(self, cursor: extensions.cursor, waiting: _Waiting, refused: list[Held]) -> Counter[Place]:
        event_ids: list[str] = []
        fates: list[Fate] = []
        reasons: list[str] = []
        relations: list[str | None] = []
        for group in self._held + refused:
            still_held = pa.array(waiting.among(group.tuples))
            tried = group.tuples[HELD_ID].filter(still_held).to_pylist()
            event_ids += tried
            fates += [group.fate] * len(tried)
            relations += [group.relation] * len(tried)
            reasons += storable_reasons(group.reason, group.tuples.num_rows).filter(still_held).to_pylist()
        tries = FailedTries(event_ids, fates, reasons, relations)
        return tries.note(cursor, self._run.event.pipeline, self._run.batch_no, self._run.policy)


class _Waiting(NamedTuple):
    """Locked tuples that are not settled yet: event id -> place."""

    place_of: dict[str, Place]

    @property
    def places(self) -> Counter[Place]:
        return Counter(self.place_of.values())

    def among(self, tuples: pa.Table) -> Bools:
        """Which of these tuples they are, bool, shape (n,)."""
        return np.array([event_id in self.place_of for event_id in tuples[HELD_ID].to_pylist()], np.bool_)
