"""Reading the status costs little: however many pipelines there are, and however long their ledgers."""

from __future__ import annotations

import time

import psycopg2
from psycopg2 import extensions

from spark_jobs.ledger.status.pipeline_status import StatusReader
from tests.ledger.ledger_rows import execute, register

# Batches of a second each, up to now; an array of the usual size in each.
_LEDGER = """
    INSERT INTO freshet.batch (pipeline, epoch, state, started_at, closed_at, facts, shed,
        event_latency, arrival_latency, statistics)
    SELECT name, 1, 'committed', clock_timestamp() - (%s - number) * interval '1 s' - interval '1 s',
        clock_timestamp() - (%s - number) * interval '1 s', 1000, 1,
        array_fill(0, ARRAY[90]) || array_fill(40, ARRAY[25]) || array_fill(0, ARRAY[79]),
        array_fill(0, ARRAY[90]) || array_fill(40, ARRAY[25]) || array_fill(0, ARRAY[79]),
        '{"front_stage_probes": 1000, "front_stage_hits": 800, "stage_seconds": {"commit": 0.2}}'
    FROM freshet.pipeline, generate_series(1, %s) AS number
"""


class CountingCursor(extensions.cursor):
    """Counts the statements of all cursors."""

    statements = 0

    def execute(self, *arguments: object) -> None:
        CountingCursor.statements += 1
        super().execute(*arguments)  # type: ignore[arg-type]


def statements_of_a_look(url: str, reader: StatusReader) -> int:
    connection = psycopg2.connect(url, cursor_factory=CountingCursor)
    CountingCursor.statements = 0
    reader.read(connection)
    connection.close()
    return CountingCursor.statements


def fill(connection: extensions.connection, pipelines: int, batches: int) -> None:
    for number in range(pipelines):
        register(connection, f"p{number}")
    execute(connection, _LEDGER, batches, batches, batches)
    execute(connection, "ANALYZE freshet.batch")


def test_many_pipelines_take_as_many_queries_as_one(clean_warehouse: str, connection: extensions.connection) -> None:
    register(connection, "first")
    reader = StatusReader()
    one = [statements_of_a_look(clean_warehouse, reader) for _ in range(2)]
    for number in range(20):
        register(connection, f"p{number}")
    many = [statements_of_a_look(clean_warehouse, reader) for _ in range(2)]
    assert many[-1] == one[-1]
    assert many[0] <= one[0]


def test_a_long_ledger_is_read_once(connection: extensions.connection) -> None:
    fill(connection, pipelines=10, batches=1000)
    reader = StatusReader()
    times = []
    for _ in range(6):
        started = time.perf_counter()
        statuses = reader.read(connection)
        times.append(time.perf_counter() - started)
        assert {status.batches for status in statuses} == {1000}
    assert min(times[1:]) < times[0] / 5
