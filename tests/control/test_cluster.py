"""A warehouse that was moved to another cluster by pg_dump: what was changed in the former one is past."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.control.cluster import settle_in_cluster
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.local.embedded_postgres.server_user import programs, server_user
from spark_jobs.lookup.changes.staleness import STALENESS
from tests.reprocessing.test_due_tuples import CUSTOMER, MINUTE, Unmatched

# Of a reader that has seen all that is committed.
STALE_FOR = f"""
    SELECT {STALENESS} FROM (SELECT 'triggers', %s, pg_current_snapshot(), now())
        AS cache(watched, relation, noticed, noticed_at)
"""
MANY_TRANSACTIONS = "DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
NUMBERS = "SELECT xid::text, former_xid::text FROM freshet.relation_change ORDER BY change_no"
SETTLED = "SELECT count(*) FROM freshet.cluster JOIN pg_control_system() USING (system_identifier)"


@pytest.fixture
def moved(warehouse_url: str, tmp_path: Path) -> Iterator[Unmatched]:
    """A stream whose tuples were tried after a change, in a cluster that has seen more transactions than this one."""
    stream = Unmatched(warehouse_url)
    stream.connection.autocommit = True
    with stream.connection.cursor() as cursor:
        cursor.execute(MANY_TRANSACTIONS)
    stream.connection.autocommit = False
    stream.change()
    stream.fail(stream.begin())
    stream.change("master.article")
    stream.close()
    tools = programs(server_user())
    with EmbeddedPostgres(tmp_path / "other").use() as other:
        dump = subprocess.run([tools / "pg_dump", "-d", warehouse_url], check=True, capture_output=True)
        roles = subprocess.run(
            [tools / "pg_dumpall", "-d", warehouse_url, "--roles-only"], check=True, capture_output=True
        )
        restore = [tools / "psql", "-qX", "-d", other.url(), "-v", "ON_ERROR_STOP=0"]
        subprocess.run(restore, input=roles.stdout + dump.stdout, check=True, capture_output=True)
        stream.url = other.url()
        stream.connection = psycopg2.connect(stream.url)
        yield stream
        stream.close()


def stale_for(stream: Unmatched) -> timedelta:
    ((age,),) = stream.query(STALE_FOR, [CUSTOMER])
    return age


def test_changes_of_the_former_cluster_are_not_found_again_and_again(moved: Unmatched) -> None:
    assert stale_for(moved) > timedelta(), "they seem to be still to come"
    before = moved.query(NUMBERS)
    settle_in_cluster(moved.connection)
    assert moved.query(NUMBERS) == [("2", xid) for xid, _ in before]
    assert stale_for(moved) == timedelta()
    moved.change()
    assert stale_for(moved) == timedelta(), "it was noticed"
    settle_in_cluster(moved.connection)
    assert moved.query(NUMBERS)[-1][1] is None, "what is noted here stays as it is"


def test_tuples_that_were_tried_there_are_tried_once_here(moved: Unmatched) -> None:
    settle_in_cluster(moved.connection)
    moved.pass_by(MINUTE / 4)
    assert moved.due() == 5
    moved.fail(moved.begin())
    moved.pass_by(MINUTE / 2)
    assert moved.due() == 0, "nothing has changed since"
    moved.change()
    assert moved.due() == 5


def test_a_warehouse_that_stays_where_it_is_is_left_alone(warehouse_url: str) -> None:
    stream = Unmatched(warehouse_url)
    stream.change()
    before = stream.query(NUMBERS)
    settle_in_cluster(stream.connection)
    assert stream.query(NUMBERS) == before
    assert stream.query(SETTLED) == [(1,)]
    stream.close()
