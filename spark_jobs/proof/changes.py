"""Facts that are not what R makes of their events now, but what R as it was made of them when they were loaded.

An event that arrived at some moment was joined with R as it was then or later, until now: with the tuples that are
there, or with those that a noted change (freshet.relation_change) has replaced since. What had been replaced before the
event arrived is no excuse: a fact that has it is stale, and wrong. Where it is only noted that something has changed
(such as TRUNCATE of a table that freshet_change_noter may not read), where retention has deleted the notes, or where
they lack a column that is looked up (a virtual one, say), nothing can be proved about facts whose events had arrived
before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from psycopg2 import extensions, sql

from spark_jobs.definition import PipelineDefinition
from spark_jobs.proof.join import Expected, JoinedEvents
from spark_jobs.proof.lookup import JoinedLookup, table_identifier
from spark_jobs.proof.staged_events import LANDED

# A tuple of R was there until its change was committed, where the server keeps track of that; else until the
# statement ran.
_COMMITTED = "greatest(change.changed_at, pg_xact_commit_timestamp(change.xid::xid))"
_STATED = "change.changed_at"

# Each tuple of R that was replaced, and each key that a tuple was inserted for; nulls where it is not known which.
_NOTED = """
    SELECT change.xid, change.former_xid, {until} AS until, noted.former, noted.key
    FROM freshet.relation_change AS change CROSS JOIN LATERAL (
        SELECT change.former, CASE WHEN change.former IS NULL THEN change.key END AS key WHERE change.formers IS NULL
        UNION ALL SELECT value, NULL FROM jsonb_array_elements(change.formers)
        UNION ALL SELECT NULL, value FROM jsonb_array_elements(change.keys)
    ) AS noted
    WHERE change.relation = {name}
