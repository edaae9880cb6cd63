"""Parts find their rows by the key, whatever PostgreSQL believes of a table that it has not looked at lately."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_jobs.loading.accumulation.row_filling import Filled, fill
from spark_jobs.loading.fact_storage import StorageMode
from tests.loading.accumulation.fulfilment import PAYMENTS, Accumulating, payment

# All had been paid when PostgreSQL looked, and as few were left that it takes the table for a small one.
LOOKED_AT_BEFORE = """
    ALTER TABLE warehouse.fulfilment SET (autovacuum_enabled = off);
    INSERT INTO warehouse.fulfilment SELECT n, 'c', 'p' || n, 1, NULL, NULL, now(), 1 FROM generate_series(1, 20000) n;
    ANALYZE warehouse.fulfilment;
    INSERT INTO warehouse.fulfilment
        SELECT n, 'c', NULL, NULL, NULL, NULL, now(), 1 FROM generate_series(20001, 60000) n
"""
READ = """
    SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables
    WHERE relid = 'warehouse.fulfilment'::regclass
"""


def filled(pipeline: Accumulating, count: int) -> tuple[Filled, int]:
    """What becomes of payments of the last orders, and how many rows of the fact table were read for it."""
    [part] = (each for each in pipeline.table.parts if each.stream == PAYMENTS)
    parts = pipeline.arrived([payment(f"new{n}", n) for n in range(60_001 - count, 60_001)])
    tuples = parts.tuples[PAYMENTS].append_column("_batch_no", pa.array([2] * count, pa.int64()))
    with pipeline.connection, pipeline.connection.cursor() as cursor:
        cursor.execute("SET LOCAL stats_fetch_consistency = none")
        found = fill(cursor, part, tuples, StorageMode.OPTIMISTIC)
        cursor.execute(READ)
        [(read,)] = cursor.fetchall()
    return found, int(read)


@pytest.mark.parametrize("index", ["", "CREATE INDEX ON warehouse.fulfilment (payment_id)"], ids=["", "index"])
def test_a_table_that_has_grown_since_it_was_analysed_is_not_read_whole(fulfilment: Accumulating, index: str) -> None:
    for statement in filter(None, [index, *LOOKED_AT_BEFORE.split(";")]):
        fulfilment.query(statement)
    found, read = filled(fulfilment, 500)
    assert found.filled.all()
    assert read <= 2 * 500
