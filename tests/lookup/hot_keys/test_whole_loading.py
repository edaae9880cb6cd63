"""Reading R whole: not again and again in vain, no longer than the driver lives, and told where it never happens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import errors, extensions

from spark_jobs.definition import Lookup
from spark_jobs.lookup.hot_keys import whole_loading
from spark_jobs.lookup.hot_keys.hot_tuples import HotTuples
from spark_jobs.lookup.hot_keys.whole_loading import WholeLoading
from spark_jobs.lookup.planning.memory import said_of_memory
from spark_jobs.lookup.relation.catalog.describe import describe_relation
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from tests.virtual_time import VirtualTime
from tests.waiting import wait_for

LOOKUP = {"relation": "public.town", "on": {"town": "id"}, "fetch": {"name": "name"}}
HOUR = 3600.0


class Counting(Executor):
    """Runs at once what it is given, and counts it."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        self.count += 1
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except psycopg2.Error as error:
            future.set_exception(error)
        return future


@pytest.fixture
def connection(empty_database_url: str) -> Iterator[extensions.connection]:
    with closing(psycopg2.connect(empty_database_url)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE town (id bigint PRIMARY KEY, name text)")
        cursor.execute("INSERT INTO town SELECT n, 'town ' || n FROM generate_series(1, 1000) n; ANALYZE town")
        connection.commit()
        yield connection


def described(connection: extensions.connection) -> RelationSpec:
    return describe_relation(connection, Lookup(**LOOKUP), {"town": pa.int64()})


def test_a_relation_that_does_not_fit_after_all_is_scanned_ever_more_rarely(
    connection: extensions.connection, empty_database_url: str
) -> None:
    spec, clock, executor = described(connection), VirtualTime(), Counting()
    with connection, connection.cursor() as cursor:
        cursor.execute("UPDATE town SET name = repeat('x', 10000)")  # compressed: the estimates do not tell
    memory = 2 * HotTuples.bytes_for(spec.row_count, spec)
    loading = WholeLoading(Lookup(**LOOKUP), spec, memory, empty_database_url, executor, clock.clock)
    assert loading.begin(())
    scans = []
    for _ in range(4):
        for _ in range(int(HOUR / 30)):
            assert loading.result((), connection) is None
            clock.sleep(30)
        scans.append(executor.count)
    assert scans[0] <= 7
    assert scans[-1] - scans[1] <= 2, "about one an hour"
    with connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM town WHERE id > 2")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE town")
    connection.autocommit = False
    clock.sleep(61)
    assert loading.result((), connection) is None
    found = loading.result((), connection)
    assert found is not None, "it has shrunk: at once"
    assert len(found.rows) == 2


@pytest.mark.parametrize(("longest_wait", "stopped"), [("10min", True), ("100ms", False)])
def test_a_scan_that_waits_for_a_lock_ends_when_it_is_stopped_or_after_a_while(
    connection: extensions.connection,
    empty_database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    longest_wait: str,
    stopped: bool,
) -> None:
    monkeypatch.setattr(whole_loading, "_LONGEST_WAIT", f"SET LOCAL lock_timeout = '{longest_wait}'")
    spec = described(connection)
    connection.commit()
    with connection, connection.cursor() as cursor, ThreadPoolExecutor(1) as executor:
        cursor.execute("LOCK TABLE town")
        loading = WholeLoading(Lookup(**LOOKUP), spec, 1 << 20, empty_database_url, executor)
        assert loading.begin(())
        if stopped:
            wait_for(lambda: waiting(cursor), "it to wait for the lock")
            loading.stop()
        expected = errors.QueryCanceled if stopped else errors.LockNotAvailable
        with pytest.raises(expected):
            wait_for(lambda: loading.result((), connection) or not loading.reading, "the scan to end")
    assert not loading.reading


def waiting(cursor: extensions.cursor) -> int:
    cursor.execute("SELECT count(*) FROM pg_locks WHERE relation = 'town'::regclass AND NOT granted")
    [(count,)] = cursor.fetchall()
    return int(count)


@pytest.mark.parametrize(
    ("changes", "unnoted", "said"),
    [
        ({}, None, "which it has$"),
        ({"read": "snapshot"}, None, "only what is frequent is hot: with `read: snapshot`"),
        ({"read_limit": "1/s"}, None, "only what is frequent is hot: with its `read_limit`"),
        ({}, "public.town is a view", "until triggers note all changes: public.town is a view"),
    ],
)
def test_it_is_told_why_a_relation_that_fits_is_not_hot_whole(
    connection: extensions.connection, changes: dict[str, Any], unnoted: str | None, said: str
) -> None:
    spec = described(connection)
    lookup = Lookup(**LOOKUP | changes)
    told = said_of_memory(lookup, spec, unnoted=unnoted)
    assert told is not None
    assert re.search(said, told)
