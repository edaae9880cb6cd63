"""Compares facts with what they should be; every comparison is one statement over whole tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from psycopg2 import extensions, sql

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.fates import UNMATCHED
from spark_jobs.proof.account import AbsentRecords
from spark_jobs.proof.changes import Explained, explain
from spark_jobs.proof.join import JoinedEvents
from spark_jobs.proof.proof import EXAMPLES, Findings, shortened
from spark_jobs.proof.staged_events import LANDED
from spark_jobs.proof.stored_tuples import StoredTuples

_ALWAYS = sql.SQL("true")


class Origins(Protocol):
    """Where the staged events have come from."""

    @property
    def labels(self) -> Sequence[str]:
        """How to name each file, by its number."""

    @property
    def arrivals(self) -> Sequence[datetime]:
        """When each of them arrived."""

    @property
    def absent(self) -> AbsentRecords:
        """Events that may have landed before, and are there no longer."""


class Comparison:
    """The differences between the staged events and the facts.

    Args:
        cursor: in the transaction of the staging.
        definition: the pipeline.
        joined: the plain join.
        stored: the held tuples of the same events.
        origins: where the events have come from.
        findings: takes what is found.
        may_be_absent: SQL, over the key's columns of `fact`: some of what it was made of is not landed.

    Attributes:
        facts: how many there are.
        explained: those that differ since R was another one.
        gone: facts whose events are there no longer.
    """

    def __init__(
        self,
        cursor: extensions.cursor,
        definition: PipelineDefinition,
        joined: JoinedEvents,
        stored: StoredTuples,
        origins: Origins,
        findings: Findings,
        may_be_absent: sql.Composable = _ALWAYS,
    ) -> None:
        self._cursor = cursor
        self._definition = definition
        self._joined = joined
        self._stored = stored
        self._origins = origins
        self._findings = findings
        self._may_be_absent = may_be_absent
        self.facts = self._number("SELECT count(*) FROM {fact}")
        self.explained = Explained(0, 0)
        self.gone = 0

    def take_read_again(self) -> int:
        """Take records that are held as unreadable, and are facts all the same, for what they are by now.

        They were read again, by a definition that was corrected. Gives how many tuples are held of them still.
        """
        self._execute(
            "UPDATE {landed} AS landed SET raw_held = false WHERE raw_held AND event_id IS NOT NULL "
            "AND EXISTS (SELECT FROM {fact} AS fact WHERE {same_key})"
        )
        if not self._cursor.rowcount:
            return 0
        return self._number(
            "SELECT count(*) FROM {held} AS held WHERE EXISTS (SELECT FROM {landed} AS landed "
            "WHERE landed.raw_id = held.event_id AND NOT landed.raw_held AND landed.event_id IS NOT NULL)"
        )

    def find_unstored(self) -> None:
        """Make the temporary table `unstored` of the records that are stored nowhere: `id`, `file`, `pending`."""
        self._execute(
            """
            CREATE TEMPORARY TABLE unstored ON COMMIT DROP AS
            SELECT coalesce(landed.event_id, landed.raw_id) AS id, landed.file, landed.pending FROM {landed} AS landed
            WHERE NOT landed.raw_held
                AND NOT EXISTS (SELECT FROM {fact} AS fact WHERE landed.event_id IS NOT NULL AND {same_key})
                AND NOT EXISTS (SELECT FROM {held} AS held WHERE held.event_id = landed.event_id)
                AND NOT EXISTS (SELECT FROM {pruned} AS pruned WHERE pruned.event_id = landed.event_id)
            """
        )

    def missing(self) -> int:
        """Report the records of `unstored` that are not pending; gives the number of those that are."""
        count = self._number("SELECT count(DISTINCT id) FROM pg_temp.unstored WHERE NOT pending")
        self._execute(
            "SELECT id, min(file) FROM pg_temp.unstored WHERE NOT pending GROUP BY id ORDER BY 2, 1 LIMIT {most}"
        )
        labels = self._origins.labels
        self._findings.put("missing", count, [f"{id} of {labels[file]}" for id, file in self._cursor])
        return self._number("SELECT count(*) FROM pg_temp.unstored WHERE pending")

    def duplicates(self) -> int:
        """Records of events that other records have brought as well, but for those of `unstored` that are pending."""
        return self._number(
            """
            SELECT count(*) - count(DISTINCT id) FROM (
                SELECT CASE WHEN raw_held THEN raw_id ELSE coalesce(event_id, raw_id) END AS id, pending FROM {landed}
            ) AS landed
            WHERE NOT (landed.pending AND EXISTS (
                SELECT FROM pg_temp.unstored WHERE unstored.pending AND unstored.id = landed.id))
            """
        )

    def in_two_places(self) -> None:
        """Events with two places; to have been pruned is one as well, since what is sent again is a duplicate."""
        # A batch that is still open may hold what it stored as a fact, too: that is settled when it is closed.
        self._execute(
            """
            CREATE TEMPORARY TABLE doubled ON COMMIT DROP AS
            WITH placed AS (
                SELECT event_id, place FROM {held} AS held WHERE NOT is_of_open_batch
                UNION ALL
                SELECT event_id, 'pruned' FROM {pruned} AS pruned
            )
            SELECT DISTINCT placed.event_id, 'a fact' AS one, place AS other FROM placed
            JOIN {landed} AS landed ON landed.event_id = placed.event_id JOIN {fact} AS fact ON {same_key}
            UNION ALL
            SELECT event_id, min(place), max(place) FROM placed GROUP BY event_id HAVING count(*) > 1
            """
        )
        count = self._number("SELECT count(DISTINCT event_id) FROM pg_temp.doubled")
        self._execute("SELECT event_id, one, other FROM pg_temp.doubled ORDER BY 1, 2, 3 LIMIT {most}")
        examples = [f"{id} is {one} and {other}" for id, one, other in self._cursor]
        self._findings.put("in_two_places", count, examples)

    def wrong_facts(self) -> None:
        """Facts that equal none of the landed records with their id, whatever R was: never landed, or wrong.

        They are in the temporary table `unequal`, with `landed`.
        """
        # A record that is rejected by its raw bytes is in its place already: it can't be the fact's origin.
        self._execute(
            """
            CREATE TEMPORARY TABLE unequal ON COMMIT DROP AS
            SELECT {stored_key}, EXISTS (SELECT FROM {landed} AS landed WHERE {same_key}) AS landed FROM {fact} AS fact
            WHERE NOT EXISTS (
                SELECT FROM {joined}
                WHERE landed.loadable AND NOT landed.raw_held AND {same_key} AND {same_values})
            """
        )
        if self._number("SELECT count(*) FROM pg_temp.unequal WHERE landed"):
            self.explained = explain(self._cursor, self._definition, self._joined, self._origins.arrivals)
        wrong = self._number("SELECT count(*) FROM pg_temp.unequal WHERE landed")
        self._findings.put("wrong_fact", wrong, self._wrong_examples() if wrong else ())
        unlanded = self._number("SELECT count(*) FROM pg_temp.unequal WHERE NOT landed")
        self.gone = self._origins.absent.explain(
            self._number("SELECT count(*) FROM pg_temp.unequal AS fact WHERE NOT landed AND {may_be_absent}")
        )
        extra = unlanded - self.gone
        self._findings.put("extra_fact", extra, self._extra_examples()[:extra] if extra else ())

    def _extra_examples(self) -> list[str]:
        self._execute(
            "SELECT {stored_key} FROM pg_temp.unequal AS fact WHERE NOT fact.landed"
            " ORDER BY ({may_be_absent})::int, {stored_key} LIMIT {most}"
        )
        return [_shown_key(row) for row in self._cursor.fetchall()]

    def _wrong_examples(self) -> list[str]:
        """For each wrong fact what is wrong with it, compared with the landed record that it is most like."""
        expected, unmatched = self._joined.expected, list(self._joined.unmatched())
        columns = sql.SQL(", ").join(
            sql.SQL("{}::text, {}::text, {}").format(each.stored, each.value, each.differs) for each in expected
        )
        missing = sql.SQL(", ").join([sql.SQL("NULL"), *(condition for _, condition in unmatched)])
        wrong = sql.SQL(" + ").join(sql.SQL("{}::int").format(each.differs) for each in expected)
        self._execute(
            """
            SELECT DISTINCT ON ({stored_key}) landed.file, NOT landed.loadable OR landed.raw_held, {missing}, {columns},
                {stored_key}
            FROM {outer} JOIN {fact} AS fact ON {same_key}
            JOIN (SELECT * FROM pg_temp.unequal WHERE landed LIMIT {most}) AS unequal ON {same_fact}
            ORDER BY {stored_key}, NOT landed.loadable OR landed.raw_held, {wrong}
            """,
            missing=missing,
            columns=columns,
            wrong=wrong,
            same_fact=self._joined.same_fact("unequal"),
            outer=self._joined.tables(outer=True),
        )
        return [self._explained(row, [text for text, _ in unmatched]) for row in self._cursor.fetchall()]

    def _explained(self, row: tuple[Any, ...], unmatched: list[str]) -> str:
        file, unloadable, _, *rest = row
        faults = [text for text, absent in zip(unmatched, rest, strict=False) if absent]
        values, key = rest[len(unmatched) :], row[-len(self._joined.key_columns) :]
        if unloadable:
            faults = ["its record can't be read, or is rejected"]
        elif not faults:
            faults = [
                f"{each.column} is {shortened(values[3 * k])}, should be {shortened(values[3 * k + 1])}"
                for k, each in enumerate(self._joined.expected)
                if values[3 * k + 2]
            ]
        return f"{_shown_key(key)} of {self._origins.labels[file]}: {'; '.join(faults)}"

    def resolvable(self) -> int:
        """Unmatched events whose master data is there by now."""
        self._execute(f"SELECT EXISTS (SELECT FROM {{held}} WHERE fate = '{UNMATCHED}')")
        if not _first(self._cursor):
            return 0
        return self._number(
            f"""
            SELECT count(DISTINCT held.event_id) FROM {{held}} AS held, {{joined}}
            WHERE held.fate = '{UNMATCHED}' AND landed.event_id = held.event_id AND landed.loadable
            """
        )

    def _number(self, statement: str) -> int:
        self._execute(statement)
        return _first(self._cursor)

    def _execute(self, statement: str, **parts: sql.Composable) -> None:
        self._cursor.execute(
            sql.SQL(statement).format(
                landed=LANDED,
                held=self._stored.held,
                pruned=self._stored.pruned,
                fact=self._joined.fact_table,
                same_key=self._joined.same_key,
                same_values=self._joined.same_values,
                stored_key=self._joined.stored_key,
                joined=self._joined.tables(),
                may_be_absent=self._may_be_absent,
                most=sql.Literal(EXAMPLES),
                **parts,
            )
        )


def _first(cursor: extensions.cursor) -> int:
    row = cursor.fetchone()
    assert row is not None
    return int(row[0])


def _shown_key(values: Sequence[Any]) -> str:
    return json.dumps(list(values), default=str, separators=(",", ":"))
