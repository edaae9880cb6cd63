"""A back task's tuples are settled parcel by parcel: how they are cut, and into how many joins, makes no difference."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import psycopg2
import pyarrow as pa
import pytest

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.stream_tuple import ARRIVED_AT, POSITION, RANGE, RECORD
from spark_jobs.driver.checks import check_tables
from spark_jobs.joins.semi_stream.theory.batch_choice import AccessCosts
from spark_jobs.loading.outcome import Outcome
from spark_jobs.lookup.hot_keys.publishing import FrontStagePlan, MappedBroadcast, unique_name
from spark_jobs.lookup.planning.lookup_plan import LookupPlan, OwnedPages
from spark_jobs.lookup.relation.back_stage_join import pages_scanned
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.stages import exchange
from spark_jobs.stages.back_task import back_task
from spark_jobs.stages.batch_context import BatchContext, TaskReport
from spark_jobs.stages.exchange import MISSING, packed, page_column, unpacked, with_pages
from spark_jobs.stages.warm_up import WarmUp, WarmUpTransaction

TUPLES = 60
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = """
    CREATE TABLE r (key text PRIMARY KEY, value integer);
    INSERT INTO r SELECT 'k' || n, n FROM generate_series(0, 19) n;
    CREATE TABLE fact (id bigint PRIMARY KEY, first integer, second integer);
