"""A pipeline whose facts accumulate, in a test warehouse: loads batches of parts, and checks what must always hold."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import psycopg2
import pyarrow as pa

from spark_jobs.control import drivers
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.shapes import AccumulatedStreams
from spark_jobs.definition.stream_tuple import ARRIVED_AT, POSITION, RANGE, RECORD, LoadCounts
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.source_ranges import RangeEnd, SourceRange
from spark_jobs.loading.accumulation.accumulating_batch import AccumulatingBatch
from spark_jobs.loading.accumulation.arrived_parts import ArrivedParts
from spark_jobs.loading.accumulation.closing import settle_held_parts
from spark_jobs.loading.accumulation.parts import of_joined_tuple
from spark_jobs.loading.loader import Loader
from spark_jobs.source.held_records import HeldRecords
from spark_jobs.source.records.formats import decode_records
from spark_jobs.source.records.record_decoder import RecordDecoder
from spark_jobs.warehouse.fact_table_check import describe_fact_table
from spark_jobs.warehouse.part_table import AccumulatingTable

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)
ORDERS, PAYMENTS, SHIPMENTS = "orders", "payments", "shipments"
DDL = """
    CREATE TABLE warehouse.fulfilment (
        order_id bigint PRIMARY KEY, customer text NOT NULL, payment_id text, amount numeric(9, 2), shipment_id bigint,
        shipped_at timestamptz, changed_at timestamptz NOT NULL, batch_no bigint NOT NULL
    )
