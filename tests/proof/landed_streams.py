"""A pipeline of orders and payments whose landing, ledger, state and warehouse are made by hand."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
import yaml
from psycopg2 import sql

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.fates import FATES
from spark_jobs.definition.stream_tuple import ARRIVED_AT, RECORD, EventColumns
from spark_jobs.join_state.bucket import Bucket, BucketPlan, BucketStream
from spark_jobs.joins.stream_stream.windows import SlidingWindow
from spark_jobs.loading.payload import payloads
from spark_jobs.proof.proof import Proof
from spark_jobs.proof.verification import verify
from spark_jobs.settings import Home
from spark_jobs.source.records.formats import decode_records
from tests.proof.landed_sales import digest_id

TABLES = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.customer (id bigint PRIMARY KEY, sk bigint NOT NULL);
    INSERT INTO shop.customer VALUES (1, 11), (2, 12);
    CREATE TABLE shop.fact_paid (
        order_id bigint, payment_id bigint, customer_sk bigint, amount numeric(10, 2), completed_at timestamptz,
        PRIMARY KEY (order_id, payment_id)
    );
"""
STREAMS = """
    name: paid
    streams:
      orders: {format: json, path: "%(folder)s/orders", schema: "id bigint, customer bigint, at timestamp, note string",
               event_id: [id], event_time: at}
      payments: {format: json, path: "%(folder)s/payments", event_id: [id], event_time: at,
                 schema: "id bigint, order_id bigint, amount decimal(10,2), at timestamp"}
"""
DEFINITION = (
    STREAMS
    + """
    join: {"on": {orders: id, payments: order_id}, window: 2h}
    lookups: [{relation: shop.customer, "on": {orders.customer: id}, fetch: {customer_sk: sk}}]
    fact:
      table: shop.fact_paid
      columns: {order_id: orders.id, payment_id: payments.id, customer_sk: customer_sk, amount: payments.amount,
                completed_at: _completed_at}
"""
)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
_KEPT = ("shop.fact_paid", "freshet.held_tuple", "freshet.batch_stream", "freshet.batch_fate",
         "freshet.source_range")  # fmt: skip


def at(minutes: float) -> str:
    """A time so long after noon."""
    return (NOON + timedelta(minutes=minutes)).isoformat()


def order(number: int, minutes: float = 0, customer: int | None = 1) -> dict[str, Any]:
    return {"id": number, "customer": customer, "at": at(minutes), "note": "a note"}


def payment(number: int, order_id: int | None, minutes: float = 0) -> dict[str, Any]:
    return {"id": number, "order_id": order_id, "amount": "1.50", "at": at(minutes)}


