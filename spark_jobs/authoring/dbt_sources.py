"""Fact tables as sources of dbt: what they are keyed by, and how fresh they have to be."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import yaml

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.stream_tuple import BATCH_NO

_MINUTE = timedelta(minutes=1)


def dbt_sources(definitions: Iterable[PipelineDefinition]) -> str:
    """A `sources.yml` of the fact tables of some pipelines, by schema.

    dbt tells freshness in minutes: a table is to be warned of when nothing has come for the target, and is in error
    after the grace as well. That is for streams that never pause; Freshet's own alerts tell a pause from a delay.
    """
    schemas: dict[str, list[dict[str, Any]]] = {}
    for definition in definitions:
        schema, _ = definition.fact.table.split(".", 1)
        schemas.setdefault(schema, []).append(_table(definition))
    sources = [{"name": schema, "schema": schema, "tables": tables} for schema, tables in schemas.items()]
    text: str = yaml.safe_dump({"version": 2, "sources": sources}, sort_keys=False, allow_unicode=True, width=120)
    return text


def _table(definition: PipelineDefinition) -> dict[str, Any]:
    _, table = definition.fact.table.split(".", 1)
    by_source = {origin: name for name, origin in definition.fact.columns.items()}
    key = [by_source[part] for part in definition.tuples.event_id]
    told: dict[str, Any] = {
        "name": table,
        "description": f"Facts of Freshet's pipeline {definition.name}, one for each {', '.join(key)}.",
    }
    if (event_time := by_source.get(definition.tuples.event_time)) is not None:
        target, grace = definition.freshness.target, definition.freshness.grace
        told["config"] = {
            "loaded_at_field": event_time,
            "freshness": {"warn_after": _minutes(target), "error_after": _minutes(target + grace)},
        }
    told["columns"] = [_column(name, origin, key) for name, origin in definition.fact.columns.items()]
    return told


def _column(name: str, origin: str, key: list[str]) -> dict[str, Any]:
    said = "Number of the load that stored the fact." if origin == BATCH_NO else f"From {origin}."
    column: dict[str, Any] = {"name": name, "description": said}
    if name in key:
        column["data_tests"] = ["not_null", "unique"] if len(key) == 1 else ["not_null"]
    return column


def _minutes(duration: timedelta) -> dict[str, Any]:
    return {"count": max(1, math.ceil(duration / _MINUTE)), "period": "minute"}
