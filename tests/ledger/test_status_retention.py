"""The status keeps its figures when reads are cut off and when retention deletes what they were made of."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg2
import pytest
from psycopg2 import errors, extensions

from spark_jobs.ledger.retention import prune
from spark_jobs.ledger.status.pipeline_status import PipelineStatus, StatusReader, read_status
from tests.ledger.ledger_rows import MINUTE, add_batch, add_run, execute, latencies, only, register

OLD = timedelta(days=40)
HOOKED = {"front_stage_probes": 10}
LOOKUPS = {"lookups": [{"relation": "shop.article", "algorithm": "auto", "reason": "it is small"}]}


class CutOffCursor(extensions.cursor):
    """Is cancelled at the statement with this number, as a statement timeout would; counts them."""

    cut_off = -1
    texts: list[str] = []

    def execute(self, statement: Any, *arguments: Any) -> None:
        CutOffCursor.texts.append(str(statement))
        if len(CutOffCursor.texts) == CutOffCursor.cut_off:
            raise errors.QueryCanceled("canceling statement due to statement timeout")
        super().execute(statement, *arguments)


@pytest.fixture
def cut_off(clean_warehouse: str) -> Any:
    connection = psycopg2.connect(clean_warehouse, cursor_factory=CutOffCursor)
    CutOffCursor.cut_off = -1
    yield connection
    CutOffCursor.cut_off = -1
    connection.close()


def figures(status: PipelineStatus) -> tuple[Any, ...]:
    counts = (status.batches, status.loaded, status.arrived, status.duplicates)
    return (*counts, status.shed, status.unmatched, status.freshness_whole, status.lookups, status.last_commit)


def age_runs(connection: extensions.connection) -> None:
    execute(connection, "UPDATE freshet.reprocessing_run SET closed_at = closed_at - %s WHERE state <> 'running'", OLD)


def hold_for_long(connection: extensions.connection) -> None:
    execute(
        connection,
        "INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, fate, reason, payload, "
        "payload_encoding, arrived_at, held_at, batch_no) "
        "SELECT 'orders', '[1]', 0, 'rejected', 'refused', 'r', '{}', 'json', now(), now() - %s, "
        "max(batch_no) FROM freshet.batch",
        OLD,
    )


def prune_month(connection: extensions.connection) -> dict[str, int]:
    connection.autocommit = True
    pruned = prune(connection, "orders", {"ledger": "30d", "rejected": "30d"})
    connection.autocommit = False
    return dict(pruned)


def test_a_read_that_is_cut_off_anywhere_loses_nothing(
    connection: extensions.connection, cut_off: extensions.connection
) -> None:
    register(connection)
    add_batch(connection, age=OLD, facts=10, latencies_ms=(9000,) * 10, statistics=LOOKUPS)
    add_run(connection, facts=2, shed=-2, age=3 * MINUTE)
    whole = figures(only(read_status(connection)))
    CutOffCursor.texts.clear()
    StatusReader().read(cut_off)
    for statement in range(2, len(CutOffCursor.texts) + 1):
        reader, CutOffCursor.cut_off = StatusReader(), statement
        CutOffCursor.texts.clear()
        with pytest.raises(errors.QueryCanceled):
            reader.read(cut_off)
        CutOffCursor.cut_off = -1
        assert figures(only(reader.read(cut_off))) == whole, f"cut off at statement {statement}"


def test_pruning_changes_no_figure_and_makes_nobody_read_the_ledger_again(
    connection: extensions.connection, cut_off: extensions.connection
) -> None:
    register(connection)
    for _ in range(3):
        add_batch(connection, age=OLD, facts=10, duplicates=2, shed=3, latencies_ms=(9000,) * 10, statistics=HOOKED)
    add_run(connection, facts=2, shed=-2, age=OLD)
    add_batch(connection, facts=5, latencies_ms=(100,) * 5, statistics=LOOKUPS)
    reader = StatusReader()
    before = figures(only(reader.read(cut_off)))
    assert prune_month(connection) == {"batch": 3, "reprocessing_run": 1}
    CutOffCursor.texts.clear()
    assert figures(only(reader.read(cut_off))) == before
    assert not any("sum(duplicates)" in text for text in CutOffCursor.texts)
    assert figures(only(read_status(connection))) == before, "and who begins now counts the same"


def test_runs_beyond_one_that_never_ended_are_counted_once_when_they_are_pruned(
    connection: extensions.connection,
) -> None:
    register(connection)
    add_batch(connection, facts=5, shed=9)
    add_run(connection, state="running", facts=1, shed=-1)
    add_run(connection, facts=2, shed=-2, age=3 * MINUTE)
    reader = StatusReader()
    before = figures(only(reader.read(connection)))
    age_runs(connection)
    assert prune_month(connection) == {"reprocessing_run": 1}
    assert figures(only(reader.read(connection))) == before


def test_batches_that_came_and_were_pruned_between_two_looks_are_counted(connection: extensions.connection) -> None:
    register(connection)
    add_batch(connection, age=OLD, facts=10, latencies_ms=(9000,) * 10)
    reader = StatusReader()
    assert only(reader.read(connection)).loaded == 10
    add_batch(connection, age=OLD, facts=7, latencies_ms=(9000,) * 7)
    add_batch(connection, facts=1, latencies_ms=(100,))
    assert prune_month(connection) == {"batch": 2}
    assert figures(only(reader.read(connection))) == figures(only(read_status(connection)))
    assert only(reader.read(connection)).loaded == 18


def test_the_sums_by_minute_stand_for_the_batches_only_where_they_agree(connection: extensions.connection) -> None:
    register(connection)
    for hours, facts in ((3, 4), (2, 6), (1, 8)):
        add_batch(connection, age=timedelta(hours=hours), facts=facts, latencies_ms=(9000,) * facts)
    alone = only(read_status(connection))
    # Of the oldest batch, and of another in the minute of the second that retention has deleted.
    execute(
        connection,
        "INSERT INTO freshet.ledger_minute (pipeline, minute, batches, arrived, facts, shed, unmatched, rejected, "
        "duplicates, probes, hits, event_latency, arrival_latency) SELECT pipeline, date_trunc('minute', closed_at), "
        "CASE facts WHEN 4 THEN 1 ELSE 2 END, many, many, 0, 0, 0, 0, 0, 0, %s, '{}' "
        "FROM freshet.batch, LATERAL (SELECT CASE facts WHEN 4 THEN 4 ELSE 60 END AS many) AS counted "
        "WHERE facts IN (4, 6)",
        latencies(*(50,) * 30),
    )
    status = only(read_status(connection))
    assert (status.batches, status.loaded, status.last_commit) == (alone.batches, alone.loaded, alone.last_commit)
    assert status.freshness_whole.p50_ms == pytest.approx(50, rel=0.11), "30 of the agreeing minute, 14 of batches"