class LandedStreams:
    """The pipeline `paid` with its landing folders, its state and its warehouse; all of it is one batch."""

    def __init__(self, folder: Path, url: str, tables: str = TABLES, definition: str = DEFINITION) -> None:
        self.url = url
        self.home = Home(folder / "home")
        self.content = yaml.safe_load(definition % {"folder": folder})
        self.definition = PipelineDefinition.model_validate(self.content)
        self.waiting: dict[str, Sequence[dict[str, Any]]] = {}
        for path in ("orders", "payments"):
            (folder / path).mkdir()
        self.execute(tables)
        self.execute("INSERT INTO freshet.pipeline VALUES ('paid', 1, 'running', '5 s', '{}')")
        [(self.batch_no,)] = self.rows(
            "INSERT INTO freshet.batch (pipeline, epoch, state) VALUES ('paid', 1, 'committed') RETURNING batch_no"
        )

    def execute(self, statement: str | sql.Composable, *arguments: Any) -> None:
        with psycopg2.connect(self.url) as connection, connection.cursor() as cursor:
            cursor.execute(statement, arguments or None)
        connection.close()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The result of a query."""
        with psycopg2.connect(self.url) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            rows = cursor.fetchall()
        connection.close()
        return rows

    def folder(self, stream: str) -> Path:
        """Where a stream's files land."""
        return Path(self.content["streams"][stream]["path"])

    def land(self, stream: str, file: str, *records: dict[str, Any] | bytes, pending: bool = False) -> Path:
        """Let a file arrive; the batch has loaded it unless it is pending."""
        lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
        path = self.folder(stream) / file
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        if not pending:
            found = path.stat()
            self.execute(
                "INSERT INTO freshet.source_range (pipeline, batch_no, unit, first, last, size, modified_ns, state, "
                "records) VALUES ('paid', %s, %s, 0, %s, %s, %s, 'loaded', %s)",
                self.batch_no, f"{stream}/{file}", found.st_size, found.st_size, found.st_mtime_ns, len(lines),
            )  # fmt: skip
        return path

    def store(self, order_id: int, payment_id: int, completed: float) -> None:
        """Store the fact of an order of customer 1 and a payment, the later one of which happened then."""
        values = (order_id, payment_id, at(completed))
        self.execute("INSERT INTO shop.fact_paid VALUES (%s, %s, 11, 1.5, %s)", *values)

    def hold(
        self, event_id: str, fate: str, reason: str, record: dict[str, Any] | bytes, unit: str | None = None
    ) -> None:
        """Hold a tuple, whose fate has this name."""
        line = record if isinstance(record, bytes) else json.dumps(record).encode()
        self.execute(
            "INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, fate, reason, payload, "
            "payload_encoding, source_unit, arrived_at, batch_no) "
            "VALUES ('paid', %s, 0, %s, %s, %s, %s, 'json', %s, now(), %s)",
            event_id, FATES[fate].place, fate, reason, line.decode(), unit, self.batch_no,
        )  # fmt: skip

    def hold_result(
        self,
        event_id: str | None,
        *parts: tuple[str, dict[str, Any]],
        fate: str = "unmatched",
        reason: str = "no customer",
    ) -> None:
        """Hold a joined tuple, under its digest if it has no usable id."""
        columns: dict[str, pa.Array] = {}
        for stream, record in parts:
            tuples = self._decoded(stream, [record])
            columns |= {f"{stream}.{name}": tuples[name] for name in tuples.column_names}
        columns["_completed_at"] = max(
            (columns[f"{stream}.at"] for stream, _ in parts), key=lambda time: time[0].as_py()
        )
        event = EventColumns("paid", (), "_completed_at", tuple(columns), "json")
        [text] = payloads(pa.table(columns), event).texts.to_pylist()
        self.hold(event_id or digest_id(text.encode()), fate, reason, text.encode())

    def hold_raw(self, stream: str, record: bytes, reason: str = "malformed: it is") -> None:
        """Reject a record that has no id."""
        self.hold(f"{stream}/{digest_id(record)}", "malformed", reason, record)

    def wait(self, stream: str, *records: dict[str, Any]) -> None:
        """Let these, and no others of the stream, wait in the state; each stream has a bucket of its own."""
        self.waiting[stream] = records
        number = list(self.content["streams"]).index(stream)
        folder = self.home.join_state("paid") / str(number)
        shutil.rmtree(folder, ignore_errors=True)
        tuples = self._decoded(stream, records)
        arrived = [None, None]
        arrived[number] = tuples.append_column(ARRIVED_AT, tuples["at"]).append_column(
            RECORD, pa.nulls(tuples.num_rows, pa.binary())
        )
        bucket = Bucket(self._plan(), folder, 0)
        for _ in bucket.take(arrived, [-(2**63)] * 2, [-(2**63)] * 2):
            pass
        bucket.checkpoint(self.batch_no)
        bucket.close()

    def tell(self, stream: str, reached: float, *, newest: str | None = None, arrived: int = 0, **fates: int) -> None:
        """Enter into the ledger how many events of a stream arrived, and how many came to which fate."""
        self.execute(
            "INSERT INTO freshet.batch_stream (batch_no, stream, reached, newest, arrived) VALUES (%s, %s, %s, %s, %s)",
            self.batch_no, stream, at(reached), newest, arrived,
        )  # fmt: skip
        for fate, number in fates.items():
            self.execute("INSERT INTO freshet.batch_fate VALUES (%s, %s, %s, %s)", self.batch_no, stream, fate, number)

    @contextmanager
    def spoilt(self, *statements: str) -> Iterator[None]:
        """While the block runs, these have changed the warehouse; then it is as before, and so is the state."""
        waiting, files = dict(self.waiting), {path: path.read_bytes() for path in self._files()}
        times = {path: path.stat().st_mtime_ns for path in files}
        for number, table in enumerate(_KEPT):
            self.execute(f"CREATE TABLE shop.kept_{number} AS SELECT * FROM {table}")
        try:
            for statement in statements:
                self.execute(statement)
            yield
        finally:
            for number, table in enumerate(_KEPT):
                self.execute(
                    f"DELETE FROM {table}; INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM shop.kept_{number}"
                )
                self.execute(f"DROP TABLE shop.kept_{number}")
            for path in [*self._files(), *files]:
                path.unlink(missing_ok=True)
            for path, text in files.items():
                path.write_bytes(text)
                os.utime(path, ns=(times[path],) * 2)
            for stream, records in waiting.items():
                self.wait(stream, *records)

    def _files(self) -> list[Path]:
        return [path for stream in self.content["streams"] for path in self.folder(stream).iterdir()]

    def verify(self, **join: Any) -> Proof:
        """The proof; of the pipeline with other settings of its join, if any are given."""
        definition = self.definition
        if join:
            changed = self.content | {"join": self.content["join"] | join}
            definition = PipelineDefinition.model_validate(changed)
        return verify(definition, self.url, self.home)

    def differences(self, **join: Any) -> dict[str, tuple[str, ...]]:
        """The examples of every difference, by kind."""
        return {difference.kind: difference.examples for difference in self.verify(**join).differences}

    def _decoded(self, stream: str, records: Sequence[dict[str, Any]]) -> pa.Table:
        lines = pa.array([json.dumps(record).encode() for record in records], pa.large_binary())
        return decode_records(lines, "json", self.definition.streams[stream].columns).tuples

    def _plan(self) -> BucketPlan:
        streams = (BucketStream("orders", ("id",), ("id",), "at"),
                   BucketStream("payments", ("order_id",), ("id",), "at"))  # fmt: skip
        return BucketPlan(streams, SlidingWindow(2 * 3600 * 10**6), "auto", 1 << 22)
