"""Reading hot tuples again for a rebuild: what R has of them, and no faster than R may be read."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import psycopg2
import pyarrow as pa
import pytest

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.definition import Lookup
from spark_jobs.lookup.hot_keys.rebuild import RereadTask
from spark_jobs.lookup.relation.catalog.describe import describe_relation
from spark_jobs.lookup.relation.read_limit import ReadLimit
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from tests.virtual_time import VirtualTime

RATE = 100.0


@pytest.fixture
def towns(empty_database_url: str) -> RelationSpec:
    lookup = Lookup(relation="public.town", on={"town": "id"}, fetch={"name": "name"})
    with closing(psycopg2.connect(empty_database_url)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE town (id bigint PRIMARY KEY, name text)")
        cursor.execute("INSERT INTO town SELECT n, 'town ' || n FROM generate_series(1, 1000) n")
        connection.commit()
        return describe_relation(connection, lookup, {"town": pa.int64()})


def keys(spec: RelationSpec, first: int, last: int) -> KeyColumns:
    return KeyColumns.encode([pa.array(np.arange(first, last + 1))], spec.key_kinds)


def test_tasks_of_a_process_share_the_limit_and_read_no_more_than_it_allows_at_once(
    empty_database_url: str, towns: RelationSpec
) -> None:
    time = VirtualTime()
    limit = ReadLimit(RATE, time.clock, time.sleep)
    task = RereadTask(empty_database_url, towns, lambda: limit)
    found = [task(keys(towns, first, first + 99)) for first in (1, 101, 201)]
    assert [len(rows) for rows in found] == [100, 100, 100]
    assert limit.seconds_waited == pytest.approx((300 - limit.tuples_at_once) / RATE, rel=0.01)


@pytest.mark.parametrize("limited", [True, False])
def test_what_is_no_longer_in_r_is_left_out(empty_database_url: str, towns: RelationSpec, limited: bool) -> None:
    time = VirtualTime()
    limit = ReadLimit(RATE, time.clock, time.sleep)
    rows = RereadTask(empty_database_url, towns, (lambda: limit) if limited else None)(keys(towns, 901, 1100))
    assert rows.columns["name"].to_pylist() == [f"town {number}" for number in range(901, 1001)]
    assert rows.keys.codes.tolist() == list(range(901, 1001))