"""


def stream(schema: str, event_id: str) -> dict[str, Any]:
    """The source of a stream; `at` is its event time."""
    return {
        "format": "json",
        "path": f"/landing/{event_id}",
        "schema": f"{schema}, at timestamp",
        "event_id": [event_id],
        "event_time": "at",
    }


FULFILMENT: dict[str, Any] = {
    "name": "fulfilment",
    "streams": {
        ORDERS: stream("order_id bigint, customer string", "order_id"),
        PAYMENTS: stream("payment_id string, order_id bigint, amount decimal(9,2)", "payment_id"),
        SHIPMENTS: stream("shipment_id bigint, order_id bigint", "shipment_id"),
    },
    "accumulate": {"on": {ORDERS: "order_id", PAYMENTS: "order_id", SHIPMENTS: "order_id"}},
    "fact": {
        "table": "warehouse.fulfilment",
        "columns": {
            "order_id": "orders.order_id",
            "customer": "orders.customer",
            "payment_id": "payments.payment_id",
            "amount": "payments.amount",
            "shipment_id": "shipments.shipment_id",
            "shipped_at": "shipments.at",
            "changed_at": "_completed_at",
            "batch_no": "_batch_no",
        },
    },
}


class Part(NamedTuple):
    """An event of a stream."""

    stream: str
    values: Mapping[str, Any]


def order(number: int, **values: Any) -> Part:
    """An order."""
    return Part(ORDERS, {"order_id": number, "customer": f"c{number}", "at": AT.isoformat(), **values})


def payment(name: str, of: int | None, **values: Any) -> Part:
    """A payment of an order."""
    later = AT + timedelta(minutes=5)
    return Part(PAYMENTS, {"payment_id": name, "order_id": of, "amount": 1.25, "at": later.isoformat(), **values})


def shipment(number: int, of: int | None, **values: Any) -> Part:
    """A shipment of an order."""
    later = AT + timedelta(hours=1)
    return Part(SHIPMENTS, {"shipment_id": number, "order_id": of, "at": later.isoformat(), **values})


class Accumulating:
    """A registered pipeline with its fact table.

    Args:
        url: an empty, migrated warehouse.
        ddl: creates the fact table.
        content: the pipeline's definition.
    """

    def __init__(self, url: str, ddl: str = DDL, content: Mapping[str, Any] = FULFILMENT) -> None:
        self.url = url
        self.definition = PipelineDefinition.model_validate(content)
        self.name = self.definition.name
        self.connection = psycopg2.connect(url)
        self.query(ddl)
        register_pipeline(self.connection, self.name, timedelta(seconds=5), "{}")
        self.epoch = drivers.take_over(self.connection, self.name, log_file=None)
        self.event = self.definition.tuples.event(self.name)
        self.describe()
        self.counts: dict[str, np.ndarray] = {}  # stream -> parts joined, waiting and rejected, by the ledger
        self._files, self._positions = itertools.count(), itertools.count()

    def describe(self) -> None:
        """Look at the fact table, as a driver does when it starts."""
        types = {name: kind.arrow() for name, kind in self.definition.tuples.columns.items()}
        fact = describe_fact_table(self.connection, self.definition, types)
        assert isinstance(self.definition.shape, AccumulatedStreams)
        self.table = AccumulatingTable.of(self.definition, self.definition.shape, fact)
        decoders = {name: RecordDecoder.of(source) for name, source in self.definition.streams.items()}
        self.read_back = HeldRecords.of_parts(decoders, self.table)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def query(self, query: str, arguments: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a query, or none."""
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(query, arguments)
            return cursor.fetchall() if cursor.description else []

    def arrived(self, parts: Sequence[Part]) -> ArrivedParts:
        """Parts as a task has them: decoded from their records."""
        tuples = {}
        for name, source in self.definition.streams.items():
            records = [json.dumps(part.values).encode() for part in parts if part.stream == name]
            if not records:
                continue
            decoded = decode_records(pa.array(records, pa.large_binary()), "json", source.columns)
            assert decoded.reasons.null_count == len(records), decoded.reasons
            now = pa.array([datetime.now(UTC)] * len(records), pa.timestamp("us", tz="UTC"))
            positions = pa.array([next(self._positions) for _ in records], pa.int64())
            tuples[name] = (
                decoded.tuples.append_column(ARRIVED_AT, now)
                .append_column(RECORD, pa.array(records, pa.binary()))
                .append_column(RANGE, pa.array([0] * len(records), pa.int32()))
                .append_column(POSITION, positions)
            )
        there = [part for part in self.table.parts if part.stream in tuples]
        return ArrivedParts({part.stream: of_joined_tuple(tuples[part.stream], part) for part in there})

    def open(self) -> int:
        """Open the next batch, of one file."""
        file = SourceRange(f"file-{next(self._files)}", 0, 100, 100, 10**18, kind="files")
        return batch_ledger.open_batch(self.connection, self.name, self.epoch, [file])

    def resume(self) -> int:
        """Become a new driver, and go on with the batch that is open."""
        self.epoch = drivers.take_over(self.connection, self.name, log_file=None)
        [batch] = batch_ledger.take_open_batches(self.connection, self.name, self.epoch, self.table.fact)
        return batch.batch_no

    def loader(self, batch_no: int, *, careful: bool = False) -> Loader:
        """A task's loader."""
        return Loader(self.url, self.destination(batch_no, careful=careful))

    def destination(self, batch_no: int, *, careful: bool = False) -> AccumulatingBatch:
        """An open batch."""
        batch = AccumulatingBatch(self.event, self.table, self.read_back, self.epoch, batch_no, careful)
        return replace(batch, units=("file",))

    def store(self, batch_no: int, parts: Sequence[Part], *, careful: bool = False) -> LoadCounts:
        """Load parts in one transaction of an open batch."""
        loader = self.loader(batch_no, careful=careful)
        return loader.store(self.destination(batch_no).placing(self.arrived(parts)))

    def end(self, batch_no: int, arrived: int) -> None:
        """Close a batch that has read so many events."""
        with self.connection, self.connection.cursor() as cursor:
            settle_held_parts(cursor, self.table, self.read_back, self.name, batch_no)
            cursor.execute(
                "SELECT stream, joined, shed + unmatched, rejected FROM freshet.batch_part WHERE batch_no = %s",
                [batch_no],
            )
            for stream, *counts in cursor.fetchall():
                self.counts[stream] = self.counts.get(stream, np.zeros(3, np.int64)) + counts
        batch_ledger.close_batch(self.connection, batch_no, [RangeEnd(arrived)], {}, self.table.fact)

    def load(self, *chunks: Sequence[Part], careful: bool = False) -> LoadCounts:
        """Load chunks as one batch, each in a transaction."""
        batch_no, counts = self.open(), LoadCounts()
        for chunk in chunks:
            counts += self.store(batch_no, chunk, careful=careful)
        self.end(batch_no, sum(map(len, chunks)))
        return counts

    def facts(self, columns: str = "order_id, payment_id, shipment_id") -> list[tuple[Any, ...]]:
        """Some columns of the facts, in the order of these."""
        return sorted(self.query(f"SELECT {columns} FROM {self.definition.fact.table}"), key=repr)

    def held(self) -> dict[str, str]:
        """Event id -> place of the held parts."""
        return dict(self.query("SELECT event_id, place FROM freshet.held_tuple"))  # type: ignore[arg-type]

    def reason(self, event_id: str) -> str:
        """Why a part is held."""
        [(reason,)] = self.query("SELECT reason FROM freshet.held_tuple WHERE event_id = %s", [event_id])
        return str(reason)
