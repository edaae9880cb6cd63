"""A small shop whose sales are loaded: a pipeline definition, its tables, its events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg2
import yaml

from tests.kafka_broker import Topic

TABLES = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.customer (id bigint PRIMARY KEY, sk bigint NOT NULL, city text);
    INSERT INTO shop.customer SELECT id, id * 7 + 1, 'city ' || id % 10 FROM generate_series(1, 2000) id;
    CREATE TABLE shop.article (code text, size integer, sk bigint NOT NULL, PRIMARY KEY (code, size));
    INSERT INTO shop.article SELECT 'article-' || n % 100, n / 100, n * 3 + 5 FROM generate_series(0, 999) n;
    CREATE TABLE shop.fact_sales (
        sale_id bigint PRIMARY KEY, customer_sk bigint NOT NULL, city text, amount numeric(10, 2), sold_at timestamptz
    );
"""


def sales_definition(folder: Path, **changes: Any) -> dict[str, Any]:
    """The pipeline `sales` as its YAML says it; `changes` replace whole sections."""
    return {
        "name": "sales",
        "source": {
            "format": "json",
            "path": str(folder / "landing"),
            "schema": "sale_id bigint, customer bigint, amount decimal(12,2), sold_at timestamp",
            "event_id": ["sale_id"],
            "event_time": "sold_at",
        },
        "lookups": [
            {
                "relation": "shop.customer",
                "on": {"customer": "id"},
                "fetch": {"customer_sk": "sk", "city": "city"},
                "algorithm": "cached_hybrid_join",
                "memory": "300KB",  # R has several pages then, and each task owns some of them
                "on_unmatched": "hold",
            }
        ],
        "fact": {
            "table": "shop.fact_sales",
            "columns": {
                "sale_id": "sale_id",
                "customer_sk": "customer_sk",
                "city": "city",
                "amount": "amount",
                "sold_at": "sold_at",
            },
        },
        "freshness": {"target": "5s"},
        "shedding": {"policy": "off"},
        **changes,
    }


def from_topic(definition: dict[str, Any], topic: Topic, **kafka: Any) -> dict[str, Any]:
    """A pipeline's definition, with a topic for its landing folder."""
    source = {name: value for name, value in definition["source"].items() if name != "path"}
    source["kafka"] = {"servers": topic.servers, "topic": topic.name} | kafka
    return {**definition, "source": source}


def write_definition(folder: Path, definition: dict[str, Any]) -> Path:
    """Write a pipeline's YAML into `folder`/pipelines, and make its landing folder, where it has one."""
    path = folder / "pipelines" / f"{definition['name']}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(definition, sort_keys=False))
    if "path" in definition["source"]:
        Path(definition["source"]["path"]).mkdir(parents=True, exist_ok=True)
    return path


def sale(number: int, **changes: Any) -> dict[str, Any]:
    """One event."""
    return {
        "sale_id": number,
        "customer": number * 37 % 2000 + 1,
        "amount": f"{number % 1000}.25",
        "sold_at": "2026-03-01T10:00:00.123456Z",
        **changes,
    }


def land(folder: Path, name: str, records: Iterable[dict[str, Any] | bytes]) -> None:
    """Let a JSON lines file arrive, at once and whole."""
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    hidden = folder / "landing" / f".{name}"
    hidden.write_bytes(b"\n".join(lines) + b"\n")
    hidden.rename(folder / "landing" / f"{name}.json")


def query(url: str, text: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    """All rows of a query; nothing for other statements."""
    connection = psycopg2.connect(url)
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(text, parameters)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()
