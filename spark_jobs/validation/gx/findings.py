"""Great Expectations' results as findings: in words, with counts and examples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)

from spark_jobs.validation.gx.suite import MOST_EXAMPLES, Stated
from spark_jobs.validation.report import Finding

_LONGEST_EXAMPLE = 200


def findings_of(result: ExpectationSuiteValidationResult, stated: Sequence[Stated]) -> list[Finding]:
    """One finding for each expectation, in the order in which they were stated."""
    by_number = {each.expectation_config.meta["number"]: each for each in result.results}
    return [_finding(by_number[number], each) for number, each in enumerate(stated)]


def _finding(result: ExpectationValidationResult, stated: Stated) -> Finding:
    error = _error(result.exception_info)
    if error is not None:
        return Finding(stated.words, stated.columns, False, message=f"{stated.words}: {error}", error=error)
    details = result.result
    # Of columns that are not unique together it shows the values alone, without the event ids.
    listed = details.get("partial_unexpected_index_list") or details.get("partial_unexpected_list") or ()
    examples = [each for each in listed if isinstance(each, dict)][:MOST_EXAMPLES]
    unexpected = details.get("unexpected_count")
    passed = bool(result.success)
    if "observed_value" in details:
        found = details["observed_value"]
        message = None if passed else f"{stated.words}: there are {found:,}."
        return Finding(stated.words, stated.columns, passed, message=message)
    message = None
    if not passed:
        message = f"{stated.words}: not so for {unexpected:,} of {details['element_count']:,} facts, {_told(examples)}"
    return Finding(stated.words, stated.columns, passed, unexpected, examples, message)


def _told(examples: Sequence[dict[str, Any]]) -> str:
    rows = [", ".join(f"{name} {value}" for name, value in row.items()) for row in examples]
    return "for example " + "; ".join(row[:_LONGEST_EXAMPLE] for row in rows) + "."


def _error(info: dict[str, Any]) -> str | None:
    """The first line that PostgreSQL or Great Expectations says about what it could not do; None if it could."""
    for each in _exceptions(info):
        if each.get("raised_exception"):
            lines = str(each.get("exception_message")).strip().splitlines() or ["no reason was given"]
            return re.sub(r"^\(psycopg2\.errors\.(\w+)\) ", r"\1: ", lines[0])
    return None


def _exceptions(info: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "raised_exception" in info:
        yield info
    else:  # by metric
        yield from info.values()
