"""The parts of a definition that say how a pipeline is operated, and what its facts must be like."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from spark_jobs.definition.fields import Count, Duration, Kept, LedgerKept, Part, Share, TableName, Word, finite
from spark_jobs.definition.problems import shown

Kind = Literal[
    "not_null",
    "unique",
    "between",
    "in_set",
    "matches",
    "references",
    "row_conservation",
    "completeness",
    "freshness",
    "sql",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
FACTS = "{facts}"
"""Stands for the validated facts in the query of an `sql` expectation."""
Value = Annotated[bool | int | float | str, BeforeValidator(finite)]
Columns = Annotated[tuple[Word, ...], Field(min_length=1)]


class Freshness(Part):
    """How soon an event is to be a fact; the time budget of a batch follows from it.

    Attributes:
        target: 99 of 100 facts are to be this fresh.
        grace: an alert is raised when the target has been missed for this long.
    """

    target: Duration = Field(default=timedelta(seconds=5), examples=["target: 5s"])
    grace: Duration = Field(default=timedelta(minutes=1), examples=["grace: 1m"])


class Shedding(Part):
    """What is done under overload: shed the costliest tuples (`considered`), or let all get late (`off`)."""

    policy: Literal["considered", "off"] = Field(default="considered", examples=["policy: considered"])


class Reprocessing(Part):
    """How shed tuples are loaded later, and unmatched ones tried again.

    Attributes:
        limit: tuples that one run takes at most.
        most_attempts: a tuple is rejected after this many attempts.
        first_pause: an unmatched tuple is tried again after this time, then after twice that, and so on; after a
            quarter of the pause, and 32 times this at most, where its relation is known to have changed.
    """

    limit: Count = Field(default=1_000_000, examples=["limit: 1000000"])
    most_attempts: Count = Field(default=12, examples=["most_attempts: 12"])
    first_pause: Duration = Field(default=timedelta(minutes=1), examples=["first_pause: 1m"])


class Retention(Part):
    """How long the warehouse keeps what is no fact; null: for ever.

    Attributes:
        ledger: batches, reprocessing runs, validations, drivers, alerts and noted changes of master data. Their
            sums are kept. No less than a day, of which the page shows the freshness.
        rejected: rejected tuples.
        unmatched: unmatched tuples that are still unmatched.
        shed: shed tuples that were not reprocessed.
    """

    ledger: LedgerKept | None = Field(default=timedelta(days=30), examples=["ledger: 30d"])
    rejected: Kept | None = Field(default=timedelta(days=90), examples=["rejected: 90d"])
    unmatched: Kept | None = Field(default=None, examples=["unmatched: 90d"])
    shed: Kept | None = Field(default=None, examples=["shed: 90d"])


def _bound(value: Any) -> Any:
    """A number; or a date or time, which YAML gives as text."""
    if isinstance(value, str):
        try:
            return date.fromisoformat(value) if len(value) == len("2026-01-31") else datetime.fromisoformat(value)
        except ValueError:
            pass
    elif isinstance(value, int | float | date) and not isinstance(value, bool):
        return finite(value)
    example = "for example 0.5, 2026-01-31 or 2026-01-31T12:00:00Z"
    raise ValueError(f"{shown(value)} is neither a number nor a date or time; write {example}.")


def _rows(text: str) -> str:
    query = text.strip().removesuffix(";")
    if FACTS not in query:
        raise ValueError(f"{shown(text)} does not read {FACTS}, which stands for the validated facts.")
    if not re.match(r"(select|with)\b", query, re.IGNORECASE):
        raise ValueError(f"{shown(text)} is no query. Write SELECT ... FROM {FACTS} WHERE what must not be.")
    return query


def _comparable(bound: float | date) -> Any:
    """A bound as one that can be compared with any of its kind: a day is its first moment, in UTC."""
    if not isinstance(bound, date):
        return bound
    moment = bound if isinstance(bound, datetime) else datetime.combine(bound, time())
    return moment.replace(tzinfo=moment.tzinfo or UTC)


Bound = Annotated[int | float | datetime | date | None, BeforeValidator(lambda v: v if v is None else _bound(v))]


class Between(Part):
    """Values of a column lie between two bounds, which are allowed themselves; one may be left out."""

    column: Word = Field(examples=["column: total_price"])
    min: Bound = Field(default=None, examples=["min: 0"])
    max: Bound = Field(default=None, examples=["max: 1000000"])

    @model_validator(mode="after")
    def _check_bounds(self) -> Between:
        if self.min is None and self.max is None:
            raise ValueError("has neither min nor max; give at least one of them.")
        kinds = {isinstance(bound, date) for bound in (self.min, self.max) if bound is not None}
        if len(kinds) > 1:
            raise ValueError("has a number for one bound and a time for the other; write two of one kind.")
        if self.min is not None and self.max is not None and _comparable(self.min) > _comparable(self.max):
            raise ValueError(f"min {self.min} is above max {self.max}: no value lies between them; exchange them.")
        return self

    @property
    def of_times(self) -> bool:
        """Whether the bounds are dates or times; else they are numbers."""
        return isinstance(self.min, date) or isinstance(self.max, date)


class InSet(Part):
    """A column has no other values than these."""

    column: Word = Field(examples=["column: order_status"])
    values: tuple[Value, ...] = Field(min_length=1, examples=["values: [O, F, P]"])


class Matches(Part):
    """Texts of a column match a regular expression, PostgreSQL's kind, anywhere unless that has ^ or $."""

    column: Word = Field(examples=["column: clerk"])
    regex: str = Field(examples=['regex: "^Clerk#"'])


