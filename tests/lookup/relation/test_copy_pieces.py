"""A query's result is the same in whatever pieces it comes in."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import sql

from spark_jobs.columns.copy_decoding.column_types import column_type
from spark_jobs.lookup.relation.copy_pieces import copy_pieces

TYPES = [column_type("int8", -1), column_type("text", -1)]


@pytest.mark.parametrize(("rows", "piece_bytes"), [(0, 1), (1, 1), (300, 1), (300, 1000), (300, 1 << 20)])
def test_pieces_are_the_whole(postgres_database: str, rows: int, piece_bytes: int) -> None:
    query = sql.SQL(
        "SELECT k::bigint, CASE WHEN k % 7 <> 0 THEN repeat('x', k % 50) END FROM generate_series(1, {}) AS k"
    ).format(sql.Literal(rows))
    pieces: list[pa.Table] = []
    with closing(psycopg2.connect(postgres_database)) as connection, connection.cursor() as cursor:
        copy_pieces(cursor, query, TYPES, lambda arrays: pieces.append(pa.table(arrays, ["k", "text"])), piece_bytes)
    whole = pa.concat_tables(pieces)
    assert whole["k"].to_pylist() == list(range(1, rows + 1))
    assert whole["text"].to_pylist() == ["x" * (k % 50) if k % 7 else None for k in range(1, rows + 1)]
    assert (len(pieces) > rows // 2) == (piece_bytes == 1 or rows == 1 or rows == 0)
