"""The facts that a validation looks at: loads of the ledger, a condition that finds their facts, and which were late.

A load is a batch of the stream or a reprocessing run. What was validated is kept with each load, so nothing is
left out and nothing depends on when a validation was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg2 import extensions, sql

from spark_jobs.ledger.latency import BUCKETS, RATIO, UPPER_BOUNDS
from spark_jobs.validation.fact_columns import FactColumns
from spark_jobs.validation.selection import Selection

_LOADS = """
    WITH load AS (
        SELECT batch_no, true AS streamed, state = 'started' AS open, facts, started_at, closed_at, validation_id,
            event_latency
        FROM freshet.batch WHERE pipeline = %(pipeline)s
        UNION ALL
        SELECT batch_no, false, state = 'running', facts, started_at, closed_at, validation_id, event_latency
        FROM freshet.reprocessing_run WHERE pipeline = %(pipeline)s
    )
"""
_CHOSEN = {
    "new": "validation_id IS NULL",
    "batches": "batch_no BETWEEN coalesce(%(first_batch)s, 0) AND coalesce(%(last_batch)s, batch_no)",
    "loaded": "closed_at >= coalesce(%(loaded_from)s, '-infinity'::timestamptz) "
    "AND closed_at < coalesce(%(loaded_until)s, 'infinity'::timestamptz)",
    "everything": "true",
}
_WITHOUT_NUMBERS = "the fact table has no column that gets _batch_no"

FRESH_SHARE = 0.99


@dataclass(frozen=True)
class Window:
    """What is validated.

    Attributes:
        scope: the facts in words.
        loads: numbers of the loads, ascending.
        ranges: the same as ranges, both ends included; no other load of the pipeline that stored facts is in them.
        facts: facts that these loads stored, as the ledger says.
        streamed: those of them that batches of the stream stored.
        closed_until: when the last of the loads was closed.
        condition: holds for their facts; SQL over the fact table's columns.
        exact: whether it holds for no others.
        in_all: facts of all closed loads, as the ledger says.
        open: numbers of the loads that are still at work.
    """

    scope: str
    loads: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    facts: int
    streamed: int
    closed_until: datetime
    condition: sql.Composable
    exact: bool
    in_all: int
    open: tuple[int, ...]


def read_window(
    connection: extensions.connection, pipeline: str, selection: Selection, columns: FactColumns
) -> Window | None:
    """Find the selected facts; None if no load that is selected stored any.

    Args:
        connection: in a transaction that sees one state of the ledger and the facts.
        pipeline: its name.
        selection: what is asked for.
        columns: of the fact table.
    """
    arguments: dict[str, Any] = {"pipeline": pipeline, **selection.model_dump()}
    chosen = f"NOT open AND facts > 0 AND {_CHOSEN[selection.what]}"
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            {_LOADS} SELECT array_agg(batch_no ORDER BY batch_no), sum(facts)::bigint,
                coalesce(sum(facts) FILTER (WHERE streamed), 0)::bigint, max(closed_at)
            FROM load WHERE {chosen}
            """,
            arguments,
        )
        ((loads, facts, streamed, closed_until),) = cursor.fetchall()
        if loads is None:
            return None
        arguments |= {"least": loads[0], "greatest": loads[-1]}
        cursor.execute(
            f"""
            {_LOADS} SELECT batch_no FROM load
            WHERE batch_no BETWEEN %(least)s AND %(greatest)s AND (open OR facts > 0) AND ({chosen}) IS NOT TRUE
            ORDER BY batch_no
            """,
            arguments,
        )
        others = [number for (number,) in cursor.fetchall()]
        cursor.execute(
            f"{_LOADS} SELECT coalesce(sum(facts) FILTER (WHERE NOT open), 0)::bigint, "
            "coalesce(array_agg(batch_no) FILTER (WHERE open), '{}') FROM load",
            arguments,
        )
        ((closed, open_),) = cursor.fetchall()
        pruned = _pruned(cursor, pipeline)
        if selection.what == "everything":
            facts += pruned
        ranges = ranges_between(loads, others)
        condition, exact, how = _condition(cursor, selection, columns, ranges, chosen, arguments)
    count = f"{len(loads):,} load{'s' if len(loads) > 1 else ''}"
    scope = f"{selection}: {count}, numbers {loads[0]} to {loads[-1]}{f'; {how}' if how else ''}"
    in_all, at_work = closed + pruned, tuple(open_)
    return Window(scope, tuple(loads), ranges, facts, streamed, closed_until, condition, exact, in_all, at_work)


def chosen_loads(cursor: extensions.cursor, pipeline: str, selection: Selection) -> tuple[list[int], list[int]]:
    """Numbers of the closed loads that are selected, and of the others between the first and the last of these.

    Loads that stored no facts are among them, for they may have lost theirs. No validation is noted of those: of `new`
    ones they count until a later load was validated.
    """
    cursor.execute(
        f"""
        {_LOADS}, judged AS (
            SELECT batch_no, NOT open AND ({_CHOSEN[selection.what]}) IS TRUE AND (
                facts > 0 OR %(what)s <> 'new'
                OR batch_no > (SELECT coalesce(max(batch_no), 0) FROM load WHERE validation_id IS NOT NULL)) AS chosen
            FROM load
        ), span AS (SELECT min(batch_no) AS first, max(batch_no) AS last FROM judged WHERE chosen)
        SELECT batch_no, chosen FROM judged, span WHERE batch_no BETWEEN first AND last ORDER BY batch_no
        """,
        {"pipeline": pipeline, **selection.model_dump()},
    )
    loads = cursor.fetchall()
    return [number for number, chosen in loads if chosen], [number for number, chosen in loads if not chosen]