class References(Part):
    """Values of a column are values of a column of another table.

    Attributes:
        column: of the fact table.
        relation: the table, schema.table.
        key: its column.
        besides: values that need not be there, such as the default of a lookup.
    """

    column: Word = Field(examples=["column: customer_sk"])
    relation: TableName = Field(examples=["relation: master.customer"])
    key: Word = Field(examples=["key: customer_sk"])
    besides: tuple[Value, ...] = Field(default=(), examples=["besides: [-1]"])


class FreshWithin(Part):
    """The time after which 99 of 100 facts could be read, from their event on. Reprocessed facts don't count."""

    p99: Duration = Field(examples=["p99: 5s"])


class Sql(Part):
    """A query that finds no rows.

    Attributes:
        name: how messages call it.
        rows: the query; `{facts}` stands for the validated facts.
    """

    name: Word = Field(examples=["name: priced"])
    rows: Annotated[str, AfterValidator(_rows)] = Field(examples=[f'rows: "SELECT * FROM {FACTS} WHERE price < cost"'])


class Expectation(Part):
    """One thing that facts must be; one of the kinds, and `mostly`. Nulls are fine, but for `not_null`.

    Attributes:
        not_null: columns without nulls.
        unique: columns that together tell the validated facts apart.
        row_conservation: the fact table holds as many facts as the ledger says.
        completeness: the event ids that arrived are stored, each once; told by sketches.
        mostly: the share of the facts that must be so.
    """

    not_null: Columns | None = Field(default=None, examples=["not_null: [order_key]"])
    unique: Columns | None = Field(default=None, examples=["unique: [order_key]"])
    between: Between | None = Field(default=None, examples=["between: {column: total_price, min: 0}"])
    in_set: InSet | None = Field(default=None, examples=["in_set: {column: order_status, values: [O, F, P]}"])
    matches: Matches | None = Field(default=None, examples=['matches: {column: clerk, regex: "^Clerk#"}'])
    references: References | None = Field(
        default=None, examples=["references: {column: customer_sk, relation: master.customer, key: customer_sk}"]
    )
    row_conservation: Literal[True] | None = Field(default=None, examples=["row_conservation: true"])
    completeness: Literal[True] | None = Field(default=None, examples=["completeness: true"])
    freshness: FreshWithin | None = Field(default=None, examples=["freshness: {p99: 5s}"])
    sql: Sql | None = Field(default=None, examples=[f"sql: {{name: priced, rows: SELECT * FROM {FACTS} WHERE ...}}"])
    mostly: Share = Field(default=1.0, examples=["mostly: 0.99"])

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, content: Any) -> Any:
        """`row_conservation` alone may stand for `row_conservation: true`, and so may `completeness`."""
        return {content: True} if content in ("row_conservation", "completeness") else content

    @model_validator(mode="after")
    def _check_kind(self) -> Expectation:
        kinds = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            found = f"has {' and '.join(kinds)}" if kinds else "says nothing"
            raise ValueError(f"{found}; write one of {', '.join(KINDS)}.")
        if self.mostly < 1 and self.kind in {"row_conservation", "completeness", "freshness"}:
            raise ValueError(f"mostly: {self.mostly} says nothing about {self.kind}; take it out.")
        return self

    @property
    def kind(self) -> Kind:
        """Which of the kinds it is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the fact table that it names."""
        part = getattr(self, self.kind)
        if isinstance(part, tuple):
            return part
        return (part.column,) if hasattr(part, "column") else ()


class Validation(Part):
    """When loaded facts are validated, and by which expectations.

    Attributes:
        every: facts are validated this long after they were loaded, at the latest, while the stream runs.
        defaults: whether the expectations that follow from the pipeline itself are checked too.
        expectations: further ones.
    """

    every: Duration = Field(default=timedelta(minutes=5), examples=["every: 5m"])
    defaults: bool = Field(default=True, examples=["defaults: true"])
    expectations: tuple[Expectation, ...] = Field(default=(), examples=["expectations: [{not_null: [order_key]}]"])
