"""Reads the ledgers of all pipelines again and again: each closed batch once, the sums and the window from memory."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from psycopg2 import extensions

from spark_jobs.ledger.latency import BUCKETS, Int64Array, from_text, mean, total
from spark_jobs.ledger.sums import (
    HITS,
    PLACED,
    PROBES,
    RECORDS,
    LedgerSums,
    ReprocessedReader,
    SumsBefore,
    sums_before,
)

# No retention is that short: a reader that has looked within this time has seen all that it deletes.
_SEEN_WITHIN = timedelta(hours=1)
_AFTER = "FROM unnest(%s::text[], %s::bigint[]) AS known (pipeline, after) CROSS JOIN LATERAL"


class ClosedBatch(NamedTuple):
    """A batch of the ledger that is closed: it will not change any more.

    Attributes:
        records: records that it read.
        placed: events that found a place, as of `LedgerSums`.
        probes, hits: of the front stage.
        stage_seconds: what its stages took, by name; None where they were not measured.
        lookups: how it made its lookups.
        event_latency, arrival_latency: histograms of event time, and of landing, to commit; shape (BUCKETS,).
    """

    pipeline: str
    batch_no: int
    state: str
    started_at: datetime
    closed_at: datetime
    records: int
    facts: int
    shed: int
    unmatched: int
    rejected: int
    duplicates: int
    placed: int
    probes: int
    hits: int
    stage_seconds: dict[str, float] | None
    lookups: list[dict[str, Any]] | None
    event_latency: Int64Array
    arrival_latency: Int64Array

    @property
    def arrived(self) -> int:
        """Events that it found a place for."""
        return self.placed


class Ledger(NamedTuple):
    """One pipeline's ledger at one moment.

    Attributes:
        whole: all its batches, what the open one has stored so far, reprocessing runs, and what retention deleted.
        recent: the closed batches of the window, oldest first.
        event_latency, arrival_latency: sums of their histograms.
        newest: the last batch that was committed.
        filled: whether there were batches before the window.
    """

    whole: LedgerSums
    recent: tuple[ClosedBatch, ...]
    event_latency: Int64Array
    arrival_latency: Int64Array
    newest: ClosedBatch | None
    filled: bool


@dataclass
class _Known:
    """What was read of one pipeline's ledger.

    Attributes:
        pruned: what retention had deleted when it was read for the first time.
        read_at: when it was read the last time.
        pruned_last: what retention had deleted then.
        closed: sums over all closed batches up to `last_batch`.
        window: the last of them.
        event_latency, arrival_latency: sums of the window's histograms.
    """

    pruned: LedgerSums
    read_at: datetime
    pruned_last: LedgerSums = field(init=False)
    closed: LedgerSums = field(default_factory=LedgerSums)
    last_batch: int = 0
    window: deque[ClosedBatch] = field(default_factory=deque)
    event_latency: Int64Array = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))
    arrival_latency: Int64Array = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))
    newest: ClosedBatch | None = None
    filled: bool = False

    def __post_init__(self) -> None:
        self.pruned_last = self.pruned

    def begin(self, before: SumsBefore, newest: ClosedBatch | None) -> None:
        """Take the batches that were closed before the window; `newest` of them was committed last."""
        self.closed, self.last_batch = before
        self.newest, self.filled = newest, True

    def add(self, batch: ClosedBatch) -> None:
        """Take the next batch."""
        self.closed += _sums_of(batch)
        self.last_batch = batch.batch_no
        self.window.append(batch)
        self.event_latency += batch.event_latency
        self.arrival_latency += batch.arrival_latency
        if batch.state == "committed":
            self.newest = batch

    def leave_behind(self, before: datetime) -> None:
        """Let the batches go out of the window that were closed at this time or earlier."""
        while self.window and self.window[0].closed_at <= before:
            batch = self.window.popleft()
            self.event_latency -= batch.event_latency
            self.arrival_latency -= batch.arrival_latency
            self.filled = True


class LedgerReader:
    """Reads only what is new: the first time the counts of all batches, then a few queries for all pipelines.

    Args:
        window: length of the window that ends now.
    """

    def __init__(self, window: timedelta) -> None:
        self._window = window
        self._known: dict[str, _Known] = {}
        self._reprocessed = ReprocessedReader()

    def read(self, cursor: extensions.cursor, pipelines: Sequence[str], now: datetime) -> dict[str, Ledger]:
        """The ledger of each of these pipelines. After an error, what was read before it is still right.

        Args:
            cursor: in a transaction that sees one state of the warehouse from its first to its last statement.
            pipelines: names.
            now: by the warehouse's clock.
        """
        known = self._known_or_begun(cursor, pipelines, now)
        _read_new(cursor, known)
        open_batches, reprocessed = _open_sums(cursor), self._reprocessed.read(cursor, pipelines)
        # Not earlier: a pipeline that was begun with is known when everything about it was read.
        self._known.update(known)
        ledgers = {}
        for pipeline, each in known.items():
            each.read_at = now
            each.leave_behind(now - self._window)
            whole = each.pruned + each.closed + open_batches.get(pipeline, LedgerSums())
            moved = reprocessed[pipeline]
            placed = moved.facts + moved.shed + moved.unmatched + moved.rejected
            whole += LedgerSums(**moved._asdict(), placed=placed)
            ledgers[pipeline] = Ledger(
                whole, tuple(each.window), each.event_latency, each.arrival_latency, each.newest, each.filled
            )
        return ledgers

    def _known_or_begun(self, cursor: extensions.cursor, pipelines: Sequence[str], now: datetime) -> dict[str, _Known]:
        """What is known of each of these pipelines; of the others, what was closed before the window."""
        pruned = defaultdict(LedgerSums, _pruned_sums(cursor))
        known = {name: self._known[name] for name in pipelines if name in self._known and self._known[name].last_batch}
        for name in _outdated(cursor, known, pruned, now):
            del known[name]
        for name, each in known.items():
            each.pruned_last = pruned[name]
        unknown = [name for name in pipelines if name not in known]
        if unknown:
            before = sums_before(cursor, unknown, now - self._window)
            newest = _newest(cursor, {name: each.last_batch for name, each in before.items()})
            for name in unknown:
                self._reprocessed.forget(name)
                known[name] = _Known(pruned[name], now)
                if name in before:
                    known[name].begin(before[name], newest.get(name))
        return known


def _pruned_sums(cursor: extensions.cursor) -> dict[str, LedgerSums]:
    """What retention has deleted, by pipeline."""
    cursor.execute(
        "SELECT pipeline, batches, arrived, facts, shed, unmatched, rejected, duplicates, placed, "
        "event_latency "
        "FROM freshet.ledger_pruned"
    )
    return {
        pipeline: LedgerSums(*(*counts, None, total([latency]))) for pipeline, *counts, latency in cursor.fetchall()
    }


def _outdated(
    cursor: extensions.cursor, known: Mapping[str, _Known], pruned: Mapping[str, LedgerSums], now: datetime
) -> set[str]:
    """Pipelines whose ledger has to be read anew, because retention may have deleted batches that were never read.

    What retention deletes moves from the ledger to the sums of what was pruned: a reader that has seen all of it goes
    on with the sums that it has.
    """
    shortened = {name: each for name, each in known.items() if each.pruned_last.counts != pruned[name].counts}
    if not shortened:
        return set()
    unseen = {name for name, each in shortened.items() if now - each.read_at > _SEEN_WITHIN}
    return unseen | _gone(cursor, shortened)


def _gone(cursor: extensions.cursor, known: Mapping[str, _Known]) -> set[str]:
    """Pipelines whose last known batch is deleted, and with it perhaps later ones that were never read."""
    cursor.execute(
        "SELECT batch_no FROM freshet.batch WHERE batch_no = ANY (%s)", [[each.last_batch for each in known.values()]]
    )
    there = {batch_no for (batch_no,) in cursor.fetchall()}
    return {name for name, each in known.items() if each.last_batch not in there}


def _newest(cursor: extensions.cursor, last: Mapping[str, int]) -> dict[str, ClosedBatch]:
    """The newest committed batch of before the window: it may stay the newest for long."""
    query = f"{_batches('batch_no <= known.after')} AND state = 'committed' ORDER BY batch_no DESC LIMIT 1) AS batch"
    cursor.execute(query, [list(last), list(last.values())])
    return {batch.pipeline: batch for batch in map(_closed_batch, cursor.fetchall())}


def _read_new(cursor: extensions.cursor, known: Mapping[str, _Known]) -> None:
    """The batches that were closed since the last time."""
    query = f"{_batches('batch_no > known.after')} AND state <> 'started' ORDER BY batch_no) AS batch"
    cursor.execute(query, [list(known), [each.last_batch for each in known.values()]])
    for row in cursor.fetchall():
        batch = _closed_batch(row)
        known[batch.pipeline].add(batch)


def _batches(which: str) -> str:
    """Beginning of a query for closed batches, by pipeline: so the planner takes the index for each of them."""
    return f"""
        SELECT batch.* {_AFTER} (
            SELECT pipeline, batch_no, state, started_at, closed_at,
                {RECORDS},
                facts, shed, unmatched, rejected, duplicates,
                {PLACED},
                {PROBES},
                {HITS},
                statistics -> 'stage_seconds', statistics -> 'lookups', array_to_string(event_latency, ' '),
                array_to_string(arrival_latency, ' ')
            FROM freshet.batch WHERE pipeline = known.pipeline AND {which}"""


def _open_sums(cursor: extensions.cursor) -> dict[str, LedgerSums]:
    """What the parts of each pipeline's open batch add up to."""
    cursor.execute(
        """
        SELECT pipeline, sum(part.facts + part.shed + part.unmatched + part.rejected + part.duplicates)::bigint,
            sum(part.facts)::bigint, sum(part.shed)::bigint, sum(part.unmatched)::bigint,
            sum(part.rejected)::bigint, sum(part.duplicates)::bigint,
            sum(part.facts + part.shed + part.unmatched + part.rejected)::bigint
        FROM freshet.batch JOIN freshet.batch_part AS part USING (batch_no) WHERE batch.state = 'started'
        GROUP BY pipeline
        """
    )
    sums = {pipeline: LedgerSums(0, *counts) for pipeline, *counts in cursor.fetchall()}
    # What arrived of several streams, and where it is, is told when their batch is closed.
    cursor.execute(
        "SELECT DISTINCT pipeline FROM freshet.batch JOIN freshet.batch_stream USING (batch_no) WHERE state = 'started'"
    )
    for (pipeline,) in cursor.fetchall():
        if pipeline in sums:
            sums[pipeline] = replace(sums[pipeline], records=0, duplicates=0, placed=0)
    return sums


def _closed_batch(row: Sequence[Any]) -> ClosedBatch:
    *columns, event_latency, arrival_latency = row
    return ClosedBatch(*(*columns, from_text(event_latency), from_text(arrival_latency)))


def _sums_of(batch: ClosedBatch) -> LedgerSums:
    counts = (batch.records, batch.facts, batch.shed, batch.unmatched, batch.rejected, batch.duplicates, batch.placed)
    last_commit = batch.closed_at if batch.state == "committed" else None
    return LedgerSums(1, *counts, last_commit=last_commit, freshness=batch.event_latency)


@dataclass(frozen=True)
class Stages:
    """Mean milliseconds of each stage; None where nothing was measured.

    Attributes:
        arrival: from the event until it has landed.
        waiting: from then until its batch begins.
        front_stage: reading, screening and joining with hot tuples; the slowest task's.
        back_stage: joining with R, all lookups together; the slowest task's of each.
        commit: storing facts and held tuples; the slowest tasks'.
    """

    arrival: float | None = None
    waiting: float | None = None
    front_stage: float | None = None
    back_stage: float | None = None
    commit: float | None = None


def mean_stages(ledger: Ledger) -> Stages:
    """Means over the window's batches, each with the weight of the events that it stored; arrival within 10 %."""
    seconds: Counter[str] = Counter()
    weights: Counter[str] = Counter()
    for batch in ledger.recent:
        arrived = batch.arrived
        for stage, spent in (batch.stage_seconds or {}).items():
            seconds[stage] += arrived * spent  # type: ignore[assignment]
            weights[stage] += arrived
    means = {stage: round(1000 * seconds[stage] / weight, 1) for stage, weight in weights.items() if weight}
    from_event, from_landing = mean(ledger.event_latency), mean(ledger.arrival_latency)
    if from_event is not None and from_landing is not None:
        means["arrival"] = round(1000 * max(from_event - from_landing, 0.0), 1)
    return Stages(**{stage: means.get(stage) for stage in Stages.__dataclass_fields__})
