"""A crash gives transaction numbers out again that asynchronous commits had used: what then has them is no old news."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.control.migration import migrate
from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.local.embedded_postgres import EmbeddedPostgres
from spark_jobs.lookup.changes.unnoticed import current_snapshot, incarnation, lasting_snapshot
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.reprocessing.run_ledger import open_run
from tests.lookup.hot_keys.test_lookup_watch import Town
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """Its log writer is slow, so that each crash loses what has not waited for the disk."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("server") / "postgres").use() as server:
        migrate(server.url())
        with closing(connected(server)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
            cursor.execute("SELECT pg_reload_conf()")
        yield server


def connected(server: EmbeddedPostgres) -> extensions.connection:
    return psycopg2.connect(server.url())


def commit_hastily(connection: extensions.connection, count: int) -> None:
    """As chunks and heartbeats do."""
    for _ in range(count):
        with connection, connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO off; SELECT pg_current_xact_id()")


def next_number(snapshot: str) -> int:
    return int(snapshot.split(":")[1])


def test_a_snapshot_for_a_file_has_no_number_that_a_crash_gives_out_again(server: EmbeddedPostgres) -> None:
    with closing(connected(server)) as connection:
        lasting_snapshot(connection)
        commit_hastily(connection, 40)
        lost = current_snapshot(connection)
    server.restart("immediate")
    with closing(connected(server)) as connection:
        assert next_number(current_snapshot(connection)) < next_number(lost), "the crash came in time"
        connection.rollback()
        commit_hastily(connection, 40)
        kept = lasting_snapshot(connection)
    server.restart("immediate")
    with closing(connected(server)) as connection:
        assert next_number(current_snapshot(connection)) > next_number(kept)


def test_what_a_run_has_tried_is_due_again_for_a_change_after_a_crash(server: EmbeddedPostgres) -> None:
    """`tried_xmin` is the oldest number that the snapshot of a run did not see as ended."""
    with closing(connected(server)) as connection:
        with connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO freshet.pipeline (name, freshness_target, definition) VALUES ('p', '5s', '{}')")
        commit_hastily(connection, 40)
        run = open_run(connection, "p", ReprocessingRequest(limit=1)).batch_no
        commit_hastily(connection, 40)
    server.restart("immediate")
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_current_xact_id() > pg_snapshot_xmin(seen) FROM freshet.reprocessing_run WHERE batch_no = %s",
            [run],
        )
        assert cursor.fetchall() == [(True,)]


def test_a_server_that_has_crashed_is_another_one(server: EmbeddedPostgres) -> None:
    with closing(connected(server)) as connection:
        former = incarnation(connection)
        assert incarnation(connection) == former
    with closing(connected(server)) as victim:
        os.kill(victim.info.backend_pid, signal.SIGKILL)  # all sessions end, the first process lives

    def recovered() -> str | None:
        try:
            with closing(connected(server)) as connection:
                return incarnation(connection)
        except psycopg2.OperationalError:
            return None

    assert wait_for(recovered, "the server to recover") != former


def test_a_change_with_a_number_that_had_been_noticed_is_noticed(server: EmbeddedPostgres, tmp_path: Path) -> None:
    with closing(connected(server)) as connection:
        town = Town(server.url(), connection, tmp_path)
        town.write([1, 2])
        watch, hot_set = town.watch(memory_bytes=8 << 10)  # not all of R fits
        watch.begin(connection, town.outcome)
        wait_for(lambda: watch.notice(connection) or hot_set.hot_tuples == 2, "the version to be taken over")
        commit_hastily(connection, 40)
        watch.notice(connection)
        noticed = watch.row().noticed
        assert noticed is not None
    server.restart("immediate")
    with closing(connected(server)) as connection:
        town.connection = connection
        town.execute("UPDATE town SET name = 'changed' WHERE id = 1")
        assert next_number(current_snapshot(connection)) <= next_number(noticed), "its number had been noticed"
        connection.rollback()
        commit_hastily(connection, 60)  # the server has come further than it was, when it is looked at
        with pytest.raises(WarehouseUnavailableError):  # the watch reads through another session, which is lost, too
            watch.notice(connection)
        watch.notice(connection)
        version = hot_set.export(None)
        assert version is not None
        assert "changed" in version.rows.columns["name"].to_pylist()
    town.executor.shutdown()
