"""A pipeline in a test warehouse: makes its tables, loads batches into it, and checks what must always hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from types import MappingProxyType, SimpleNamespace
from typing import Any

import psycopg2
import pyarrow as pa

from spark_jobs.columns.event_id import event_id_texts
from spark_jobs.control import drivers
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition.fates import FATES, MALFORMED, PLACES, Place
from spark_jobs.definition.shapes import OneStream
from spark_jobs.definition.stream_tuple import ARRIVED_AT, RECORD, EventColumns, LoadCounts
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.source_ranges import RangeEnd, SourceRange
from spark_jobs.loading import loader
from spark_jobs.loading.loader import Loader
from spark_jobs.loading.outcome import Held, Outcome
from spark_jobs.loading.stream_batch import StreamBatch
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.fact_table_check import describe_fact_table
from tests.waiting import wait_for

TIME = pa.timestamp("us", tz="UTC")
ORDERS = "CREATE TABLE warehouse.fact (id bigint PRIMARY KEY, amount numeric(9, 2) NOT NULL, note varchar(10))"
ORDER_TYPES = {"id": pa.int64(), "amount": pa.decimal128(15, 2), "note": pa.string(), "at": TIME}


def definition(table: str, columns: Mapping[str, str], event_id: Sequence[str], name: str = "orders") -> Any:
    """The parts of a PipelineDefinition that the warehouse looks at."""
    return SimpleNamespace(
        name=name,
        shape=OneStream(SimpleNamespace()),
        tuples=SimpleNamespace(event_id=tuple(event_id), event_time="at"),
        fact=SimpleNamespace(table=table, columns=dict(columns), on_refused="block"),
    )


def wait_for_waiters(url: str, count: int = 1) -> None:
    """Return once this many sessions of the database wait for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with closing(psycopg2.connect(url)) as watcher, watcher.cursor() as cursor:
        watcher.autocommit = True

        def enough() -> bool:
            cursor.execute(waiting)
            return cursor.fetchone()[0] >= count

        wait_for(enough, f"{count} sessions that wait for a lock")


