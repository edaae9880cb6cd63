"""Our expectations as Great Expectations' own, and the one that it lacks: a query finds no rows, or few."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar

import great_expectations.expectations as gxe
from great_expectations.execution_engine import SqlAlchemyExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.expectation import Expectation as GreatExpectation
from psycopg2 import extensions, sql

from spark_jobs.definition.operation import FACTS, Expectation
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.validation.completeness import check_completeness
from spark_jobs.validation.fact_columns import FactColumns
from spark_jobs.validation.selection import Selection
from spark_jobs.validation.window import FRESH_SHARE, Window, late_facts

MOST_EXAMPLES = 3
_IS_ONE_QUERY = """
    DO $check$ DECLARE one_query refcursor;
    BEGIN OPEN one_query FOR EXECUTE current_setting('freshet.query'); CLOSE one_query; END $check$
"""


class ExpectFewUnexpectedRows(BatchExpectation):
    """Expects that a query finds no more rows than `mostly` leaves room for.

    The rows are counted in the warehouse; only a few come out as examples. Unlike UnexpectedRowsExpectation it
    knows `mostly`, and does not fetch all rows that it finds.

    Attributes:
        rows: the query, run as it is.
        column: the column of the facts that it is about, if there is one.
        mostly: the share of the facts that must not be found.
        element_count: how many facts there are, if the batch's rows are not what the query looks at.
        weight: column of the query that says how many facts a row stands for; without, each stands for one.
    """

    rows: str
    column: str | None = None
    mostly: float = 1.0
    element_count: int | None = None
    weight: str | None = None

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count",)
    success_keys: ClassVar[tuple[str, ...]] = ("rows", "column", "mostly", "element_count", "weight")

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: SqlAlchemyExecutionEngine | None = None,
    ) -> dict[str, Any]:
        assert execution_engine is not None
        count = metrics["table.row_count"] if self.element_count is None else self.element_count
        weight = "1" if self.weight is None else f'"{self.weight}"'
        query = f"SELECT coalesce(sum({weight}), 0)::bigint AS rows FROM ({self.rows}) AS u"
        (found,) = _rows_of(execution_engine, query)
        unexpected = found["rows"]
        examples = []
        if unexpected:
            examples = _rows_of(execution_engine, f"SELECT * FROM ({self.rows}) AS u LIMIT {MOST_EXAMPLES}")
        return {
            # A tenth of a fact is no fact: 0.99 of 100 facts leaves room for exactly one.
            "success": unexpected <= (1 - self.mostly) * count + 1e-6,
            "result": {
                "element_count": count,
                "unexpected_count": unexpected,
                "unexpected_percent": 100 * unexpected / count if count else 0.0,
                "partial_unexpected_index_list": examples,
                "partial_unexpected_list": [
                    ", ".join(f"{name} {value}" for name, value in row.items()) for row in examples
                ],
            },
        }


def _rows_of(engine: SqlAlchemyExecutionEngine, query: str) -> list[dict[str, Any]]:
    with engine.get_connection() as connection:
        # Several statements, of which one would end the transaction that can't write, are no query for a cursor.
        connection.exec_driver_sql("SELECT set_config('freshet.query', %s, false)", (query,))
        connection.exec_driver_sql(_IS_ONE_QUERY, execution_options={"no_parameters": True})
        # What a query sets (its time, where names are looked up) is not to be so for the next one.
        connection.exec_driver_sql("SAVEPOINT expectation")
        try:
            # Straight to PostgreSQL: a colon or a percent sign in a user's query means nothing to us.
            cursor = connection.exec_driver_sql(query, execution_options={"no_parameters": True})
            return [dict(row._mapping) for row in cursor]
        finally:
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT expectation")


@dataclass(frozen=True)
class Stated:
    """An expectation in words and as Great Expectations takes it."""

    words: str
    columns: tuple[str, ...]
    expectation: GreatExpectation


class Suite:
    """Translates the expectations of one validation.

    Args:
        connection: to the warehouse; it knows how SQL is quoted there.
        pipeline: name of the pipeline.
        columns: of the fact table.
        window: the facts.
        selection: what was asked for.
    """

    def __init__(
        self,
        connection: extensions.connection,
        pipeline: str,
        columns: FactColumns,
        window: Window,
        selection: Selection,
    ) -> None:
        self._connection = connection
        self._selection = selection
        self._pipeline = pipeline
        self._columns = columns
        self._window = window

    @property
    def facts(self) -> str:
        """The query for the validated facts."""
        names = sql.SQL(", ").join(map(sql.Identifier, self._columns.types))
        query = sql.SQL("SELECT {} FROM {} WHERE {}").format(names, self._columns.table, self._window.condition)
        return query.as_string(self._connection)

    def stated(self, expectations: Iterable[Expectation]) -> list[Stated]:
        """Each expectation as one, or one for each of its columns."""
        return [stated for expectation in expectations for stated in getattr(self, f"_{expectation.kind}")(expectation)]

    def _not_null(self, expectation: Expectation) -> Iterator[Stated]:
        for name in expectation.not_null or ():
            yield _about(name, "is not null", gxe.ExpectColumnValuesToNotBeNull, expectation)

    def _unique(self, expectation: Expectation) -> Iterator[Stated]:
        names = expectation.columns
        if len(names) == 1:
            yield _about(names[0], "is unique", gxe.ExpectColumnValuesToBeUnique, expectation)
        else:
            compound = gxe.ExpectCompoundColumnsToBeUnique(column_list=list(names), mostly=expectation.mostly)
            yield Stated(_mostly(f"{', '.join(names)} together are unique", expectation), names, compound)

    def _between(self, expectation: Expectation) -> Iterator[Stated]:
        between = expectation.between
        assert between is not None
        if between.min is None:
            words = f"is at most {between.max}"
        elif between.max is None:
            words = f"is at least {between.min}"
        else:
            words = f"is between {between.min} and {between.max}"
        bounds = {"min_value": between.min, "max_value": between.max}
        yield _about(between.column, words, gxe.ExpectColumnValuesToBeBetween, expectation, **bounds)

    def _in_set(self, expectation: Expectation) -> Iterator[Stated]:
        in_set = expectation.in_set
        assert in_set is not None
        words = f"is one of {', '.join(map(str, in_set.values))}"
        values = list(in_set.values)
        yield _about(in_set.column, words, gxe.ExpectColumnValuesToBeInSet, expectation, value_set=values)

    def _matches(self, expectation: Expectation) -> Iterator[Stated]:
        matches = expectation.matches
        assert matches is not None
        words = f"matches {matches.regex}"
        yield _about(matches.column, words, gxe.ExpectColumnValuesToMatchRegex, expectation, regex=matches.regex)

    def _references(self, expectation: Expectation) -> Iterator[Stated]:
        references = expectation.references
        assert references is not None
        schema, table = references.relation.split(".", 1)
        column, key = sql.Identifier(references.column), sql.Identifier(references.key)
        shown = dict.fromkeys([*self._columns.event_id, references.column])
        known = sql.SQL("NOT EXISTS (SELECT FROM {} AS r WHERE r.{} = f.{})").format(
            sql.Identifier(schema, table), key, column
        )
        allowed = [sql.SQL("f.{} <> {}").format(column, sql.Literal(value)) for value in references.besides]
        orphans = sql.SQL("SELECT {} FROM {{facts}} AS f WHERE f.{} IS NOT NULL AND {}").format(
            sql.SQL(", ").join(sql.SQL("f.{}").format(sql.Identifier(name)) for name in shown),
            column,
            sql.SQL(" AND ").join([known, *allowed]),
        )
        words = f"{references.column} is in {references.relation} ({references.key})"
        rows = orphans.as_string(self._connection)
        yield self._few_rows(words, rows, expectation, column=references.column)

    def _sql(self, expectation: Expectation) -> Iterator[Stated]:
        assert expectation.sql is not None
        yield self._few_rows(expectation.sql.name, expectation.sql.rows, expectation)

    def _freshness(self, expectation: Expectation) -> Iterator[Stated]:
        assert expectation.freshness is not None
        target = expectation.freshness.p99
        late = late_facts(self._pipeline, self._window, target).as_string(self._connection)
        words = f"{FRESH_SHARE:.0%} of the facts could be read within {target.total_seconds():g} s of their event"
        fresh = ExpectFewUnexpectedRows(
            rows=late, mostly=FRESH_SHARE, element_count=self._window.streamed, weight="late", description=words
        )
        yield Stated(words, (), fresh)

    def _row_conservation(self, expectation: Expectation) -> Iterator[Stated]:
        facts = self._window.facts
        if self._columns.accumulates:
            yield self._conservation_of_all()
        elif self._window.exact:
            counted = gxe.ExpectTableRowCountToEqual(value=facts)
            yield Stated(f"row conservation: there are {facts:,} facts, as the ledger says", (), counted)
        else:
            counted = gxe.ExpectTableRowCountToBeBetween(min_value=facts)
            yield Stated(f"row conservation: there are at least {facts:,} facts, as the ledger says", (), counted)

    def _conservation_of_all(self) -> Stated:
        """Of facts that are filled in: which load made one is not known any more, but how many there are is.

        A load that is still at work has made some of those that have its number, and filled in the others.
        """
        facts, table = self._window.in_all, self._columns.table
        words = f"row conservation: there are {facts:,} facts in all, as the ledger says"
        number = sql.Identifier(self._columns.batch_no) if self._columns.batch_no else sql.SQL("NULL::bigint")
        counted = sql.SQL(
            "SELECT count(*) AS there, count(*) FILTER (WHERE {} = ANY ({}::bigint[])) AS at_work FROM {}"
        ).format(number, sql.Literal(list(self._window.open)), table)
        least = "there" if self._columns.batch_no or not self._window.open else "0"
        rows = sql.SQL(
            "SELECT there, {facts} AS by_the_ledger, greatest({facts} - there, {least} - at_work - {facts}) AS facts "
            "FROM ({counted}) AS c WHERE greatest({facts} - there, {least} - at_work - {facts}) > 0"
        ).format(facts=sql.Literal(facts), counted=counted, least=sql.SQL(least))
        few = ExpectFewUnexpectedRows(
            rows=rows.as_string(self._connection), element_count=facts, weight="facts", description=words
        )
        return Stated(words, (), few)

    def _completeness(self, expectation: Expectation) -> Iterator[Stated]:
        """Nothing is stated where no load has a sketch: they are of former versions."""
        if self._columns.batch_no is None:
            raise SchemaMismatchError(
                f"completeness can't be told of {self._pipeline}: its fact table has no column that gets _batch_no. "
                "Add one, or take completeness out of validation.expectations."
            )
        found = check_completeness(self._connection, self._pipeline, self._columns, self._selection)
        if found is None:
            return
        words = f"completeness: each of {found.ids:,} event ids that arrived is stored, once, as a fact or held"
        if found.left_out:
            words += f" ({found.left_out:,} loads are left out: they are open, or of a former version)"
        wrong = [sql.SQL("({}::bigint, {}::text)").format(*map(sql.Literal, each)) for each in found.wrong]
        rows = sql.SQL("SELECT * FROM (VALUES {}) AS wrong (ids, what) WHERE ids > 0").format(sql.SQL(", ").join(wrong))
        few = ExpectFewUnexpectedRows(
            rows=rows.as_string(self._connection), element_count=found.ids, weight="ids", description=words
        )
        yield Stated(words, (), few)

    def _few_rows(self, words: str, rows: str, expectation: Expectation, column: str | None = None) -> Stated:
        words = _mostly(words, expectation)
        query = f"WITH freshet_facts AS NOT MATERIALIZED ({self.facts}) {_in_subquery(rows)}"
        # Great Expectations takes a description for HTML.
        few = ExpectFewUnexpectedRows(rows=query, column=column, mostly=expectation.mostly, description=escape(words))
        return Stated(words, () if column is None else (column,), few)


def _in_subquery(rows: str) -> str:
    """The query, which may have a WITH of its own, as one that can follow ours."""
    return f"SELECT * FROM ({rows.replace(FACTS, 'freshet_facts')}\n) AS unexpected"


def _about(column: str, words: str, kind: type[GreatExpectation], expectation: Expectation, **arguments: Any) -> Stated:
    great = kind(column=column, mostly=expectation.mostly, **arguments)
    return Stated(_mostly(f"{column} {words}", expectation), (column,), great)


def _mostly(words: str, expectation: Expectation) -> str:
    return words if expectation.mostly == 1 else f"{words} (for {expectation.mostly:.2%} of the facts)"
