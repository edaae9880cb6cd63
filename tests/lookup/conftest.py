"""A database for the relation tests, and a short way to describe and open a relation in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import extensions

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.lookup.relation.catalog.describe import describe_relation
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.relation_spec import RelationSpec

TYPES = {"integer": pa.int64(), "small": pa.int16(), "text": pa.string(), "date": pa.date32(), "number": pa.float64()}


@dataclass(frozen=True)
class LookupOf:
    relation: str
    on: dict[str, str]
    fetch: dict[str, str]
    validity: tuple[str, str] | None = None


Describe = Callable[..., RelationSpec]
Open = Callable[..., LiveRelation]


@pytest.fixture
def connection(empty_database_url: str) -> Iterator[extensions.connection]:
    connection = psycopg2.connect(empty_database_url)
    connection.autocommit = True
    yield connection
    connection.close()


@pytest.fixture
def other_collation(connection: extensions.connection) -> str:
    """A collation that does not count as the order of bytes, quoted."""
    with connection.cursor() as cursor:
        cursor.execute("""
            SELECT quote_ident(collname) FROM pg_collation
            WHERE collname = 'en-x-icu' OR (collprovider = 'c' AND collcollate NOT IN ('C', 'POSIX')) LIMIT 1
        """)
        found = cursor.fetchone()
    if found is None:
        pytest.skip("neither PostgreSQL nor the system has a collation but those in the order of bytes")
    return found[0]


@pytest.fixture
def execute(connection: extensions.connection) -> Callable[..., None]:
    def run(statements: str, parameters: tuple | None = None) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statements, parameters)

    return run


@pytest.fixture
def describe(connection: extensions.connection) -> Describe:
    """describe("public.r", {"integer": "k"}, {"output": "column"}): stream columns are named after their types."""

    def run(
        relation: str, on: dict[str, str], fetch: dict[str, str], validity: tuple[str, str] | None = None
    ) -> RelationSpec:
        return describe_relation(connection, LookupOf(relation, on, fetch, validity), TYPES)

    return run


@pytest.fixture
def open_relation(empty_database_url: str, describe: Describe) -> Open:
    def run(
        relation: str,
        on: dict[str, str],
        fetch: dict[str, str],
        page_rows: int = 10,
        validity: tuple[str, str] | None = None,
    ) -> LiveRelation:
        return LiveRelation.open(empty_database_url, describe(relation, on, fetch, validity), page_rows)

    return run


def keys_for(relation: LiveRelation, *columns: list) -> KeyColumns:
    """Stream tuples' keys, column by column, in the order of the relation's key."""
    arrays = [
        pa.array(values, TYPES[stream]) for values, stream in zip(columns, relation.spec.stream_columns, strict=True)
    ]
    return KeyColumns.encode(arrays, relation.spec.key_kinds)