class Stream:
    """A registered pipeline with its fact table.

    Args:
        url: an empty, migrated warehouse.
        ddl: creates the fact table.
        types: stream tuple's column -> arrow type; all but `at` become fact columns of the same name.
        event_id: the event id's columns.
        table: the fact table that the DDL creates.
    """

    def __init__(
        self,
        url: str,
        ddl: str = ORDERS,
        types: Mapping[str, pa.DataType] = ORDER_TYPES,
        event_id: Sequence[str] = ("id",),
        table: str = "warehouse.fact",
    ) -> None:
        loader._sessions.__dict__.pop("by_owner", None)  # what they remember is of another test's warehouse
        self.url = url
        self.types = {**types, "at": TIME}
        self.connection = psycopg2.connect(url)
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(ddl)
        register_pipeline(self.connection, "orders", timedelta(seconds=5), "{}")
        self.epoch = drivers.take_over(self.connection, "orders", log_file=None)
        columns = {name: name for name in types if name != "at"}
        self.fact: FactTable = describe_fact_table(self.connection, definition(table, columns, event_id), self.types)
        self.event = EventColumns("orders", tuple(event_id), "at", tuple(self.types), "json")
        self._files = itertools.count()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def tuples(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Stream tuples; `at` is now and `_record` is null unless a row says otherwise."""
        now = datetime.now(UTC)
        columns = {name: pa.array([row.get(name, now if name == "at" else None) for row in rows], kind)
                   for name, kind in self.types.items()}  # fmt: skip
        records = pa.array([row.get(RECORD) for row in rows], pa.binary())
        return pa.table({**columns, ARRIVED_AT: pa.array([now] * len(rows), TIME), RECORD: records})

    def malformed(self, *records: bytes) -> Outcome:
        """An outcome of records that could not be decoded."""
        tuples = self.tuples([{RECORD: record} for record in records])
        return Outcome(None, [Held(MALFORMED, "malformed", None, tuples, identified=False)])

    def orders(self, ids: Sequence[int], **values: Any) -> pa.Table:
        """Orders with these ids."""
        return self.tuples([{"id": number, "amount": 1, **values} for number in ids])

    def facts(self, ids: Sequence[int]) -> Outcome:
        """An outcome of orders that are facts."""
        return Outcome(self.orders(ids))

    def held(self, ids: Sequence[int], place: Place = "shed", reason: str = "no time") -> Outcome:
        """An outcome of orders that are held."""
        return Outcome(None, [Held(FATES[place], reason, "master.customer", self.orders(ids))])

    def open(self, ranges: int = 1) -> int:
        """Open the next batch, of as many files."""
        files = [SourceRange(f"file-{next(self._files)}", 0, 100, 100, 10**18, kind="files") for _ in range(ranges)]
        return batch_ledger.open_batch(self.connection, "orders", self.epoch, files)

    def resume(self) -> list[batch_ledger.OpenBatch]:
        """Become a new driver, and go on with what is open."""
        self.epoch = drivers.take_over(self.connection, "orders", log_file=None)
        return batch_ledger.take_open_batches(self.connection, "orders", self.epoch, self.fact)

    def close_batch(
        self, batch_no: int, arrived: int | None = None, statistics: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Close a batch of one file, with as many records as its parts have tuples, unless `arrived` says otherwise."""
        if arrived is None:
            [(arrived,)] = self.query(
                "SELECT coalesce(sum(facts + shed + unmatched + rejected + duplicates), 0)::bigint "
                "FROM freshet.batch_part WHERE batch_no = %s",
                [batch_no],
            )
        batch_ledger.close_batch(self.connection, batch_no, [RangeEnd(arrived)], statistics, self.fact)

    def loader(self, batch_no: int, *, careful: bool = False, patience: timedelta = timedelta(seconds=60)) -> Loader:
        """A task's loader."""
        batch = StreamBatch(self.event, self.fact, self.epoch, batch_no, careful)
        return Loader(self.url, batch, patience=patience)

    @contextmanager
    def batch(self, *, careful: bool = False) -> Iterator[Loader]:
        """A batch of one task; it is closed at the end of the block."""
        batch_no = self.open()
        yield self.loader(batch_no, careful=careful)
        self.close_batch(batch_no)

    def load(self, *outcomes: Outcome, careful: bool = False) -> LoadCounts:
        """Load outcomes as one batch."""
        counts = LoadCounts()
        with self.batch(careful=careful) as loader:
            for outcome in outcomes:
                counts += loader.load(outcome)
        return counts

    def query(self, query: str, arguments: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a query, or none."""
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(query, arguments)
            return cursor.fetchall() if cursor.description else []

    def fact_ids(self) -> list[int]:
        """Ids of all facts, ascending."""
        return [number for (number,) in self.query("SELECT id FROM warehouse.fact ORDER BY id")]

    def held_reasons(self) -> dict[str, str]:
        """Event id -> reason of the held tuples."""
        return dict(self.query("SELECT event_id, reason FROM freshet.held_tuple"))  # type: ignore[arg-type]

    def check(self) -> None:
        """What holds whenever no batch is open: the ledger equals the tables, and no event id stands in two places."""
        counts = ", ".join(f"coalesce(sum({name}), 0)::bigint" for name in ("facts", *PLACES))
        (ledger_counts,) = self.query(f"SELECT {counts} FROM freshet.batch")
        (facts,) = self.query(f"SELECT count(*) FROM {self.fact.schema}.{self.fact.table}")
        placed = dict(self.query("SELECT place, count(*) FROM freshet.held_tuple GROUP BY place"))  # type: ignore[arg-type]
        assert ledger_counts == (*facts, *(placed.get(place, 0) for place in PLACES))
        (latencies,) = self.query(
            "SELECT coalesce(sum((SELECT sum(n) FROM unnest(event_latency) n)), 0)::bigint FROM freshet.batch"
        )
        assert latencies == facts
        assert self.query("SELECT count(*) FROM freshet.batch_part") == [(0,)]
        assert not self._fact_texts() & {text for (text,) in self.query("SELECT event_id FROM freshet.held_tuple")}

    def _fact_texts(self) -> set[str]:
        key = self.fact.key
        columns = ", ".join(f'"{column.name}"' for column in key)
        rows = self.query(f"SELECT {columns} FROM {self.fact.schema}.{self.fact.table}")
        table = pa.table({c.source: pa.array([row[k] for row in rows], c.source_type) for k, c in enumerate(key)})
        return set(event_id_texts(table, key).to_pylist())
