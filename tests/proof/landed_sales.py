"""A pipeline whose landing, ledger and warehouse are made by hand: what a proof is made of, one piece at a time."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
from psycopg2 import sql
from rich.console import Console

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.fates import FATES
from spark_jobs.definition.kinds.files import landing_folder
from spark_jobs.definition.stream_tuple import RECORD, EventColumns
from spark_jobs.loading.payload import payloads
from spark_jobs.lookup.changes.triggers import watch_relations
from spark_jobs.proof.proof import Proof
from spark_jobs.proof.verification import verify
from spark_jobs.settings import Home
from spark_jobs.source.files.names import unit_of

TABLES = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.customer (id bigint PRIMARY KEY, sk bigint NOT NULL, city text);
    INSERT INTO shop.customer VALUES (1, 11, 'Ulm'), (2, 12, NULL), (3, 13, 'Köln');
    CREATE TABLE shop.fact_sales (
        sale_id bigint PRIMARY KEY, customer_sk bigint, city text, price numeric(10, 2), weight double precision,
        note text, sold_at timestamptz
    );
"""
MOMENT = "2024-05-01T10:20:30.123456Z"


def sales_definition(folder: Path, **changes: Any) -> dict[str, Any]:
    """The pipeline `sales` as its YAML says it; `changes` replace whole sections."""
    return {
        "name": "sales",
        "source": {
            "format": "json",
            "path": str(folder / "landing"),
            "schema": "sale_id bigint, customer bigint, price decimal(12,2), weight double, note string, "
            "sold_at timestamp",
            "event_id": ["sale_id"],
            "event_time": "sold_at",
        },
        "lookups": [
            {"relation": "shop.customer", "on": {"customer": "id"}, "fetch": {"customer_sk": "sk", "city": "city"}}
        ],
        "fact": {
            "table": "shop.fact_sales",
            "columns": {
                "sale_id": "sale_id",
                "customer_sk": "customer_sk",
                "city": "city",
                "price": "price",
                "weight": "weight",
                "note": "note",
                "sold_at": "sold_at",
            },
        },
        **changes,
    }


def sale(sale_id: int | None, **values: Any) -> dict[str, Any]:
    """An event."""
    plain = {"customer": 1, "price": 1.5, "weight": 2.5, "note": "a note", "sold_at": MOMENT}
    return {"sale_id": sale_id, **plain, **values}


