"""Checks that the expectations of a pipeline's definition fit its fact table's columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.problems import Problem, path_of, suggestion
from spark_jobs.definition.validation import Between, Expectation
from spark_jobs.warehouse.event_columns import BATCH_NO

if TYPE_CHECKING:
    from spark_jobs.definition import Fact, Source

_TIMES = {"date", "timestamp"}
_NUMBERS = {"bigint", "int", "smallint", "tinyint", "decimal", "double", "float"}


def expectation_problems(
    expectations: Sequence[Expectation | None], fact: Fact, source: Source | None
) -> Iterator[Problem]:
    """Problems between the expectations and the fact; None stands for one that is wrong in itself."""
    for position, expectation in enumerate(expectations):
        if expectation is None:
            continue
        key = path_of("validation", "expectations", position, expectation.kind)
        for name in expectation.columns:
            if name not in fact.columns:
                columns = f"Columns: {', '.join(fact.columns)}."
                text = f"{name!r} is not a column of fact.columns.{suggestion(name, fact.columns)} {columns}"
                yield Problem(key, text)
        kind = None if source is None else _kind_of(expectation, fact, source)
        if kind is None:
            continue
        if expectation.between is not None:
            yield from _between_problems(key, expectation.between, kind)
        elif expectation.matches is not None and kind.name != "string":
            column = expectation.matches.column
            yield Problem(key, f"column {column!r} is of type {kind}. Allowed: string; a pattern is matched with text.")


def _kind_of(expectation: Expectation, fact: Fact, source: Source) -> StreamType | None:
    """Type of the column that it is about; None if there is not one, or the warehouse alone knows its type."""
    if len(expectation.columns) != 1:
        return None
    origin = fact.columns.get(expectation.columns[0], "")
    return StreamType("bigint") if origin == BATCH_NO else source.columns.get(origin)


def _between_problems(key: str, between: Between, kind: StreamType) -> Iterator[Problem]:
    if kind.name not in _TIMES | _NUMBERS:
        yield Problem(key, f"column {between.column!r} is of type {kind}. Allowed: numbers, dates and timestamps.")
    elif between.of_times != (kind.name in _TIMES):
        wanted = "a date or time" if kind.name in _TIMES else "a number"
        yield Problem(key, f"column {between.column!r} is of type {kind}; write {wanted} as min and max.")
