"""Facts that are not what R makes of their events now, but what R as it was made of them when they were loaded.

An event that arrived at some moment was joined with R as it was then or later, until now: with the tuples that are
there, or with those that a noted change (freshet.relation_change) has replaced since. What had been replaced before the
event arrived is no excuse: a fact that has it is stale, and wrong. Where it is only noted that something has changed
(such as TRUNCATE of a table that freshet_change_noter may not read), where retention has deleted the notes, or where
they lack a column that is looked up (a virtual one, say), nothing can be proved about facts whose events had arrived
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from psycopg2 import extensions, sql

from spark_jobs.definition import PipelineDefinition
from spark_jobs.proof.former import SUSPECT, UNKNOWN, FormerRelation
from spark_jobs.proof.join import Expected, JoinedEvents
from spark_jobs.proof.staging import LANDED

# A batch in flight has read R before a change reached it, and is stored after: so many freshness targets at most.
_TARGETS_IN_FLIGHT = 2


class Explained(NamedTuple):
    """What became of the facts that differ from the join with R as it is.

    Attributes:
        former: those that equal the join with R as it was.
        unprovable: those about which nothing can be proved.
    """

    former: int
    unprovable: int


def explain(
    cursor: extensions.cursor, definition: PipelineDefinition, joined: JoinedEvents, arrivals: Sequence[datetime]
) -> Explained:
    """Take the facts that are explained, or that can't be proved, out of the temporary table `unequal`.

    Next to nothing to do where R has not changed. Else only the landed events of unequal facts are looked at: they are
    joined with all that each lookup may have found, which may be another R for each of them.

    Args:
        cursor: in the proof's transaction.
        definition: the pipeline.
        joined: the join with R as it is.
        arrivals: when each landed file arrived, in the order of their numbers.
    """
    forgotten_until = _forgotten_until(cursor, definition)
    in_flight = _TARGETS_IN_FLIGHT * definition.freshness.target
    relations = [
        FormerRelation(cursor, lookup, described.notice_changes + in_flight, forgotten_until)
        for lookup, described in zip(joined.lookups, definition.lookups, strict=True)
    ]
    if not any(relation.has_changed for relation in relations):
        return Explained(0, 0)
    _suspect(cursor, joined, arrivals)
    for relation in relations:
        relation.gather()
    return _settle(cursor, joined, relations)


def _forgotten_until(cursor: extensions.cursor, definition: PipelineDefinition) -> datetime | None:
    """Until when retention may have deleted changes of R; None if it has not been at work."""
    if definition.retention.ledger is None:
        return None
    cursor.execute(
        "SELECT now() - %s WHERE EXISTS (SELECT FROM freshet.ledger_pruned WHERE pipeline = %s)",
        [definition.retention.ledger, definition.name],
    )
    row = cursor.fetchone()
    return None if row is None else row[0]


def _suspect(cursor: extensions.cursor, joined: JoinedEvents, arrivals: Sequence[datetime]) -> None:
    """The landed events of the unequal facts, each with a number and its arrival."""
    cursor.execute(
        sql.SQL(
            """
            ANALYZE pg_temp.unequal;
            CREATE TEMPORARY TABLE suspect ON COMMIT DROP AS
            SELECT row_number() OVER () AS number, arrival.arrived, landed.*
            FROM {landed} AS landed
            JOIN unnest(%s::integer[], %s::timestamptz[]) AS arrival (file, arrived) ON arrival.file = landed.file
            WHERE landed.loadable AND NOT landed.raw_held
                AND EXISTS (SELECT FROM pg_temp.unequal AS fact WHERE fact.landed AND {same_key});
            ANALYZE pg_temp.suspect
            """
        ).format(landed=LANDED, same_key=joined.same_key),
        [list(range(len(arrivals))), list(arrivals)],
    )


def _settle(cursor: extensions.cursor, joined: JoinedEvents, relations: Sequence[FormerRelation]) -> Explained:
    """Compare the facts with what the lookups may have found."""
    found = [
        sql.SQL(" JOIN {} AS {} ON {}.{} = landed.number").format(
            relation.table, sql.Identifier(lookup.alias), sql.Identifier(lookup.alias), SUSPECT
        )
        for lookup, relation in zip(joined.lookups, relations, strict=True)
    ]
    unknown = [sql.SQL("{}.{}").format(sql.Identifier(lookup.alias), UNKNOWN) for lookup in joined.lookups]
    cursor.execute(
        sql.SQL(
            """
            CREATE TEMPORARY TABLE explained ON COMMIT DROP AS
            SELECT {stored_key}, bool_or(NOT ({unknown})) AS proved
            FROM pg_temp.unequal JOIN {fact} AS fact ON {same_fact}
            JOIN pg_temp.suspect AS landed ON {same_key}{found}
            WHERE unequal.landed AND {right}
            GROUP BY {stored_key};
            DELETE FROM pg_temp.unequal AS fact USING pg_temp.explained WHERE {explains};
            SELECT count(*) FILTER (WHERE proved), count(*) FILTER (WHERE NOT proved) FROM pg_temp.explained
            """
        ).format(
            stored_key=joined.stored_key,
            unknown=sql.SQL(" OR ").join(unknown),
            fact=joined.fact_table,
            same_fact=joined.same_fact("unequal"),
            same_key=joined.same_key,
            found=sql.SQL("").join(found),
            right=sql.SQL(" AND ").join(_right(expected) for expected in joined.expected),
            explains=joined.same_fact("explained"),
        )
    )
    [(former, unprovable)] = cursor.fetchall()
    return Explained(former, unprovable)


def _right(expected: Expected) -> sql.Composable:
    """SQL: the column is what it should be, or it is not known what it should be."""
    if expected.lookup is None:
        return expected.is_right
    alias = sql.Identifier(expected.lookup.alias)
    return sql.SQL("({}.{} OR {})").format(alias, UNKNOWN, expected.is_right)
