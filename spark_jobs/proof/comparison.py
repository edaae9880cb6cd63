"""Compares the staged events with what the warehouse stores; every comparison is one statement over whole tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from psycopg2 import extensions, sql

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.stream_tuple import PLACES
from spark_jobs.proof.account import Account
from spark_jobs.proof.changes import Explained, explain
from spark_jobs.proof.held import KEPT
from spark_jobs.proof.join import JoinedEvents
from spark_jobs.proof.ledger_sums import unbalanced_batches, wrong_sums
from spark_jobs.proof.proof import EXAMPLES
from spark_jobs.proof.staged_events import LANDED, copy_in
from spark_jobs.stages.screening import CAN_NOT_MATCH

_LONGEST_VALUE = 80
_ABSENT = sql.Identifier("pg_temp", "absent")


class Comparison:
    """The differences between the staged events and the warehouse, and the counts of what is stored.

    Args:
        cursor: in the transaction of the staging.
        definition: the pipeline.
        joined: the plain join.
        account: what has landed; it takes what is found.
    """

    def __init__(
        self,
        cursor: extensions.cursor,
        definition: PipelineDefinition,
        joined: JoinedEvents,
        account: Account,
    ) -> None:
        self._cursor = cursor
        self._definition = definition
        self._joined = joined
        self._account = account
        self._findings = account.findings
        self.facts = self._number("SELECT count(*) FROM {fact}")
        self._execute("SELECT place, count(*) FROM freshet.held_tuple WHERE pipeline = {pipeline} GROUP BY place")
        self.held: dict[str, int] = {**dict.fromkeys(PLACES, 0), **dict(cursor.fetchall())}
        self._execute("SELECT place, count(*) FROM freshet.pruned_tuple WHERE pipeline = {pipeline} GROUP BY place")
        self.pruned = Counter(dict(cursor.fetchall()))
        self.explained = Explained(0, 0)
        self.pending_records = 0
        self.gone_held = 0
        self.gone_facts = 0
        self.resolvable = 0
        self.unchecked = 0

    def run(self) -> None:
        """Compare everything."""
        self._missing()
        self._in_two_places()
        self._extra_held()
        self._wrong_facts()
        self._payloads()
        self._rejected()
        self._ledger()
        self.resolvable = self._resolvable()

    def _missing(self) -> None:
        """Records that are stored nowhere: those of pending files are counted, the others are missing."""
        self._execute(
            """
            CREATE TEMPORARY TABLE unstored ON COMMIT DROP AS
            SELECT coalesce(landed.event_id, landed.raw_id) AS id, landed.file, landed.pending FROM {landed} AS landed
            WHERE NOT landed.raw_held
                AND NOT EXISTS (SELECT FROM {fact} AS fact WHERE landed.event_id IS NOT NULL AND {same_key})
                AND NOT EXISTS (SELECT FROM freshet.held_tuple AS held
                                WHERE held.pipeline = {pipeline} AND held.event_id = landed.event_id)
                AND NOT EXISTS (SELECT FROM freshet.pruned_tuple AS pruned
                                WHERE pruned.pipeline = {pipeline} AND pruned.event_id = landed.event_id)
            """
        )
        self.pending_records = self._number("SELECT count(*) FROM pg_temp.unstored WHERE pending")
        count = self._number("SELECT count(DISTINCT id) FROM pg_temp.unstored WHERE NOT pending")
        self._execute(
            "SELECT id, min(file) FROM pg_temp.unstored WHERE NOT pending GROUP BY id ORDER BY 2, 1 LIMIT {most}"
        )
        labels = self._account.labels
        self._findings.put("missing", count, [f"{id} of {labels[file]}" for id, file in self._cursor])

    def _in_two_places(self) -> None:
        """Events with two places; to have been pruned is one as well, since what is sent again is a duplicate."""
        # A batch that is still open may hold what it stored as a fact, too: that is settled when it is closed.
        self._execute(
            """
            CREATE TEMPORARY TABLE doubled ON COMMIT DROP AS
            WITH placed AS (
                SELECT event_id, place FROM freshet.held_tuple AS held
                WHERE held.pipeline = {pipeline} AND NOT EXISTS (
                    SELECT FROM freshet.batch WHERE batch.batch_no = held.batch_no AND batch.state = 'started')
                UNION ALL
                SELECT event_id, 'pruned' FROM freshet.pruned_tuple WHERE pipeline = {pipeline}
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

    def _extra_held(self) -> None:
        """Held tuples that never landed; some may have, in files that are there no longer."""
        self._execute("CREATE TEMPORARY TABLE absent (unit text) ON COMMIT DROP")
        copy_in(self._cursor, _ABSENT, pa.table({"unit": self._account.absent.units}))
        self._execute(
            """
            CREATE TEMPORARY TABLE extra_held ON COMMIT DROP AS
            SELECT held.event_id, held.place,
                held.source_unit IS NULL OR held.source_unit IN (SELECT unit FROM pg_temp.absent) AS may_be_absent
            FROM freshet.held_tuple AS held
            WHERE held.pipeline = {pipeline}
                AND NOT EXISTS (SELECT FROM {landed} AS landed WHERE landed.event_id = held.event_id)
                AND NOT EXISTS (SELECT FROM {landed} AS landed WHERE landed.raw_id = held.event_id)
            """
        )
        count = self._number("SELECT count(*) FROM pg_temp.extra_held")
        self.gone_held = self._gone(self._number("SELECT count(*) FROM pg_temp.extra_held WHERE may_be_absent"))
        self._execute("SELECT event_id, place FROM pg_temp.extra_held ORDER BY may_be_absent, event_id LIMIT {most}")
        self._findings.put("extra_held", count - self.gone_held, [f"{id} is {place}" for id, place in self._cursor])

    def _gone(self, unlanded: int) -> int:
        """How many of these may have been loaded of files that are there no longer."""
        records = self._account.absent.count
        return unlanded if records is None else min(unlanded, records - self.gone_held)

    def _wrong_facts(self) -> None:
        """Facts that equal none of the landed records with their id, whatever R was: never landed, or wrong."""
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
            self.explained = explain(self._cursor, self._definition, self._joined, self._account.arrivals)
        wrong = self._number("SELECT count(*) FROM pg_temp.unequal WHERE landed")
        self._findings.put("wrong_fact", wrong, self._wrong_examples() if wrong else ())
        unlanded = self._number("SELECT count(*) FROM pg_temp.unequal WHERE NOT landed")
        self.gone_facts = self._gone(unlanded)
        extra = unlanded - self.gone_facts
        self._findings.put("extra_fact", extra, self._extra_examples()[:extra] if extra else ())

    def _extra_examples(self) -> list[str]:
        self._execute(
            "SELECT {stored_key} FROM pg_temp.unequal AS fact WHERE NOT fact.landed ORDER BY {stored_key} LIMIT {most}"
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
                f"{each.column} is {_shown(values[3 * k])}, should be {_shown(values[3 * k + 1])}"
                for k, each in enumerate(self._joined.expected)
                if values[3 * k + 2]
            ]
        return f"{_shown_key(key)} of {self._account.labels[file]}: {'; '.join(faults)}"

    def _payloads(self) -> None:
        """Held tuples whose payload is none of the landed records with their id."""
        self._execute(
            """
            CREATE TEMPORARY TABLE wrong_payload ON COMMIT DROP AS
            SELECT event_id FROM {kept} WHERE NOT is_record
            UNION ALL
            SELECT kept.event_id FROM {kept} AS kept JOIN {landed} AS landed ON landed.event_id = kept.event_id
            WHERE is_record IS NULL GROUP BY kept.event_id
            HAVING coalesce(bool_or(landed.record = kept.record OR landed.object = kept.object), false) = false
            """
        )
        count = self._number("SELECT count(*) FROM pg_temp.wrong_payload")
        self._execute("SELECT event_id FROM pg_temp.wrong_payload ORDER BY event_id LIMIT {most}")
        self._findings.put("wrong_payload", count, [id for (id,) in self._cursor])

    def _rejected(self) -> None:
        """Rejected tuples of which the reason does not hold; whether PostgreSQL would refuse one is not tried."""
        self._execute(
            """
            CREATE TEMPORARY TABLE wrongly_rejected ON COMMIT DROP AS
            SELECT held.event_id, held.reason FROM freshet.held_tuple AS held
            WHERE held.pipeline = {pipeline} AND held.place = 'rejected' AND held.source_unit IS NOT NULL AND EXISTS (
                SELECT FROM {landed} AS landed WHERE landed.raw_id = held.event_id AND landed.event_id IS NOT NULL)
            UNION ALL
            SELECT held.event_id, held.reason FROM freshet.held_tuple AS held
            WHERE held.pipeline = {pipeline} AND held.place = 'rejected' AND starts_with(held.reason, {can_not_match})
                AND EXISTS (SELECT FROM {landed} AS landed WHERE landed.event_id = held.event_id AND landed.loadable)
                AND NOT EXISTS (
                    SELECT FROM {landed} AS landed WHERE landed.event_id = held.event_id AND NOT {can_match})
            """,
            can_not_match=sql.Literal(CAN_NOT_MATCH),
            can_match=self._joined.can_match,
        )
        count = self._number("SELECT count(*) FROM pg_temp.wrongly_rejected")
        self._execute("SELECT event_id, reason FROM pg_temp.wrongly_rejected ORDER BY event_id LIMIT {most}")
        self._findings.put("wrongly_rejected", count, [f"{id}: {_shown(reason)}" for id, reason in self._cursor])
        self._execute(
            """
            SELECT count(*) FROM freshet.held_tuple
            WHERE pipeline = {pipeline} AND place = 'rejected' AND starts_with(event_id, '[')
                AND NOT starts_with(reason, {can_not_match})
            """,
            can_not_match=sql.Literal(CAN_NOT_MATCH),
        )
        self.unchecked = _first(self._cursor)

    def _ledger(self) -> None:
        stored = {"facts": self.facts}
        stored |= {place: self.held[place] + self.pruned[place] for place in PLACES}
        wrong = list(wrong_sums(self._cursor, self._definition.name, stored))
        self._findings.put("ledger", len(wrong), wrong)
        for batch in unbalanced_batches(self._cursor, self._definition.name):
            self._findings.add("balance", batch)

    def _resolvable(self) -> int:
        if not self.held["unmatched"]:
            return 0
        return self._number(
            """
            SELECT count(DISTINCT held.event_id) FROM freshet.held_tuple AS held, {joined}
            WHERE held.pipeline = {pipeline} AND held.place = 'unmatched' AND landed.event_id = held.event_id
                AND landed.loadable
            """
        )

    def _number(self, statement: str) -> int:
        self._execute(statement)
        return _first(self._cursor)

    def _execute(self, statement: str, **parts: sql.Composable) -> None:
        self._cursor.execute(
            sql.SQL(statement).format(
                landed=LANDED,
                kept=KEPT,
                fact=self._joined.fact_table,
                pipeline=sql.Literal(self._definition.name),
                same_key=self._joined.same_key,
                same_values=self._joined.same_values,
                stored_key=self._joined.stored_key,
                joined=self._joined.tables(),
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


def _shown(value: str | None) -> str:
    if value is None:
        return "null"
    return value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 3] + "..."
