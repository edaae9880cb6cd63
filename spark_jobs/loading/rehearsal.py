"""A destination that stores nothing: what a rehearsal's tasks settle is encoded, and let go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.loading.chunk import Chunk, prepare
from spark_jobs.loading.fact_storage import Way
from spark_jobs.loading.held_filter import HeldFilter
from spark_jobs.loading.loading_transaction import LoadCounts, latencies
from spark_jobs.loading.outcome import Outcome
from spark_jobs.loading.worker_session import WorkerSession, session_of
from spark_jobs.warehouse.event_id import event_hashes
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.fencing import loader_session_name

_NOBODY, _NO_BATCH = 0, 0
_FILTER_BYTES = 1 << 10


@dataclass(frozen=True)
class Rehearsal:
    """Takes a pipeline's tuples as an open batch would, up to the point where they would be sent to the warehouse.

    Attributes:
        event: the pipeline's event columns.
        fact: its fact table.
        careful: no tuple is stored already.
    """

    event: EventColumns
    fact: FactTable
    careful: bool = False

    def session(self, url: str, patience: timedelta) -> WorkerSession:
        """A session like a batch's."""
        return session_of(url, self.event.pipeline, _NOBODY, loader_session_name(self.event.pipeline), patience)

    def transaction(self, part: Outcome) -> RehearsedTransaction:
        """What lets a part of an outcome go, encoded."""
        return RehearsedTransaction(self, prepare(part, self.event, self.fact, _NO_BATCH))

    def __str__(self) -> str:
        return f"a rehearsal of pipeline {self.event.pipeline}"


class RehearsedTransaction:
    """Does with a chunk what a loading transaction does outside of the warehouse.

    Args:
        rehearsal: where to.
        chunk: what.
    """

    def __init__(self, rehearsal: Rehearsal, chunk: Chunk) -> None:
        self._rehearsal = rehearsal
        self._chunk = chunk

    def store(self, session: WorkerSession, way: Way) -> LoadCounts:
        """Go through it; nothing is stored."""
        session.connection()
        facts, held, event, fact = self._chunk.facts, self._chunk.held, self._rehearsal.event, self._rehearsal.fact
        if facts is not None and facts.tuples.num_rows:
            hashes = event_hashes(facts.tuples, fact.key)
            held_earlier = HeldFilter(_FILTER_BYTES)
            held_earlier.add(hashes)
            held_earlier.may_contain(hashes)
            facts.rows.render(0, facts.rows.count)
            latencies(facts.tuples, event.event_time, 0.0)
        if len(held):
            rows = held.encoded()
            rows.render(0, rows.count)
        return LoadCounts()

    def recorded(self, session: WorkerSession) -> LoadCounts | None:
        """Nothing ever is."""
        return None
