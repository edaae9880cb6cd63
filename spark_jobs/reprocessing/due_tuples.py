"""Held tuples that are due to be tried: how many there are, and where they lie."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from psycopg2 import extensions, sql

from spark_jobs.definition import Lookup
from spark_jobs.definition.fates import UNMATCHED
from spark_jobs.reprocessing.late_due import LateDue
from spark_jobs.reprocessing.request import NAMED, ReprocessingRequest

# Whether a tuple may be taken. Tuples of an open batch belong to its loaders, and what was tried since the run began
# has had its turn. A change of R that can make a match is an insert; where R keeps versions, an update as well. It
# counts where the last try may not have seen it, after a quarter of the pause that follows that try and 32 times the
# first pause at most: an R that grows all the time would have all unmatched tuples tried all the time. What is held of
# one of several streams is left alone: it was not joined, and lookups are made for joined tuples. Its id begins with
# the stream's name, all others with an opening bracket or brace.
_DUE = f"""
    h.pipeline = %(pipeline)s
    AND left(h.event_id, 1) IN ('[', chr(123))
    AND h.batch_no <> ALL (SELECT batch_no FROM freshet.batch WHERE pipeline = %(pipeline)s AND state = 'started')
    AND (h.tried_at IS NULL OR %(tried_before)s::timestamptz IS NULL OR h.tried_at < %(tried_before)s::timestamptz)
    AND (%(arrived_from)s::timestamptz IS NULL OR h.arrived_at >= %(arrived_from)s::timestamptz)
    AND (%(arrived_until)s::timestamptz IS NULL OR h.arrived_at < %(arrived_until)s::timestamptz)
    AND {NAMED}
    AND (
        h.retry_at IS NULL OR h.retry_at <= clock_timestamp()
        OR h.place = '{UNMATCHED.place}' AND (
            %(all_unmatched)s
            OR h.tried_at <= clock_timestamp() - %(first_pause)s * power(2, least(h.attempts, 8) - 3) AND EXISTS (
                SELECT FROM unnest(%(changed_relations)s::text[], %(newest_changes)s::xid8[]) AS c(relation, newest)
                WHERE c.relation = h.relation AND c.newest >= h.tried_xmin
            )
        )
    )
"""


class Slice(NamedTuple):
    """Some due tuples.

    Attributes:
        addresses: of their rows, as the text of a tid[]. A tuple that changes moves, and its row may come to be
            another's: reading a slice asks again what is due in it.
        tuples: how many.
    """

    addresses: str
    tuples: int


class DueTuples:
    """The held tuples of a pipeline that a request asks for, and that are due.

    Args:
        cursor: to the warehouse; only for the newest changes of the relations, which are read once.
        pipeline: its name.
        lookups: its lookups.
        first_pause: the pipeline's, from the first try to the second.
        request: which tuples.
        tried_before: leave out what was tried at this time or later; None: nothing.
    """

    def __init__(
        self,
        cursor: extensions.cursor,
        pipeline: str,
        lookups: Iterable[Lookup],
        first_pause: timedelta,
        request: ReprocessingRequest,
        tried_before: datetime | None = None,
    ) -> None:
        changes = _newest_changes(cursor, lookups)
        self._places = request.places
        self._arguments: dict[str, Any] = {
            "pipeline": pipeline,
            "tried_before": tried_before,
            "arrived_from": request.arrived_from,
            "arrived_until": request.arrived_until,
            "reason": request.reason,
            "text": request.text,
            "all_unmatched": request.all_unmatched,
            "changed_relations": list(changes),
            "newest_changes": list(changes.values()),
            "first_pause": first_pause,
        }

    def count(self, cursor: extensions.cursor, most: int) -> int:
        """How many there are; no more than `most` are counted."""
        cursor.execute(
            sql.SQL("SELECT count(*) FROM ({}) AS due").format(self._addresses(sql.Literal(most))), self._arguments
        )
        row = cursor.fetchone()
        assert row is not None
        return int(row[0])

    def slices(self, cursor: extensions.cursor, most: int, parts: int) -> list[Slice]:
        """The next of them, those of the oldest batches first, in `parts` equal slices; fewer where they are few."""
        cursor.execute(
            sql.SQL(
                "SELECT array_agg(ctid)::text, count(*) "
                "FROM (SELECT ctid, ntile({parts}) OVER () AS part FROM ({due}) AS due) AS cut "
                "GROUP BY part ORDER BY part"
            ).format(parts=sql.Literal(parts), due=self._addresses(sql.Literal(most))),
            self._arguments,
        )
        return [Slice(*row) for row in cursor.fetchall()]

    def condition(self, cursor: extensions.cursor, slice_: Slice) -> str:
        """SQL condition on freshet.held_tuple AS h: it lies in the slice and is still due."""
        condition: bytes = cursor.mogrify(
            f"h.ctid = ANY (%(addresses)s::tid[]) AND h.place = ANY (%(places)s) AND {_DUE}",
            {**self._arguments, "addresses": slice_.addresses, "places": list(self._places)},
        )
        return condition.decode()

    def _addresses(self, most: sql.Composable) -> sql.Composable:
        """Query for up to `most` addresses, place by place, each in the order of the index."""
        of_place = sql.SQL(
            "(SELECT h.ctid FROM freshet.held_tuple AS h WHERE h.place = {place} AND {due} "
            "ORDER BY h.batch_no LIMIT {most})"
        )
        parts = [of_place.format(place=sql.Literal(p), due=sql.SQL(_DUE), most=most) for p in self._places]
        together = sql.SQL("SELECT ctid FROM ({parts}) AS due LIMIT {most}")
        return together.format(parts=sql.SQL(" UNION ALL ").join(parts), most=most)


def due_now(
    cursor: extensions.cursor,
    pipeline: str,
    lookups: Iterable[Lookup],
    first_pause: timedelta,
    late_window: timedelta | None = None,
) -> bool:
    """Whether a run without special wishes would find anything to do.

    Args:
        cursor: to the warehouse.
        pipeline: its name; one that is not registered has nothing.
        lookups: its lookups.
        first_pause: the pipeline's, from the first try to the second.
        late_window: of its shape.
    """
    late = LateDue.of(cursor, pipeline, late_window)
    if late is not None and late.exist(cursor):
        return True
    anything = ReprocessingRequest(limit=1)
    return DueTuples(cursor, pipeline, lookups, first_pause, anything).count(cursor, 1) > 0


def _newest_changes(cursor: extensions.cursor, lookups: Iterable[Lookup]) -> dict[str, str]:
    """The newest transaction that changed each relation in a way that can make a match, xid8 as text."""
    kinds: dict[str, set[str]] = {}
    for lookup in lookups:
        kinds.setdefault(lookup.relation, {"insert", "bulk"}).update({"update"} if lookup.as_of else ())
    changes = {}
    for relation, matching in kinds.items():
        cursor.execute(
            "SELECT xid::text FROM freshet.relation_change WHERE relation = %s AND kind = ANY (%s) "
            "ORDER BY freshet.relation_change.xid DESC LIMIT 1",
            [relation, sorted(matching)],
        )
        for (xid,) in cursor.fetchall():
            changes[relation] = xid
    return changes
