"""What a lookup's hot set begins with, and takes over, where all of R is hot, can't be, or is not noted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import extensions

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.definition import Lookup
from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.lookup.changes.triggers import WatchOutcome, watch_relations
from spark_jobs.lookup.changes.unnoticed import current_snapshot
from spark_jobs.lookup.hot_keys.hot_set_files import HotSetFiles, HotSetVersion
from spark_jobs.lookup.hot_keys.learned import LearnedHotSet
from spark_jobs.lookup.hot_keys.lookup_watch import LookupWatch
from spark_jobs.lookup.hot_keys.publishing import Leases
from spark_jobs.lookup.hot_keys.relation_watch import RelationWatch
from spark_jobs.lookup.relation.catalog.describe import describe_relation
from spark_jobs.lookup.relation.reading_connection import ReadingConnection
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.warehouse.connection_pool import ConnectionPool
from tests.lookup.hot_keys.test_learned import Driver
from tests.waiting import wait_for

LOOKUP = Lookup(relation="public.town", on={"town": "id"}, fetch={"name": "name"}, notice_changes="1s")
UNNOTED = WatchOutcome("public.town has no triggers")


class Town:
    """A relation of 1000 tuples, and the watch over its lookup.

    Args:
        url: of the warehouse.
        connection: to it.
        folder: of the hot set's files.
    """

    def __init__(self, url: str, connection: extensions.connection, folder: Path) -> None:
        self.url = url
        self.connection = connection
        self.execute("CREATE TABLE town (id bigint PRIMARY KEY, name text)")
        self.execute("INSERT INTO town SELECT n, 'town ' || n FROM generate_series(1, 1000) n; ANALYZE town")
        self.spec = describe_relation(connection, LOOKUP, {"town": pa.int64()})
        connection.commit()
        self.files = HotSetFiles(folder)
        self.outcome = watch_relations(connection, [LOOKUP])["public.town"]
        self.executor = ThreadPoolExecutor(1)

    def execute(self, statement: str) -> None:
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(statement)

    def write(self, ids: list[int], *, whole: bool = False) -> None:
        """A version of the hot tuples on disk, as R was a while ago."""
        keys = KeyColumns.encode([pa.array(ids, pa.int64())], self.spec.key_kinds)
        rows = RelationRows(keys, pa.table({"name": ["before"] * len(ids)}, schema=self.spec.rows_schema))
        with self.connection:
            noticed = current_snapshot(self.connection)
        frequencies = np.zeros(len(ids), np.float32)
        version = HotSetVersion(1, "rebuilt", datetime.now(UTC), rows, frequencies, noticed, whole=whole)
        self.files.write(version)

    def watch(self, memory_bytes: int = 1 << 20) -> tuple[LookupWatch, LearnedHotSet]:
        spark: Any = Driver()
        hot_set = LearnedHotSet(self.spec, 0, spark, memory_bytes, Leases())
        reading = ReadingConnection(self.url, patience=0)
        of_lookup = (LOOKUP, self.spec, 0, hot_set, self.files, reading)
        return LookupWatch(*of_lookup, memory_bytes, self.executor, None), hot_set


@pytest.fixture
def town(warehouse_url: str, tmp_path: Path) -> Iterator[Town]:
    with closing(psycopg2.connect(warehouse_url)) as connection:
        town = Town(warehouse_url, connection, tmp_path)
        yield town
        town.executor.shutdown()


def test_all_of_r_is_read_and_the_version_on_disk_left_alone(town: Town) -> None:
    town.write([1, 2])
    watch, hot_set = town.watch()
    watch.begin(town.connection, town.outcome)

    def held() -> bool:
        watch.notice(town.connection)
        return hot_set.holds_all

    wait_for(held, "all of R to be hot")
    assert hot_set.hot_tuples == 1000
    watch.take_over_rebuilt(town.connection)
    assert hot_set.hot_tuples == 1000


def test_all_of_r_is_hot_before_the_watch_over_it_starts(town: Town) -> None:
    lookup_watch, hot_set = town.watch()
    pool = ConnectionPool(town.url, "watch")
    watch = RelationWatch(pool, "orders", [lookup_watch], ReadingConnection(town.url), town.executor)
    watch.begin(town.connection)
    wait_for(lambda: not watch.take_in(), "all of R to be read")
    assert (hot_set.hot_tuples, hot_set.holds_all) == (1000, True)
    pool.close()


def test_a_watch_that_is_never_started_keeps_no_connection(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup_watch, _ = town.watch()
    pool, reading, opened = ConnectionPool(town.url, "watch"), ReadingConnection(town.url), []
    watch = RelationWatch(pool, "orders", [lookup_watch], reading, town.executor)

    def lose(connection: extensions.connection) -> None:
        opened.append(connection)
        reading.run(opened.append)
        raise WarehouseUnavailableError("away")

    monkeypatch.setattr(lookup_watch, "notice", lose)
    with pytest.raises(WarehouseUnavailableError):
        watch.take_in()
    assert pool.take() is opened[0], "it was given back"
    opened[0].close()
    watch.stop()
    assert opened[1].closed


def test_where_r_does_not_fit_after_all_the_newest_version_is_taken_over(town: Town) -> None:
    town.execute("UPDATE town SET name = repeat('x', 10000)")
    town.write([1, 2])
    watch, hot_set = town.watch()
    watch.begin(town.connection, town.outcome)
    assert hot_set.hot_tuples == 0, "a scan is under way"

    def taken() -> bool:
        watch.notice(town.connection)
        return hot_set.hot_tuples > 0

    wait_for(taken, "the version to be taken over")
    assert (hot_set.hot_tuples, hot_set.holds_all) == (2, False)


def test_a_scan_that_triggers_stop_noting_gives_way_to_the_newest_version(town: Town) -> None:
    town.write([1, 2])
    watch, hot_set = town.watch()
    watch.begin(town.connection, town.outcome)
    watch.watch(town.connection, UNNOTED)
    watch.notice(town.connection)
    assert (hot_set.hot_tuples, hot_set.holds_all) == (2, False)


@pytest.mark.parametrize("noted", [True, False])
def test_a_whole_version_is_taken_for_all_of_r_only_where_changes_are_noted(town: Town, noted: bool) -> None:
    watch, hot_set = town.watch()
    watch.watch(town.connection, town.outcome if noted else UNNOTED)
    town.write(list(range(1, 1001)), whole=True)
    watch.take_over_rebuilt(town.connection)
    assert (hot_set.hot_tuples, hot_set.holds_all) == (1000, noted)
    assert watch.row().origin == "rebuilt"
