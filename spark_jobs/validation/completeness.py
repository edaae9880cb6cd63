"""Completeness: is what is stored what arrived? Told from sketches of event ids, without reading the source again.

For any loads the ledger's sketches add up to the ids that have to be stored under their numbers. The sketch of those
that are stored is made anew, by a pass over the warehouse, and subtracted: what is left is the sketch of the ids that
are lost or doubled (spark_jobs/sketches/id_sketch.py). Found is:

- what got lost, doubled or swapped between its record's decoding and its transaction: what was read and never settled
  stands in the ledger's sketch;
- what a transaction said to have stored, and has not, or not once;
- what was deleted, doubled, or given another id after that, whoever did it.

Not found is what was lost before its record was decoded, which is what counts of records by range are for; and a wrong
value under the right id. That a tuple was dropped because its id was stored already rests on the loader's word: the
ledger names such ids, up to a thousand of a batch, and here they are looked up. Loads without a sketch, of former
versions, are left out, and so are those that are still open. `freshet verify` needs none of that, but the landed files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from psycopg2 import extensions, sql

from spark_jobs.ledger.id_sketches import PRUNED, sample, total
from spark_jobs.sketches.id_sketch import Difference, IdSketch
from spark_jobs.validation.fact_columns import FactColumns
from spark_jobs.validation.selection import Selection
from spark_jobs.validation.stored_ids import sketch_stored, stored_nowhere
from spark_jobs.validation.window import chosen_loads, ranges_between, within

MOST_LOOKED_UP = 10_000
"""Dropped ids that a validation looks up."""

# A load without a sketch: an open batch, or a closed one of which it is not known what arrived. Of a run there is one
# as soon as it has made a fact.
_UNKNOWN = """
    SELECT batch_no FROM freshet.batch
    WHERE pipeline = %(pipeline)s AND batch_no > %(after)s AND NOT EXISTS (
        SELECT FROM freshet.id_sketch AS known
        WHERE known.pipeline = batch.pipeline AND known.batch_no = batch.batch_no AND state <> 'started')
    UNION
    SELECT batch_no FROM freshet.id_sketch WHERE pipeline = %(pipeline)s AND sketch IS NULL
"""


@dataclass(frozen=True)
class Completeness:
    """What came of it.

    Attributes:
        ids: that have to be stored.
        difference: between these and those that are; None if there is none.
        not_stored: dropped ids that are stored nowhere.
        looked_up: dropped ids that were looked up.
        left_out: selected loads that are not known enough.
    """

    ids: int
    difference: Difference | None
    not_stored: tuple[str, ...]
    looked_up: int
    left_out: int

    @property
    def wrong(self) -> list[tuple[int, str]]:
        """How many ids are wrong, and how: estimates, but for those that were looked up."""
        lost = doubled = 0
        bound = ""
        if self.difference is not None:
            ids, net = self.difference
            about = max(round(ids.value), abs(net), 1)
            lost, doubled = (about + net + 1) // 2, (about - net) // 2
            most = max(math.ceil(ids.value + ids.error), about)
            bound = f"at most {most:,} lost and doubled together, at {ids.confidence:.0%} confidence"
        return [
            (lost, f"lost; {bound}"),
            (doubled, f"doubled, or stored and never arrived; {bound}"),
            *((1, f"dropped as a duplicate, and stored nowhere: {event_id}") for event_id in self.not_stored),
        ]


def check_completeness(
    connection: extensions.connection, pipeline: str, columns: FactColumns, selection: Selection
) -> Completeness | None:
    """Compare the event ids of some loads with what is stored; None if none of them has a sketch.

    Args:
        connection: in a transaction that sees one state of the ledger and the facts.
        pipeline: its name.
        columns: of its fact table, one of which has the number of the load.
        selection: which loads.
    """
    assert columns.batch_no is not None
    number, fact_number = sql.Identifier("batch_no"), sql.Identifier(columns.batch_no)
    with connection.cursor() as cursor:
        cursor.execute("SELECT sketched_after FROM freshet.pipeline WHERE name = %s", [pipeline])
        ((after,),) = cursor.fetchall()
        cursor.execute(_UNKNOWN, {"pipeline": pipeline, "after": after})
        unknown = {batch_no for (batch_no,) in cursor.fetchall()}
        chosen, others = chosen_loads(cursor, pipeline, selection)
        known = [load for load in chosen if load > after and load not in unknown]
        if selection.what == "everything":
            conditions: list[sql.Composable] = [
                _all_but(column, after, sorted(unknown)) for column in (fact_number, number)
            ]
            owed: sql.Composable = sql.SQL("({} OR batch_no = {})").format(conditions[1], sql.Literal(PRUNED))
        elif not known:
            return None
        else:
            ranges = ranges_between(known, sorted({*others, *chosen} - {*known}))
            conditions = [within(column, ranges) for column in (fact_number, number)]
            owed = conditions[1]
        cursor.execute(
            sql.SQL(
                "SELECT sketch, dropped FROM freshet.id_sketch WHERE pipeline = {} AND sketch IS NOT NULL AND {}"
            ).format(sql.Literal(pipeline), owed)
        )
        rows = cursor.fetchall()
        if not rows:
            return None
        ids = total(packed for packed, _ in rows)
        expected = ids.count
        ids -= sketch_stored(cursor, pipeline, columns, *conditions)
        dropped = sample({event_id for _, told in rows for event_id in told}, MOST_LOOKED_UP)
        not_stored = stored_nowhere(cursor, pipeline, columns, dropped) if dropped else []
    return Completeness(expected, _difference(ids), tuple(not_stored), len(dropped), len(chosen) - len(known))


def _difference(ids: IdSketch) -> Difference | None:
    return None if ids.is_zero else ids.difference()


def _all_but(column: sql.Composable, after: int, others: list[int]) -> sql.Composed:
    return sql.SQL("({} > {} AND {} <> ALL ({}))").format(
        column, sql.Literal(after), column, sql.SQL("{}::bigint[]").format(sql.Literal(others))
    )