def ranges_between(numbers: Sequence[int], others: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The fewest ranges that hold all of the numbers and none of the others; each sorted, ends included."""
    ranges: list[tuple[int, int]] = []
    left = list(reversed(others))
    for number in numbers:
        passed = False
        while left and left[-1] < number:
            left.pop()
            passed = True
        if ranges and not passed:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)


def within(column: sql.Composable, ranges: Sequence[tuple[int, int]]) -> sql.Composable:
    """The condition that a column lies in one of the ranges."""
    parts = [
        sql.SQL("{} BETWEEN {} AND {}").format(column, sql.Literal(first), sql.Literal(last)) for first, last in ranges
    ]
    return sql.SQL("({})").format(sql.SQL(" OR ").join(parts))


def _pruned(cursor: extensions.cursor, pipeline: str) -> int:
    """Facts of loads that retention has deleted from the ledger."""
    cursor.execute("SELECT facts FROM freshet.ledger_pruned WHERE pipeline = %s", [pipeline])
    row = cursor.fetchone()
    return row[0] if row else 0


def _condition(
    cursor: extensions.cursor,
    selection: Selection,
    columns: FactColumns,
    ranges: tuple[tuple[int, int], ...],
    chosen: str,
    arguments: dict[str, Any],
) -> tuple[sql.Composable, bool, str]:
    """A condition for the facts, whether it holds for no others, and what it is if not by number."""
    if columns.batch_no is not None:
        number = sql.Identifier(columns.batch_no)
        inside = within(number, ranges)
        if selection.what != "everything":
            return inside, True, ""
        # Facts from before there was the column, and those whose loads retention has deleted from the ledger.
        former = sql.SQL("{} IS NULL OR {} < {}").format(number, number, sql.Literal(ranges[0][0]))
        return sql.SQL("({} OR {})").format(former, inside), True, ""
    earliest = _earliest_event(cursor, chosen, arguments) if columns.event_time is not None else None
    if columns.event_time is None or earliest is None or selection.what == "everything":
        return sql.SQL("true"), False, f"the whole table, for {_WITHOUT_NUMBERS}"
    name = sql.Identifier(columns.event_time)
    condition = sql.SQL("({} >= {}::timestamptz OR {} IS NULL)").format(name, sql.Literal(earliest), name)
    return condition, False, f"facts whose {columns.event_time} is {earliest} or later, for {_WITHOUT_NUMBERS}"


def _earliest_event(cursor: extensions.cursor, chosen: str, arguments: dict[str, Any]) -> datetime | None:
    """A time before which no event of the loads happened; None where latencies are too long to be known."""
    cursor.execute(
        f"""
        {_LOADS}, bucket AS (
            SELECT started_at,
                (SELECT max(number) FROM unnest(event_latency) WITH ORDINALITY AS h (count, number) WHERE count > 0)
            FROM load WHERE {chosen}
        )
        SELECT min(started_at - make_interval(secs => %(shortest)s * power(%(ratio)s, max - 1))),
            bool_and(max < %(buckets)s)
        FROM bucket
        """,
        {**arguments, "shortest": float(UPPER_BOUNDS[0]) / 1e6, "ratio": RATIO, "buckets": BUCKETS},
    )
    ((earliest, told),) = cursor.fetchall()
    return earliest if told else None


def late_facts(pipeline: str, window: Window, target: timedelta) -> sql.Composable:
    """Query for the batches of the window that have late facts, and how many (`late`), the worst first.

    Counts a bucket of latencies that the target cuts in two by parts, as `latency.percentile` does: the 99th
    percentile is within the target if no more than 1 % of the facts are late.

    Args:
        pipeline: its name.
        window: the facts.
        target: the longest time from the event until its fact can be read.
    """
    return sql.SQL(
        """
        SELECT batch_no, closed_at, late FROM (
            SELECT batch_no, closed_at, (
                SELECT round(sum(count * least(1, greatest(0,
                    ln({shortest} * power({ratio}, number - 1) / {target}) / ln({ratio})))))::bigint
                FROM unnest(event_latency) WITH ORDINALITY AS bucket (count, number) WHERE count > 0
            ) AS late
            FROM freshet.batch WHERE pipeline = {pipeline} AND state <> 'started' AND {numbers}
        ) AS batches WHERE late > 0 ORDER BY late DESC
        """
    ).format(
        shortest=sql.Literal(float(UPPER_BOUNDS[0]) / 1e6),
        ratio=sql.Literal(RATIO),
        target=sql.Literal(target.total_seconds()),
        pipeline=sql.Literal(pipeline),
        numbers=within(sql.Identifier("batch_no"), window.ranges),
    )
