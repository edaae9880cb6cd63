"""A shop whose orders are paid: two streams, their pipeline, and the plain join of what has landed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from spark_jobs.definition import load_definition
from spark_jobs.definition.fates import FATES
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.settings import Home
from tests.kafka_broker import Topic
from tests.spark.shop import query

TABLES = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.customer (id bigint PRIMARY KEY, sk bigint NOT NULL);
    INSERT INTO shop.customer SELECT id, id * 7 + 1 FROM generate_series(1, 500) id;
    CREATE TABLE shop.fact_paid (
        order_id bigint NOT NULL, payment_id bigint NOT NULL, shipment_id bigint NOT NULL DEFAULT 0, customer_sk bigint,
        amount numeric(10, 2), paid_at timestamptz, completed_at timestamptz, PRIMARY KEY (order_id, payment_id)
    );
    CREATE TABLE shop.fact_outer (
        joined_id text PRIMARY KEY, order_id bigint, payment_id bigint, customer_sk bigint, amount numeric(10, 2),
        completed_at timestamptz NOT NULL
    );
    CREATE TABLE shop.fact_shipped (
        order_id bigint, payment_id bigint, shipment_id bigint, PRIMARY KEY (order_id, payment_id, shipment_id)
    );
"""
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMAS = {
    "orders": ("order_id bigint, customer bigint, n_payments int, ordered_at timestamp", "order_id", "ordered_at"),
    "payments": (
        "payment_id bigint, order_id bigint, amount decimal(10,2), is_last boolean, paid_at timestamp",
        "payment_id",
        "paid_at",
    ),
    "shipments": ("shipment_id bigint, order_id bigint, shipped_at timestamp", "shipment_id", "shipped_at"),
}


def moment(minutes: float) -> str:
    """A time so long after noon, as records have it."""
    return (NOON + timedelta(minutes=minutes)).isoformat()


def order(number: int, minutes: float = 0, **changes: Any) -> dict[str, Any]:
    return {"order_id": number, "customer": number % 500 + 1, "ordered_at": moment(minutes)} | changes


def payment(number: int, order_id: int | None, minutes: float = 0, **changes: Any) -> dict[str, Any]:
    return {"payment_id": number, "order_id": order_id, "amount": "1.50", "paid_at": moment(minutes)} | changes


def shipment(number: int, order_id: int, minutes: float = 0) -> dict[str, Any]:
    return {"shipment_id": number, "order_id": order_id, "shipped_at": moment(minutes)}


class CorrelatedShop:
    """Loads the pipeline `paid` in one warehouse and home.

    Args:
        folder: for its files.
        url: of the warehouse.
        spark: runs the tasks; None: drivers of their own do.
    """

    def __init__(self, folder: Path, url: str, spark: Any = None) -> None:
        self.folder, self.url, self.spark = folder, url, spark
        self.home = Home(folder / "home")
        self._landed = 0

    def define(
        self,
        streams: Iterable[str] = ("orders", "payments"),
        topics: Mapping[str, Topic] = MappingProxyType({}),
        **join: Any,
    ) -> None:
        """Write the pipeline's file; `lookups` apart, what is given is of its `join`. Topics stand for folders."""
        self._topics = topics
        names = list(streams)
        lookups = join.pop("lookups", [])
        ids = {SCHEMAS[name][1]: f"{name}.{SCHEMAS[name][1]}" for name in names}
        columns = ids | ({} if "shipments" in names else {"amount": "payments.amount", "completed_at": "_completed_at"})
        if lookups:
            columns |= {"customer_sk": "customer_sk"}
        table = "shop.fact_shipped" if "shipments" in names else "shop.fact_paid"
        if "emit" in str(join.get("expired")):
            table, columns = "shop.fact_outer", {"joined_id": "_joined_id"} | columns
        definition = {
            "name": "paid",
            "streams": {
                name: {
                    "format": "json",
                    **self._where(name),
                    "schema": SCHEMAS[name][0],
                    "event_id": [SCHEMAS[name][1]],
                    "event_time": SCHEMAS[name][2],
                }
                for name in names
            },
            "join": {"on": dict.fromkeys(names, "order_id"), "window": "2h", "allowed_lateness": "10m"} | join,
            "lookups": lookups,
            "fact": {"table": table, "columns": columns},
            "shedding": {"policy": "off"},
        }
        self.path = self.folder / "pipelines" / "paid.yaml"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(yaml.safe_dump(definition, sort_keys=False))
        for name in names:
            (self.folder / "landing" / name).mkdir(parents=True, exist_ok=True)

    def _where(self, stream: str) -> dict[str, Any]:
        topic = self._topics.get(stream)
        if topic is None:
            return {"path": str(self.folder / "landing" / stream)}
        return {"kafka": {"servers": topic.servers, "topic": topic.name}}

    def land(self, stream: str, records: Iterable[dict[str, Any] | bytes]) -> None:
        """Let a file of a stream arrive, at once and whole; or its records, spread over the partitions of its topic."""
        self._landed += 1
        lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
        if stream in self._topics:
            topic = self._topics[stream]
            partitions = topic.answering()
            for number in range(partitions):
                topic.send(lines[number::partitions], partition=number)
            return
        path = self.folder / "landing" / stream / f"part-{self._landed:04}.json"
        hidden = path.with_name(f".{path.name}")
        hidden.write_bytes(b"\n".join(lines) + b"\n")
        hidden.rename(path)

    def load(self) -> None:
        """Load all that has landed."""
        StreamJob(load_definition(self.path), self.home, self.url).run(self.spark, once=True, resume=True)

    def facts(self) -> set[tuple[Any, ...]]:
        """Ids of the facts."""
        return set(query(self.url, "SELECT order_id, payment_id FROM shop.fact_paid"))

    def held(self) -> dict[str, tuple[str, str]]:
        """Place and reason of what is held, by event id."""
        rows = query(self.url, "SELECT event_id, place, reason FROM freshet.held_tuple")
        return {event_id: (place, reason) for event_id, place, reason in rows}

    def law(self) -> dict[str, dict[str, int]]:
        """Sums of each stream's counts over all batches, what waits after the last one; checked to add up."""
        rows = query(
            self.url,
            """
            WITH committed AS (SELECT batch_no FROM freshet.batch WHERE state = 'committed')
            SELECT stream, fate, sum(tuples)::int FROM freshet.batch_fate JOIN committed USING (batch_no)
            WHERE fate <> 'waiting' OR batch_no = (SELECT max(batch_no) FROM committed) GROUP BY stream, fate
            UNION ALL
            SELECT stream, 'arrived', sum(arrived)::int
            FROM freshet.batch_stream JOIN committed USING (batch_no) GROUP BY stream
            """,
        )
        names = ("arrived", "duplicates", "rejected", "late", "joined", "expired", "waiting")
        law: dict[str, dict[str, int]] = {}
        for stream, fate, tuples in rows:
            share = str(FATES[fate].share) if fate in FATES and fate not in ("late", "after_last") else fate
            if share != "None":
                counts = law.setdefault(stream, dict.fromkeys(names, 0))
                counts[share] = counts.get(share, 0) + tuples
        for stream, counts in law.items():
            arrived = counts["arrived"]
            assert arrived == sum(counts.values()) - arrived, f"{stream}: {counts}"
        return law