"""


@dataclass(frozen=True)
class Kept(WarmUp):
    """Keeps what would be loaded."""

    parts: list[Outcome] = field(default_factory=list)

    def transaction(self, part: Outcome) -> WarmUpTransaction:
        self.parts.append(part)
        return super().transaction(part)


@pytest.fixture(scope="module")
def context(postgres_database: str) -> BatchContext:
    definition = PipelineDefinition.model_validate(
        {
            "name": "looked_up_twice",
            "source": {
                "format": "json",
                "path": "/landing",
                "schema": "id bigint, at timestamp, a string, b string",
                "event_id": ["id"],
                "event_time": "at",
            },
            "freshness": {"target": "5s"},
            "lookups": [
                {"relation": "public.r", "on": {"a": "key"}, "fetch": {"first": "value"}},
                {"relation": "public.r", "on": {"b": "key"}, "fetch": {"second": "value"}},
            ],
            "fact": {"table": "public.fact", "columns": {"id": "id", "first": "first", "second": "second"}},
        }
    )
    with closing(psycopg2.connect(postgres_database)) as connection:
        connection.autocommit = True
        connection.cursor().execute(TABLES)
        tables = check_tables(connection, definition)
    plans = tuple(
        LookupPlan(number, spec, "auto", True, "hold", {}, 1 << 20, None, None)
        for number, spec in enumerate(tables.relations)
    )
    fronts = tuple(FrontStagePlan(None, 100, True) for _ in plans)
    return BatchContext(postgres_database, Kept(tables.event, tables.fact), 2, plans, fronts, None)


def waiting() -> pa.Table:
    """Of three tuples one lacks both lookups, one the first, one the second; keys from k20 are not in R."""
    numbers = np.arange(TUPLES)
    missing = np.array([3, 1, 2])[numbers % 3]
    return pa.table(
        {
            "id": numbers,
            "at": pa.repeat(pa.scalar(NOW, pa.timestamp("us", "UTC")), TUPLES),
            "a": [f"k{n % 22}" for n in numbers],
            "b": [f"k{n % 7}" for n in numbers],
            ARRIVED_AT: pa.repeat(pa.scalar(NOW, pa.timestamp("us", "UTC")), TUPLES),
            RECORD: pa.nulls(TUPLES, pa.binary()),
            RANGE: pa.nulls(TUPLES, pa.int32()),
            POSITION: numbers,
            "first": pa.nulls(TUPLES, pa.int32()),
            "second": pa.nulls(TUPLES, pa.int32()),
            MISSING: missing.astype(np.int64),
            page_column(0): np.where(missing & 1, numbers % 22, -1),
            page_column(1): np.where(missing & 2, numbers % 7, -1),
        }
    )


@pytest.mark.parametrize(
    ("rows", "key_bytes", "joins"), [(TUPLES, 1 << 20, 1), (7, 1 << 20, 1), (7, 60, 9), (1, 1, 41)]
)
def test_each_tuple_is_settled_once_however_they_are_cut(
    context: BatchContext, monkeypatch: pytest.MonkeyPatch, rows: int, key_bytes: int, joins: int
) -> None:
    monkeypatch.setattr(exchange, "_MOST_KEY_BYTES", key_bytes)
    monkeypatch.setattr(exchange, "_MOST_PARCEL_BYTES", 2_000)  # so that most are put aside
    destination = context.destination
    assert isinstance(destination, Kept)
    kept = replace(destination, parts=[])
    tuples, reports = waiting(), list[TaskReport]()
    parcels = [packed(0, tuples.slice(start, rows)).tuples for start in range(0, TUPLES, rows)]
    assert len(list(exchange.in_joins(parcels, context.lookups[0]))) == joins
    left = list(back_task(replace(context, destination=kept), 0, parcels, reports.append))

    absent = {n for n in range(TUPLES) if n % 3 != 2 and n % 22 >= 20}
    facts = {row["id"]: row["first"] for part in kept.parts if part.facts is not None for row in part.facts.to_pylist()}
    assert facts == {n: n % 22 for n in range(TUPLES) if n % 3 == 1 and n not in absent}
    held = [
        (group.fate.place, number)
        for part in kept.parts
        for group in part.held
        for number in group.tuples["id"].to_pylist()
    ]
    assert sorted(held) == [("unmatched", n) for n in sorted(absent)]
    further = [row for parcel in left for row in unpacked(parcel.tuples).to_pylist()]
    assert {row["id"]: (row["first"], row[MISSING]) for row in further} == {
        n: (None if n % 3 == 2 else n % 22, 2) for n in range(TUPLES) if n % 3 != 1 and n not in absent
    }
    (report,) = reports
    assert report.counts["asked"] == sum(n % 3 != 2 for n in range(TUPLES))
    assert report.counts["unmatched"] == len(absent)
    assert report.offers is not None
    assert report.offers[1].sum() == report.counts["asked"] - len(absent)


@pytest.mark.parametrize(
    ("scan_seconds", "chosen", "asked"), [(1e-9, "mesh_join", 1), (10.0, "hybrid_join", 0)], ids=["cheap", "dear"]
)
def test_how_often_r_would_be_scanned_is_asked_only_where_one_scan_would_be_quickest(
    context: BatchContext, monkeypatch: pytest.MonkeyPatch, scan_seconds: float, chosen: str, asked: int
) -> None:
    first, second = context.lookups
    relation = LiveRelation.open(context.warehouse_url, first.spec, page_rows=1)
    spark: Any = SimpleNamespace(broadcast=lambda value: SimpleNamespace(value=value))
    pages = MappedBroadcast.publish(
        spark, unique_name("pages"), 0, OwnedPages(relation.pages, relation.pages.ranges(1))
    )
    paged = replace(first, pages=pages, costs=AccessCosts(1e-6, 1.0, 1.0, scan_seconds))
    context = replace(context, lookups=(paged, second), parts=1)
    calls = []
    monkeypatch.setattr(
        "spark_jobs.lookup.back_stage.pages_scanned", lambda *of: calls.append(of) or pages_scanned(*of)
    )
    tuples, reports = waiting().drop_columns([page_column(0), page_column(1)]), list[TaskReport]()
    parcel = packed(0, with_pages(tuples, [plan.spec.stream_keys(tuples) for plan in context.lookups], context))
    list(back_task(context, 0, [parcel.tuples], reports.append))
    assert [(report.algorithm, report.counts["unmatched"]) for report in reports] == [(chosen, 3)]
    assert len(calls) == asked
    assert [report.reason is not None and "(mesh_join)" in report.reason for report in reports] == [False]
