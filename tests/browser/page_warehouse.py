"""The warehouse that the page shows, filled by the functions that fill every warehouse."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import psycopg2
from psycopg2 import extensions, sql

from spark_jobs.control import driver_requests, drivers
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition.fates import FATES, Place
from spark_jobs.ledger.unread import Unread
from spark_jobs.loading.outcome import Held, Outcome
from spark_jobs.validation import records
from spark_jobs.validation.report import Finding, Report
from tests.loading.stream import Stream
from tests.loading_warehouse import RESET

_PAGE_SESSIONS = "FROM pg_stat_activity WHERE application_name = 'freshet page' AND datname = current_database()"
STATISTICS = {
    "front_stage_probes": 1000,
    "front_stage_hits": 870,
    "stage_seconds": {"front_stage": 0.09, "back_stage": 0.21, "commit": 0.06},
    "lookups": [{"relation": "master.customer", "algorithm": "hybrid_join", "reason": "1.2 s against 4.0 s"}],
}


class PageWarehouse:
    """Fills, empties and closes the warehouse at this URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg2.connect(url)
        self._connection.autocommit = True
        self._next_id = 0

    def close(self) -> None:
        """Leave the warehouse."""
        self._connection.close()

    def clear(self) -> None:
        """Empty it, and let the page forget what it has read."""
        self._execute(RESET)
        self._end_readers()

    def register(self, *names: str) -> None:
        """Pipelines that were never started."""
        for name in names:
            register_pipeline(self._connection, name, timedelta(seconds=5), "{}")

    @contextmanager
    def running_orders(self) -> Iterator[Stream]:
        """The pipeline orders with a driver that lives; it has loaded nothing."""
        stream = Stream(self.url)
        try:
            # A driver counts as starting until it has sent a heartbeat after its first one.
            self._execute("UPDATE freshet.driver SET started_at = started_at - interval '1 minute'")
            drivers.heartbeat(stream.connection, "orders", stream.epoch)
            stream.connection.commit()
            yield stream
        finally:
            stream.close()

    def load(
        self,
        stream: Stream,
        *,
        facts: int = 0,
        shed: int = 0,
        unmatched: int = 0,
        rejected: int = 0,
        age: timedelta = timedelta(),
    ) -> None:
        """One batch with this many new orders in each place; the facts happened that long ago."""
        counts: dict[Place, int] = {"shed": shed, "unmatched": unmatched, "rejected": rejected}
        loaded = stream.orders(self._ids(facts), at=datetime.now(UTC) - age)
        held = [
            Held(FATES[place], "no time", "master.customer", stream.orders(self._ids(number)))
            for place, number in counts.items()
            if number
        ]
        batch_no = stream.open()
        stream.loader(batch_no).load(Outcome(loaded, held))
        stream.close_batch(batch_no, statistics=STATISTICS)

    def refuse(self, stream: Stream, reason: str, number: int) -> None:
        """One batch with this many new orders that are rejected for a reason."""
        batch_no = stream.open()
        stream.loader(batch_no).load(stream.held(self._ids(number), "rejected", reason))
        stream.close_batch(batch_no)

    def join(self, **waiting: int) -> None:
        """Have the newest batch be one of several streams, of each of which so many events wait."""
        for stream, count in waiting.items():
            self._execute(
                "WITH told AS (INSERT INTO freshet.batch_stream (batch_no, stream, arrived) "
                "SELECT max(batch_no), %s, %s FROM freshet.batch RETURNING batch_no, stream, arrived) "
                "INSERT INTO freshet.batch_fate SELECT batch_no, stream, 'waiting', arrived FROM told",
                stream,
                count,
            )

    def log_to(self, file: str) -> None:
        """The drivers' log is this file."""
        self._execute("UPDATE freshet.driver SET log_file = %s", file)

    def redefine(self, name: str, definition: str) -> None:
        """Start a pipeline with a changed definition."""
        register_pipeline(self._connection, name, timedelta(seconds=5), definition)

    def look(self, stream: Stream, *, files: int = 0, waited: float = 0.0) -> None:
        """Its driver looks at its source, and finds as many files of 1,000 bytes that have waited for some seconds."""
        landed_at = datetime.now(UTC) - timedelta(seconds=waited) if files else None
        unread = Unread(files, 1000 * files, landed_at, time.monotonic())
        drivers.heartbeat(stream.connection, "orders", stream.epoch, unread)
        # It goes on looking, however long the test takes.
        self._execute(
            "UPDATE freshet.driver SET looked_at = looked_at + interval '1 h', "
            "heartbeat_at = heartbeat_at + interval '1 h'"
        )

    def kill(self, silent: timedelta) -> None:
        """The driver's process is one that has ended, and has said nothing for that long."""
        self._execute(
            "UPDATE freshet.driver SET process_id = %s, heartbeat_at = clock_timestamp() - %s, "
            "looked_at = clock_timestamp() - %s",
            *(2**22 + 1, silent, silent),  # more than any process's number
        )

    def validate(self, pipeline: str, failure: str, page: str) -> None:
        """A validation with one expectation, which has failed."""
        finding = Finding("quantity between 1 and 50", ("quantity",), False, 3, [{"quantity": -4}], failure)
        validation_id = records.begin(self._connection, pipeline, "facts of the last hour", None)
        report = Report(pipeline, validation_id, "failed", "facts of the last hour", 1000, (finding,), page=page)
        records.close(self._connection, report, [])

    @contextmanager
    def validating(self, pipeline: str) -> Iterator[None]:
        """A validation at work, which is cut off at the end of the block."""
        with closing(psycopg2.connect(self.url)) as validator, records.one_at_a_time(validator, pipeline):
            records.begin(validator, pipeline, "all facts", None)
            yield

    def retarget(self, name: str, target: timedelta) -> None:
        """Give a pipeline another freshness target, as a restart with a changed definition does."""
        register_pipeline(self._connection, name, target, "{}")

    def prune_uncounted(self, name: str, number: int) -> None:
        """Damage: shed tuples were pruned that the ledger does not know of."""
        self._execute(
            "INSERT INTO freshet.pruned_tuple (pipeline, event_id, event_hash, batch_no, place) "
            "SELECT %s, '[' || number || ']', number, 1, 'shed' FROM generate_series(1, %s) AS number",
            name,
            number,
        )

    def start_in_vain(self, name: str, age: timedelta) -> None:
        """A start was asked for so long ago, and no driver has come."""
        driver_requests.request_state(self._connection, name, "running")
        self._execute("UPDATE freshet.pipeline SET desired_at = desired_at - %s WHERE name = %s", age, name)

    def make_older(self, age: timedelta) -> None:
        """Date all batches back, by whole minutes."""
        self._execute("UPDATE freshet.batch SET started_at = started_at - %s, closed_at = closed_at - %s", age, age)
        self._execute("UPDATE freshet.ledger_minute SET minute = minute - %s", age)

    @contextmanager
    def away(self) -> Iterator[None]:
        """No connection is accepted for the time of the block."""
        name = self._connection.get_dsn_parameters()["dbname"]
        outside = psycopg2.connect(extensions.make_dsn(self.url, dbname="postgres"))
        outside.autocommit = True
        allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        try:
            with outside.cursor() as cursor:
                cursor.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
            self._end_readers()
            yield
        finally:
            with outside.cursor() as cursor:
                cursor.execute(allow.format(sql.Identifier(name), sql.SQL("true")))
            outside.close()

    @contextmanager
    def without_control_tables(self) -> Iterator[None]:
        """As before `freshet migrate`, for the time of the block."""
        self._execute("ALTER SCHEMA freshet RENAME TO elsewhere")
        try:
            yield
        finally:
            self._execute("ALTER SCHEMA elsewhere RENAME TO freshet")

    def readers(self) -> int:
        """Number of sessions that the page has in the warehouse."""
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) {_PAGE_SESSIONS}")
            (sessions,) = cursor.fetchone()  # type: ignore[misc]
        return int(sessions)

    def _ids(self, number: int) -> range:
        self._next_id += number
        return range(self._next_id - number, self._next_id)

    def _end_readers(self) -> None:
        self._execute(f"SELECT pg_terminate_backend(pid) {_PAGE_SESSIONS}")

    def _execute(self, statement: str, *arguments: object) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, arguments or None)