class LandedSales:
    """One pipeline with its landing folder, its ledger and the rest of its warehouse."""

    def __init__(self, folder: Path, url: str, tables: str = TABLES, **changes: Any) -> None:
        self.definition = PipelineDefinition.model_validate(sales_definition(folder, **changes))
        self.home = Home(folder / "home")
        self.landing = landing_folder(self.definition.source, self.home)
        self.landing.mkdir()
        self.url = url
        self._files = 0
        self._landed: dict[str, tuple[str, bytes]] = {}
        self.execute(tables)
        self.execute("INSERT INTO freshet.pipeline VALUES (%s, 1, 'running', '5 s', '{}')", self.definition.name)

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

    def clear(self) -> None:
        """Forget all that has landed and all that is stored."""
        for path in self.landing.iterdir():
            path.unlink()
        self._files = 0
        self._landed.clear()
        self.execute(
            sql.SQL("TRUNCATE {}, freshet.held_tuple, freshet.batch, freshet.source_range CASCADE").format(
                sql.Identifier(*self.definition.fact.table.split("."))
            )
        )

    def land(
        self,
        *records: dict[str, Any] | bytes,
        file: str | None = None,
        pending: bool = False,
        modified: float | None = None,
    ) -> Path:
        """Let a file of JSON lines land; a batch has loaded it unless it is pending.

        Args:
            records: its lines.
            file: its name.
            pending: nothing of it is loaded.
            modified: when it was changed last, in s since 1970; default: now.
        """
        lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
        path = self.landing / (file or f"part-{self._files}.json")
        self._files += 1
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        if modified is not None:
            os.utime(path, (modified, modified))
        for record, line in zip(records, lines, strict=True):
            if isinstance(record, dict):
                event_id = json.dumps([record[name] for name in self.definition.source.event_id], separators=(",", ":"))
                self._landed[event_id] = (path.name, line)
            self._landed[digest_id(line)] = (path.name, line)
        if lines and not pending:
            self.load(path)
        return path

    def load(
        self,
        path: Path,
        first: int = 0,
        last: int | None = None,
        *,
        state: str = "loaded",
        records: int | None = None,
        batch_no: int | None = None,
        reason: str | None = None,
    ) -> None:
        """Enter a range of a file into the ledger; by default the whole file, as loaded."""
        found = path.stat()
        self.execute(
            "INSERT INTO freshet.source_range (pipeline, batch_no, unit, first, last, size, modified_ns, state, "
            "records, reason) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            self.definition.name, batch_no, unit_of(path.name), first, found.st_size if last is None else last,
            found.st_size, found.st_mtime_ns, state, records, reason,
        )  # fmt: skip

    def watch(self) -> None:
        """Let changes of the relations be noted from now on."""
        connection = psycopg2.connect(self.url)
        outcomes = watch_relations(connection, self.definition.lookups)
        connection.close()
        assert all(outcome.refusal is None for outcome in outcomes.values())

    def store(self, **columns: Any) -> None:
        """Store a fact, and count it in the ledger."""
        self.execute(
            sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                sql.Identifier(*self.definition.fact.table.split(".")),
                sql.SQL(", ").join(map(sql.Identifier, columns)),
                sql.SQL(", ").join(map(sql.Literal, columns.values())),
            )
        )
        self.book(facts=1)

    def store_sale(self, sale_id: int, **columns: Any) -> None:
        """Store the fact that `sale(sale_id)` should become, but for these columns."""
        right = {"customer_sk": 11, "city": "Ulm", "price": "1.50", "weight": 2.5, "note": "a note", "sold_at": MOMENT}
        self.store(sale_id=sale_id, **{**right, **columns})

    def hold(
        self,
        event_id: str,
        fate: str,
        payload: bytes | None = None,
        *,
        reason: str = "a reason",
        encoding: str | None = None,
        unit: str | None = None,
        batch_no: int | None = None,
    ) -> None:
        """Hold an event, and count it in the ledger.

        Args:
            event_id: its id.
            fate: its name.
            payload: default: the landed record that has the id.
            reason: why.
            encoding: default: as the loader writes it.
            unit: the file that it came in; default: that of the landed record, if there is one.
            batch_no: default: a batch of its own.
        """
        number = batch_no if batch_no is not None else self.book(**{str(FATES[fate].place): 1})
        landed_in, landed = self._landed.get(event_id, (None, b"{}"))
        record = landed if payload is None else payload
        kept = payloads(
            pa.table({"": [0], RECORD: pa.array([record], pa.binary())}),
            EventColumns(self.definition.name, (), "", (), self.definition.source.record_format.held_as),
        )
        self.execute(
            "INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, fate, reason, payload, "
            "payload_encoding, source_unit, arrived_at, batch_no) "
            "VALUES (%s, %s, 0, %s, %s, %s, %s, %s, %s, now(), %s)",
            self.definition.name, event_id, FATES[fate].place, fate, reason, kept.texts[0].as_py(),
            encoding or kept.encodings[0].as_py(), unit or landed_in, number,
        )  # fmt: skip

    def hold_raw(self, record: bytes) -> None:
        """Reject a record that could not be decoded."""
        self.hold(digest_id(record), "malformed", record, reason="malformed: it is")

    def book(self, *, state: str = "committed", **counts: int) -> int:
        """Enter a batch into the ledger."""
        names = ["facts", "shed", "unmatched", "rejected", "duplicates"]
        values = [counts.get(name, 0) for name in names]
        with psycopg2.connect(self.url) as connection, connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO freshet.batch (pipeline, epoch, state, arrived, {', '.join(names)}) "
                "VALUES (%s, 1, %s, %s, %s, %s, %s, %s, %s) RETURNING batch_no",
                [self.definition.name, state, counts.get("arrived", sum(values)), *values],
            )
            row = cursor.fetchone()
        connection.close()
        assert row is not None
        return int(row[0])

    def verify(self) -> Proof:
        return verify(self.definition, self.url, self.home)

    def differences(self) -> dict[str, tuple[str, ...]]:
        """The examples of every difference, by kind."""
        return {difference.kind: difference.examples for difference in self.verify().differences}


def balance(proof: Proof) -> dict[str, int]:
    """The rows of the printed proof that are a sum, by their first words; checks that they sum up."""
    console = Console(width=160)
    with console.capture() as capture:
        console.print(proof.render())
    rows: dict[str, int] = {}
    for line in capture.get().splitlines():
        if found := re.match(r"([-+=]? ?[a-z ]+?) +(-?[\d,]+)( |$)", line):
            rows[found[1]] = int(found[2].replace(",", ""))
    signs = {"-": -1, "+": 1, "l": 1}
    before = list(rows)[: list(rows).index("stored")]
    assert sum(signs[name[0]] * rows[name] for name in before) == rows["stored"], rows
    places = [name for name in rows if name[0] in "=+" and name not in before]
    assert sum(rows[name] for name in places) == rows["stored"], rows
    return rows


def digest_id(record: bytes) -> str:
    """The id under which a record without a usable event id is held."""
    return f'{{"sha256":"{hashlib.sha256(record).hexdigest()}"}}'


def ids(examples: Iterable[str]) -> list[str]:
    """The event ids that examples start with."""
    return [example.split(" ")[0] for example in examples]
