"""Columns that are read by another type than they have by now are noticed; what means the same is not."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace

import psycopg2
import pyarrow as pa
import pytest

from spark_jobs.errors import SchemaMismatchError
from spark_jobs.lookup.relation.catalog.declared_types import check_types
from spark_jobs.lookup.relation.catalog.describe import describe_relation

TABLE = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.customer (
        id bigint PRIMARY KEY, points integer, since date, rate numeric(9, 2), city varchar(20), other integer
    );
    INSERT INTO shop.customer VALUES (1, 1000, '2026-05-01', 1.5, 'Ulm', 1)
"""
FETCHED = ("points", "since", "rate", "city")
SWAP = """
    CREATE TABLE shop.next (LIKE shop.customer INCLUDING ALL);
    DROP TABLE shop.customer;
    ALTER TABLE shop.next RENAME TO customer
"""


@pytest.mark.parametrize(
    ("statement", "noticed"),
    [
        ("ALTER TABLE shop.customer ALTER points TYPE real", True),
        ("ALTER TABLE shop.customer ALTER since TYPE integer USING since - date '2000-01-01'", True),
        ("ALTER TABLE shop.customer ALTER id TYPE double precision", True),
        ("ALTER TABLE shop.customer ALTER rate TYPE numeric(9, 3)", True),
        ("ALTER TABLE shop.customer DROP points", True),
        ("DROP TABLE shop.customer", True),
        ("ALTER TABLE shop.customer ALTER other TYPE real, ADD further integer", False),
        ("ALTER TABLE shop.customer ALTER city TYPE varchar(40), ALTER points SET NOT NULL", False),
        (SWAP, False),
        ("GRANT SELECT (points) ON shop.customer TO public; ANALYZE shop.customer", False),
    ],
)
def test_another_type_is_noticed(warehouse_url: str, statement: str, noticed: bool) -> None:
    lookup = SimpleNamespace(
        relation="shop.customer", on={"customer": "id"}, fetch={name: name for name in FETCHED}, validity=None
    )
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(TABLE)
        spec = describe_relation(connection, lookup, {"customer": pa.int64()})
        check_types(connection, [spec, spec])
        cursor.execute(statement)
        if noticed:
            with pytest.raises(SchemaMismatchError, match=r"A column of shop\.customer that is looked up has another"):
                check_types(connection, [spec])
        else:
            check_types(connection, [spec])
