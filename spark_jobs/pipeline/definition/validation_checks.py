"""Checks that the expectations of a pipeline's definition fit its fact table's columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from spark_jobs.pipeline.definition.ddl import StreamType
from spark_jobs.pipeline.definition.problems import Problem, path_of, suggestion
from spark_jobs.pipeline.definition.validation import Between, Expectation

if TYPE_CHECKING:
    from spark_jobs.pipeline.definition import Fact, Source

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
        if expectation.between is not None and source is not None:
            yield from _between_problems(key, expectation.between, fact, source.columns)


def _between_problems(key: str, between: Between, fact: Fact, columns: Mapping[str, StreamType]) -> Iterator[Problem]:
    kind = columns.get(fact.columns.get(between.column, ""))
    if kind is None:
        return  # a fetched column: its type is known to the warehouse only
    if kind.name not in _TIMES | _NUMBERS:
        yield Problem(key, f"column {between.column!r} is of type {kind}. Allowed: numbers, dates and timestamps.")
    elif between.of_times != (kind.name in _TIMES):
        wanted = "a date or time" if kind.name in _TIMES else "a number"
        yield Problem(key, f"column {between.column!r} is of type {kind}; write {wanted} as min and max.")
