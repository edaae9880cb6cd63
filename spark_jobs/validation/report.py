"""What came of a validation, in words and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from spark_jobs.shown_text import shown_line

Result = Literal["passed", "failed", "no data", "error"]


@dataclass(frozen=True)
class Finding:
    """What came of one expectation.

    Attributes:
        expectation: in words.
        columns: that it is about.
        passed: whether the facts are so.
        unexpected: facts that are not; None where they can't be counted.
        examples: a few of them: column -> value.
        message: what is wrong; None where nothing is.
        error: why it could not be checked at all; None where it could.
    """

    expectation: str
    columns: tuple[str, ...]
    passed: bool
    unexpected: int | None = None
    examples: list[dict[str, Any]] = field(default_factory=list)
    message: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Report:
    """What came of a validation.

    Attributes:
        pipeline: its name.
        validation_id: its number; None where the warehouse does not know the pipeline.
        result: passed, failed (at least one expectation), no data (nothing to look at), error (an expectation could
            not be checked).
        scope: which facts were looked at, in words.
        facts: how many they are.
        findings: one for each expectation.
        error: why it came to no result.
        page: Data Docs page, relative to the pipeline's folder of them.
    """

    pipeline: str
    validation_id: int | None
    result: Result
    scope: str
    facts: int = 0
    findings: tuple[Finding, ...] = ()
    error: str | None = None
    page: str | None = None

    @property
    def failures(self) -> list[str]:
        """What is wrong, one text for each expectation that failed."""
        return [finding.message or finding.expectation for finding in self.findings if not finding.passed]

    @property
    def message(self) -> str:
        """What came of it: the first line says it all, the others what is wrong."""
        about = f"{self.pipeline}, {self.scope}"
        if self.result == "no data":
            return f"No data: no facts of {about}."
        if self.result == "error":
            return f"The facts of {about} could not be validated: {self.error}"
        if self.result == "passed":
            return f"{self.facts:,} facts of {about}: all {len(self.findings)} expectations are met."
        count = f"{len(self.failures)} of {len(self.findings)} expectations failed"
        failures = (f"- {shown_line(text)}" for text in self.failures)
        return "\n".join([f"{self.facts:,} facts of {about}: {count}.", *failures])

    def to_json(self) -> dict[str, Any]:
        """Plain values, for JSON; examples may hold times and decimals."""
        return {
            "pipeline": self.pipeline,
            "validation_id": self.validation_id,
            "result": self.result,
            "scope": self.scope,
            "facts": self.facts,
            "expectations": len(self.findings),
            "failed": len(self.failures),
            "failures": self.failures,
            "error": self.error,
            "page": self.page,
            "message": self.message,
            "findings": [
                {"expectation": each.expectation, "columns": list(each.columns), "passed": each.passed,
                 "unexpected": each.unexpected, "examples": each.examples, "message": each.message}
                for each in self.findings
            ],
        }  # fmt: skip