"""
# Triggers note the columns that pipelines used then, and no virtual ones.
_KNOWN = "(noted.former ?& {names} OR noted.key IS NOT NULL)"

# Columns beside those of R, which has none of such names.
SUSPECT = sql.Identifier("freshet: suspect")
UNKNOWN = sql.Identifier("freshet: unknown")
_ABSENT = sql.Identifier("freshet: absent")
_UNTIL = sql.Identifier("freshet: until")

_COMMA = sql.SQL(", ")
_NOTHING = sql.SQL("NULL")

# A batch in flight has read R before a change reached it, and is stored at most this many freshness targets later.
_TARGETS_IN_FLIGHT = 2


class FormerRelation:
    """What one lookup may have found, as R changed.

    Its table has, for each row of the temporary table `suspect` (landed events with `number` and `arrived`), a row for
    everything that may have been found: `SUSPECT`, its number; R's columns, nulls where there was no tuple and the
    lookup has defaults for that; `UNKNOWN`, whether it is not known what was found.

    Args:
        cursor: in the proof's transaction.
        lookup: the lookup.
        allowance: how long before an event's arrival a tuple may have been replaced and be read nevertheless.
        forgotten_until: until when changes of R are not remembered any more; None if all are.

    Attributes:
        table: SQL name of the table.
    """

    def __init__(
        self,
        cursor: extensions.cursor,
        lookup: JoinedLookup,
        allowance: timedelta,
        forgotten_until: datetime | None,
    ) -> None:
        self._cursor = cursor
        self._lookup = lookup
        self._allowance = sql.Literal(allowance)
        self._alias = sql.Identifier(lookup.alias)
        self._former = sql.Identifier("pg_temp", f"former_{lookup.number}")
        self.table = sql.Identifier("pg_temp", f"found_{lookup.number}")
        cursor.execute("SHOW track_commit_timestamp")
        [(tracked,)] = cursor.fetchall()
        until = sql.SQL(_COMMITTED if tracked == "on" else _STATED)
        self._noted = sql.SQL(_NOTED).format(until=until, name=sql.Literal(lookup.relation))
        self._known = sql.SQL(_KNOWN).format(names=sql.Literal(lookup.columns))
        cursor.execute(
            sql.SQL(
                "SELECT bool_or({known}), max(until) FILTER (WHERE {known} IS NOT true) FROM ({noted}) AS noted"
            ).format(known=self._known, noted=self._noted)
        )
        [(any_known, unknown_until)] = cursor.fetchall()
        self._any_known = bool(any_known)
        self._unknown_until = max((each for each in (unknown_until, forgotten_until) if each), default=None)

    @property
    def has_changed(self) -> bool:
        """Whether R was another one at some time that matters."""
        return self._any_known or self._unknown_until is not None

    def gather(self) -> None:
        """Make the table."""
        if self._any_known:
            self._gather_former()
        self._execute(
            "CREATE TEMPORARY TABLE {table} ON COMMIT DROP AS {branches}",
            branches=sql.SQL(" UNION ALL ").join(self._branches()),
        )
        self._execute("ANALYZE {table}")

    def _gather_former(self) -> None:
        """The tuples of R that were replaced, each once, with the moment until which it was there.

        With defaults also the keys that were not there before they were inserted: those of which the same transaction
        has replaced no tuple.
        """
        replaced: sql.Composable = sql.SQL("false")
        if self._lookup.has_default:
            key = _COMMA.join(map(self._lookup.column, self._lookup.key_columns))
            replaced = sql.SQL(
                "bool_or(noted.former IS NOT NULL) OVER (PARTITION BY noted.xid, noted.former_xid, {})"
            ).format(key)
        self._execute(
            """
            CREATE TEMPORARY TABLE {former} ON COMMIT DROP AS
            SELECT {columns}, {absent}, max(until) AS {until} FROM (
                SELECT {columns}, noted.former IS NULL AS {absent}, until, {replaced} AS replaced
                FROM ({noted}) AS noted CROSS JOIN LATERAL
                    jsonb_populate_record(NULL::{relation}, coalesce(noted.former, noted.key)) AS {alias}
                WHERE {known} AND (noted.former IS NOT NULL OR {has_default})
            ) AS {alias}
            WHERE NOT ({absent} AND replaced) GROUP BY {columns}, {absent}
            """,
            noted=self._noted,
            known=self._known,
            replaced=replaced,
            relation=table_identifier(self._lookup.relation),
            has_default=sql.Literal(self._lookup.has_default),
        )
        self._execute("ANALYZE {former}")

    def _branches(self) -> Iterator[sql.Composable]:
        lookup, nothing = self._lookup, _COMMA.join([_NOTHING] * len(self._lookup.columns))
        yield self._sql(
            "SELECT landed.number AS {suspect}, false AS {unknown}, {columns} FROM pg_temp.suspect AS landed{join}",
            join=lookup.join(),
        )
        before = """
            SELECT landed.number, false, {found} FROM pg_temp.suspect AS landed
            JOIN {former} AS {alias} ON {condition} AND {alias}.{until} >= landed.arrived - {allowance}
        """
        if self._any_known:
            tuple_there = self._sql("NOT {alias}.{absent} AND {finds}", finds=lookup.finds)
            yield self._sql(before, found=self._columns, condition=tuple_there)
        if self._any_known and lookup.has_default:
            # Whether none of a key's versions was valid before one of them changed is not worked out.
            none_there = self._sql("{same_key}" if lookup.keeps_versions else "{same_key} AND {alias}.{absent}")
            yield self._sql(before, found=nothing, condition=none_there)
        if self._unknown_until is not None:
            yield self._sql(
                "SELECT landed.number, true, {nothing} FROM pg_temp.suspect AS landed"
                " WHERE landed.arrived - {allowance} <= {unknown_until}",
                nothing=nothing,
                unknown_until=sql.Literal(self._unknown_until),
            )

    @property
    def _columns(self) -> sql.Composable:
        return _COMMA.join(self._lookup.column(name) for name in self._lookup.columns)

    def _execute(self, statement: str, **parts: sql.Composable) -> None:
        self._cursor.execute(self._sql(statement, **parts))

    def _sql(self, statement: str, **parts: sql.Composable) -> sql.Composable:
        return sql.SQL(statement).format(
            table=self.table,
            former=self._former,
            alias=self._alias,
            columns=self._columns,
            same_key=self._lookup.same_key,
            allowance=self._allowance,
            suspect=SUSPECT,
            unknown=UNKNOWN,
            absent=_ABSENT,
            until=_UNTIL,
            **parts,
        )


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
