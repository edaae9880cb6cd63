"""Compares held tuples with the landed records that they should be."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from psycopg2 import extensions, sql

from spark_jobs.definition.fates import CAN_NOT_MATCH, PLACES, POISON, REJECTED
from spark_jobs.proof.account import AbsentRecords
from spark_jobs.proof.proof import EXAMPLES, Findings, shortened
from spark_jobs.proof.staged_events import copy_in
from spark_jobs.proof.stored_tuples import StoredTuples


class HeldComparison:
    """The differences between held tuples of one kind and the staged events, and how many are held.

    Args:
        cursor: in the transaction of the staging.
        stored: which tuples.
        landed: SQL name of the temporary table of their events.
        absent: events that may have landed before, and are there no longer.
        findings: takes what is found.

    Attributes:
        held: tuples by place.
        pruned: tuples that retention has deleted, by place.
        gone: held tuples whose events are there no longer.
        unchecked: rejected events whose reason is not checked here.
    """

    def __init__(
        self,
        cursor: extensions.cursor,
        stored: StoredTuples,
        landed: sql.Identifier,
        absent: AbsentRecords,
        findings: Findings,
    ) -> None:
        self._cursor = cursor
        self._stored = stored
        self._landed = landed
        self._absent = absent
        self._findings = findings
        self._execute("SELECT place, count(*) FROM {held} GROUP BY place")
        self.held: dict[str, int] = {**dict.fromkeys(PLACES, 0), **dict(cursor.fetchall())}
        self._execute("SELECT place, count(*) FROM {pruned} GROUP BY place")
        self.pruned = Counter(dict(cursor.fetchall()))
        self.gone = 0
        self.unchecked = 0

    def extra(self) -> None:
        """Held tuples that never landed; some may have, in files that are there no longer."""
        self._execute("CREATE TEMPORARY TABLE {absent} (unit text) ON COMMIT DROP", absent=self._temporary("absent"))
        copy_in(self._cursor, self._temporary("absent"), pa.table({"unit": self._absent.units}))
        self._execute(
            """
            CREATE TEMPORARY TABLE {extra} ON COMMIT DROP AS
            SELECT held.event_id, held.place,
                held.source_unit IS NULL OR held.source_unit IN (SELECT unit FROM {absent}) AS may_be_absent
            FROM {held} AS held
            WHERE NOT EXISTS (SELECT FROM {landed} AS landed WHERE landed.event_id = held.event_id)
                AND NOT EXISTS (SELECT FROM {landed} AS landed WHERE landed.raw_id = held.event_id)
            """,
            extra=self._temporary("extra_held"),
            absent=self._temporary("absent"),
        )
        self._execute(
            "SELECT count(*), count(*) FILTER (WHERE may_be_absent) FROM {extra}", extra=self._temporary("extra_held")
        )
        [(count, maybe_absent)] = self._cursor.fetchall()
        self.gone = self._absent.explain(maybe_absent)
        self._execute(
            "SELECT {shown}, place FROM {extra} ORDER BY may_be_absent, event_id LIMIT {most}",
            extra=self._temporary("extra_held"),
        )
        self._findings.put("extra_held", count - self.gone, [f"{id} is {place}" for id, place in self._cursor])

    def payloads(self) -> None:
        """Held tuples whose payload is none of the landed records with their id."""
        self._differing(
            "wrong_payload",
            """
            SELECT event_id, NULL AS reason FROM {kept} WHERE NOT is_record
            UNION ALL
            SELECT kept.event_id, NULL FROM {kept} AS kept JOIN {landed} AS landed ON landed.event_id = kept.event_id
            WHERE is_record IS NULL GROUP BY kept.event_id
            HAVING coalesce(bool_or(landed.record = kept.record OR landed.object = kept.object), false) = false
            """,
        )

    def rejected(self, can_match: sql.Composable) -> None:
        """Rejected tuples of which the reason does not hold; whether PostgreSQL would refuse one is not tried.

        Args:
            can_match: SQL: the event of `landed` has keys that may find something.
        """
        self._differing(
            "wrongly_rejected",
            """
            SELECT held.event_id, held.reason FROM {held} AS held
            WHERE held.place = {rejected} AND held.source_unit IS NOT NULL AND NOT held.of_former
                AND held.fate <> {poison} AND EXISTS (
                SELECT FROM {landed} AS landed WHERE landed.raw_id = held.event_id AND landed.event_id IS NOT NULL)
            UNION ALL
            SELECT held.event_id, held.reason FROM {held} AS held
            WHERE held.fate = {can_not_match}
                AND EXISTS (SELECT FROM {landed} AS landed WHERE landed.event_id = held.event_id AND landed.loadable)
                AND NOT EXISTS (
                    SELECT FROM {landed} AS landed WHERE landed.event_id = held.event_id AND NOT {can_match})
            """,
            poison=sql.Literal(POISON.name),  # what reads the record by now may be another version
            can_match=can_match,
        )
        self._execute(
            """
            SELECT {shown} FROM {held} AS held
            WHERE held.of_former AND EXISTS (
                SELECT FROM {landed} AS landed WHERE landed.raw_id = held.event_id AND landed.event_id IS NOT NULL)
            """
        )
        for (event_id,) in self._cursor.fetchall():
            self._findings.add("readable", event_id)
        self._execute(
            """
            SELECT count(*) FROM {held}
            WHERE place = {rejected} AND starts_with(event_id, '[') AND fate <> {can_not_match}
            """,
        )
        [(self.unchecked,)] = self._cursor.fetchall()

    def _differing(self, kind: str, query: str, **parts: sql.Composable) -> None:
        """Report what a query finds: event ids, with reasons or nulls."""
        self._execute(
            f"CREATE TEMPORARY TABLE {{found}} ON COMMIT DROP AS {query}", found=self._temporary(kind), **parts
        )
        self._execute("SELECT count(*) FROM {found}", found=self._temporary(kind))
        [(count,)] = self._cursor.fetchall()
        self._execute("SELECT {shown}, reason FROM {found} ORDER BY event_id LIMIT {most}", found=self._temporary(kind))
        self._findings.put(
            kind, count, [id if reason is None else f"{id}: {shortened(reason)}" for id, reason in self._cursor]
        )

    def _temporary(self, name: str) -> sql.Identifier:
        """A table of these tuples' own."""
        return sql.Identifier("pg_temp", f"{name} {self._stored.prefix}".rstrip())

    def _execute(self, statement: str, **parts: sql.Composable) -> None:
        self._cursor.execute(
            sql.SQL(statement).format(
                landed=self._landed,
                held=self._stored.held,
                pruned=self._stored.pruned,
                kept=self._stored.kept,
                shown=sql.SQL("{} || event_id").format(sql.Literal(self._stored.prefix)),
                most=sql.Literal(EXAMPLES),
                rejected=sql.Literal(REJECTED.place),
                can_not_match=sql.Literal(CAN_NOT_MATCH.name),
                **parts,
            )
        )
