"""A pipeline of sales in a test warehouse, whose loads and facts are written as the stream would have left them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg2
import psycopg2.extras

from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import PipelineDefinition
from spark_jobs.ledger.latency import histogram
from spark_jobs.settings import Home
from spark_jobs.validation.report import Report
from spark_jobs.validation.selection import Selection
from spark_jobs.validation.validate import validate_facts

TABLES = """
    TRUNCATE freshet.pipeline CASCADE;
    DROP SCHEMA IF EXISTS shop CASCADE;
    CREATE SCHEMA shop;
    CREATE TABLE shop.article (code text PRIMARY KEY, article_sk bigint UNIQUE, colour text);
    INSERT INTO shop.article SELECT 'article ' || k, k, 'green' FROM generate_series(1, 100) AS k;
    CREATE TABLE shop.sale (
        sale_id bigint PRIMARY KEY, article_sk bigint, colour text, price numeric(9, 2), till text NOT NULL,
        day date, at timestamptz, batch_no bigint
    );
"""
COLUMNS = {"sale_id": "id", "article_sk": "sk", "colour": "tint", "price": "price", "till": "till", "day": "day"}
SOURCE = "id bigint, code string, price decimal(9,2), till string, day date, at timestamp"


class Sales:
    """The pipeline, its loads and its validations.

    Args:
        url: a migrated warehouse.
        folder: home of the installation.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.home = Home(folder)
        self.numbered = True
        self.timed = True
        self.connection = psycopg2.connect(url)
        self.connection.autocommit = True
        self.query(TABLES)
        register_pipeline(self.connection, "sales", timedelta(seconds=5), "{}")
        self.connection.autocommit = True
        self._sale = 0

    def definition(self, *expectations: Any, defaults: bool = False, **lookup: Any) -> PipelineDefinition:
        """The pipeline with these expectations."""
        columns = {**COLUMNS, **({"at": "at"} if self.timed else {})}
        if self.numbered:
            columns["batch_no"] = "_batch_no"
        return PipelineDefinition.model_validate(
            {
                "name": "sales",
                "source": {
                    "format": "json",
                    "path": "/landing/sales",
                    "schema": SOURCE,
                    "event_id": ["id"],
                    "event_time": "at",
                },
                "lookups": [
                    {
                        "relation": "shop.article",
                        "on": {"code": "code"},
                        "fetch": {"sk": "article_sk", "tint": "colour"},
                        **lookup,
                    }
                ],
                "fact": {"table": "shop.sale", "columns": columns},
                "validation": {"defaults": defaults, "expectations": list(expectations)},
            }
        )

    def query(self, query: str, arguments: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a query, or none."""
        with self.connection.cursor() as cursor:
            cursor.execute(query, arguments)
            return cursor.fetchall() if cursor.description else []

    def sales(self, count: int, **values: Any) -> list[dict[str, Any]]:
        """New sales, sound unless a value says otherwise."""
        sound = {"article_sk": 1, "colour": "green", "price": 1, "till": "till 1", "day": "2026-05-01"}
        first, self._sale = self._sale + 1, self._sale + count
        times = {"at": datetime.now(UTC) - timedelta(seconds=1)}
        return [{"sale_id": number, **sound, **times, **values} for number in range(first, first + count)]

    def load(
        self,
        sales: Sequence[Mapping[str, Any]],
        *,
        run: bool = False,
        open_: bool = False,
        counted: int | None = None,
        latency: timedelta = timedelta(seconds=1),
    ) -> int:
        """Load sales as one batch, or as one reprocessing run.

        Args:
            sales: the facts.
            run: a reprocessing run instead of a batch.
            open_: it is still at work.
            counted: facts that the ledger counts, if not those that are there.
            latency: of every fact.

        Returns:
            the load's number.
        """
        facts = len(sales) if counted is None else counted
        latencies = histogram(np.full(len(sales), int(latency / timedelta(microseconds=1)))).tolist()
        if run:
            table, columns = "reprocessing_run", "algorithm, places, tuple_limit"
            values: list[Any] = ["auto", ["shed"], 100, "running" if open_ else "finished"]
        else:
            table, columns = "batch", "epoch"
            values = [1, "started" if open_ else "committed"]
        marks = ", ".join(["%s"] * (len(values) + 2))
        ((number,),) = self.query(
            f"INSERT INTO freshet.{table} ({columns}, state, facts, event_latency, pipeline, closed_at) VALUES "
            f"({marks}, 'sales', {'NULL' if open_ else 'clock_timestamp()'}) RETURNING batch_no",
            [*values, 0 if open_ else facts, latencies],
        )
        if sales:
            names = list(sales[0])
            with self.connection.cursor() as cursor:
                psycopg2.extras.execute_values(
                    cursor,
                    f"INSERT INTO shop.sale ({', '.join(names)}, batch_no) VALUES %s",
                    [(*sale.values(), number if self.numbered else None) for sale in sales],
                )
        return number

    def validate(self, definition: PipelineDefinition, **selection: Any) -> Report:
        """Validate facts: those that are new, unless the selection says otherwise."""
        return validate_facts(definition, self.url, self.home, Selection(**selection))

    def check(self, *expectations: Any) -> Report:
        """Validate everything by these expectations alone."""
        return self.validate(self.definition(*expectations), what="everything")

    def validated_by(self) -> dict[int, int | None]:
        """Load -> the validation that has looked at it."""
        return dict(
            self.query(
                "SELECT batch_no, validation_id FROM freshet.batch UNION ALL "
                "SELECT batch_no, validation_id FROM freshet.reprocessing_run"
            )
        )  # type: ignore[arg-type]

    def close(self) -> None:
        """Close the connection."""
        with closing(self.connection):
            pass
