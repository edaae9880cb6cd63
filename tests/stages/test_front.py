"""The front stage of a lookup of versions that is hot whole: a version that is not noticed yet is looked for in R."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg2
import pyarrow as pa

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.definition import Lookup
from spark_jobs.lookup.changes.triggers import watch_relations
from spark_jobs.lookup.changes.unnoticed import Changes, current_snapshot
from spark_jobs.lookup.front_stage import FrontStage
from spark_jobs.lookup.hot_keys.learned import LearnedHotSet
from spark_jobs.lookup.hot_keys.publishing import Leases
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.lookup.relation.catalog.describe import describe_relation
from spark_jobs.lookup.relation.live import LiveRelation
from tests.lookup.hot_keys.test_learned import Driver

LOOKUP = Lookup(
    relation="public.town",
    on={"town": "id"},
    fetch={"name": "name"},
    as_of="event_time",
    validity=["valid_from", "valid_to"],
)


def test_a_hot_key_whose_new_version_is_not_noticed_yet_is_a_miss(warehouse_url: str) -> None:
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE town (id bigint, valid_from timestamptz, valid_to timestamptz, name text,"
            " PRIMARY KEY (id, valid_from));"
            "INSERT INTO town SELECT n, '2026-01-01Z', '2026-02-01Z', 'old' FROM generate_series(1, 3) n"
        )
        connection.commit()
        spec = describe_relation(connection, LOOKUP, {"town": pa.int64(), "at": pa.timestamp("us", "UTC")})
        connection.commit()
        tables = watch_relations(connection, [LOOKUP])["public.town"].tables
        with connection:
            noticed = current_snapshot(connection)
        keys = KeyColumns.encode([pa.array([1, 2, 3, 4])], spec.key_kinds)
        rows = LiveRelation(warehouse_url, spec).lookup_keys(keys).rows
        spark: Any = Driver()
        hot_set = LearnedHotSet(spec, 0, spark, 1 << 16, Leases())
        unchanged = Changes(noticed, keys.take(np.empty(0, np.int64)), anything=False)
        assert hot_set.hold_all(rows, tables, unchanged, lambda asked: rows)
        cursor.execute("INSERT INTO town VALUES (2, '2026-02-01Z', NULL, 'new')")
        connection.commit()
    plan = LookupPlan(0, spec, "auto", True, "hold", {}, 0, None, None)
    front = FrontStage(plan, hot_set.plan_for_batch(1), warehouse_url)
    february = pa.chunked_array([pa.array([datetime(2026, 2, 2, tzinfo=UTC)] * 4, pa.timestamp("us", "UTC"))])
    slots, _, absent = front.probe(keys, february)
    assert (slots >= 0).tolist() == [True, False, True, False]
    assert absent.tolist() == [False, False, False, True]
