"""Backlogs of tuples that are no facts: how many of each place there are, and how old the oldest is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.definition.fates import PLACES, WAITING_PLACES, listed, named

REQUEUED = f"(fate IN ({listed(named(awaits_try=True))}))"
"""SQL condition: held as shed tuples are, for its next try, though nothing has shed it.

It was rejected and requeued, or is made of events of several streams that came late.
"""

_PRUNED_READ_EVERY = timedelta(minutes=1)


@dataclass(frozen=True)
class PlaceBacklog:
    """The tuples in one place.

    Attributes:
        count: how many there are.
        oldest: when the oldest arrived; None where there is none. In a batch that holds very many, one of its oldest.
        oldest_age_ms: time since then.
    """

    count: int = 0
    oldest: datetime | None = None
    oldest_age_ms: float | None = None


@dataclass(frozen=True)
class Backlog:
    """The backlogs of a pipeline."""

    shed: PlaceBacklog = field(default_factory=PlaceBacklog)
    unmatched: PlaceBacklog = field(default_factory=PlaceBacklog)
    rejected: PlaceBacklog = field(default_factory=PlaceBacklog)


class _Oldest(NamedTuple):
    """The first batch that holds a tuple in a place, and when the oldest of them arrived."""

    batch_no: int
    arrived_at: datetime


class BacklogReader:
    """Reads backlogs by their indexes: of the first batch of each place, some tuples."""

    def __init__(self) -> None:
        self._first_rejected: dict[str, tuple[int, int]] = {}
        self._pruned: dict[str, dict[str, int]] = {}
        self._pruned_read_at: datetime | None = None

    def read_pruned(self, cursor: extensions.cursor, now: datetime) -> dict[str, dict[str, int]]:
        """Held tuples that retention has deleted, or somebody by hand, by pipeline and place; up to a minute old.

        They are counted one by one: it takes a tenth of a second for a million.
        """
        if self._pruned_read_at is None or now - self._pruned_read_at >= _PRUNED_READ_EVERY:
            cursor.execute("SELECT pipeline, place, count(*) FROM freshet.pruned_tuple GROUP BY pipeline, place")
            self._pruned = {}
            for pipeline, place, count in cursor.fetchall():
                self._pruned.setdefault(pipeline, {})[place] = count
            self._pruned_read_at = now
        return self._pruned

    @staticmethod
    def read_requeued(cursor: extensions.cursor, names: Sequence[str]) -> dict[str, int]:
        """How many of the shed tuples of pipelines only wait for their new try; those of which none do are not there.

        They have an index of their own: O(their number).
        """
        cursor.execute(
            f"SELECT pipeline, count(*) FROM freshet.held_tuple WHERE pipeline = ANY (%s) AND {REQUEUED} "
            "GROUP BY pipeline",
            [list(names)],
        )
        return dict(cursor.fetchall())

    def read(
        self, cursor: extensions.cursor, counts: Mapping[str, Mapping[str, int]], now: datetime
    ) -> dict[str, Backlog]:
        """The backlogs of pipelines of which the numbers of tuples in each place are known already.

        Args:
            cursor: to the warehouse.
            counts: for each pipeline, tuples by place.
            now: by the warehouse's clock.
        """
        oldest = self._read_oldest(cursor, counts)
        backlogs = {}
        for pipeline, places in counts.items():
            parts = {}
            for place in PLACES:
                found = oldest.get((pipeline, place))
                age = None if found is None else max((now - found.arrived_at) / timedelta(milliseconds=1), 0.0)
                arrived_at = None if found is None else found.arrived_at.astimezone(UTC)
                parts[place] = PlaceBacklog(places[place], arrived_at, age)
            backlogs[pipeline] = Backlog(**parts)
        return backlogs

    def _read_oldest(
        self, cursor: extensions.cursor, counts: Mapping[str, Mapping[str, int]]
    ) -> dict[tuple[str, str], _Oldest]:
        wanted = [
            (pipeline, place, self._start(pipeline, place, places[place]))
            for pipeline, places in counts.items()
            for place in PLACES
            if places[place] > 0
        ]
        if not wanted:
            return {}
        # Written once for each place: only a literal lets the planner take the index of what waits.
        looks = " UNION ALL ".join(
            f"""
            SELECT wanted.pipeline, wanted.place, first.batch_no, oldest.arrived_at
            FROM wanted CROSS JOIN LATERAL (
                SELECT batch_no FROM freshet.held_tuple
                WHERE pipeline = wanted.pipeline AND place = '{place}' AND batch_no >= wanted.start
                ORDER BY batch_no LIMIT 1) AS first
            CROSS JOIN LATERAL (
                SELECT min(arrived_at) AS arrived_at FROM (
                    SELECT arrived_at FROM freshet.held_tuple
                    WHERE pipeline = wanted.pipeline AND place = '{place}' AND batch_no = first.batch_no
                    LIMIT 1000) AS early) AS oldest
            WHERE wanted.place = '{place}'
            """
            for place in PLACES
        )
        cursor.execute(
            'WITH wanted AS (SELECT * FROM unnest(%s::text[] COLLATE "C", %s::text[], %s::bigint[]) '
            f"AS wanted (pipeline, place, start)) {looks}",
            [list(column) for column in zip(*wanted, strict=True)],
        )
        oldest = {(pipeline, place): _Oldest(*row) for pipeline, place, *row in cursor.fetchall()}
        for (pipeline, place), found in oldest.items():
            if place not in WAITING_PLACES:
                self._first_rejected[pipeline] = (found.batch_no, counts[pipeline][place])
        return oldest

    def _start(self, pipeline: str, place: str, count: int) -> int:
        """First batch to look into. Rejected tuples have no index of their own: to find the first takes a search.

        While none is added, the first one stays where it was, or goes.
        """
        if place in WAITING_PLACES:
            return 0
        batch_no, counted = self._first_rejected.get(pipeline, (0, 0))
        return batch_no if count <= counted else 0
