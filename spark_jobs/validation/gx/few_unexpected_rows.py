"""An expectation of Great Expectations: a query finds no rows, or few."""

from __future__ import annotations

from typing import Any, ClassVar

from great_expectations.execution_engine import SqlAlchemyExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation

MOST_EXAMPLES = 3


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
        (found,) = _read(execution_engine, f"SELECT coalesce(sum({weight}), 0)::bigint AS rows FROM ({self.rows}) AS u")
        unexpected = found["rows"]
        examples = []
        if unexpected:
            examples = _read(execution_engine, f"SELECT * FROM ({self.rows}) AS u LIMIT {MOST_EXAMPLES}")
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


def _read(engine: SqlAlchemyExecutionEngine, query: str) -> list[dict[str, Any]]:
    with engine.get_connection() as connection:
        # Straight to PostgreSQL: a colon or a percent sign in somebody's query means nothing to us.
        cursor = connection.exec_driver_sql(query, execution_options={"no_parameters": True})
        return [dict(row._mapping) for row in cursor]
