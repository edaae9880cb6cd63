"""A relation whose changes are noted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import extensions

from spark_jobs.lookup.changes.triggers import watch_relations
from spark_jobs.lookup.changes.unnoticed import Changes, current_snapshot, unnoticed
from spark_jobs.lookup.relation.catalog.describe import describe_relation
from spark_jobs.lookup.relation.relation_spec import RelationSpec

CUSTOMERS = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.customer (id bigint PRIMARY KEY, city text, email text UNIQUE);
    INSERT INTO shop.customer SELECT id, 'city ' || id % 10, id || '@example.org' FROM generate_series(1, 100) id;
"""


@dataclass(frozen=True)
class CustomerLookup:
    """A lookup of shop.customer by its id."""

    relation: str = "shop.customer"
    on: dict[str, str] = field(default_factory=lambda: {"customer": "id"})
    fetch: dict[str, str] = field(default_factory=lambda: {"city": "city"})
    validity: tuple[str, str] | None = None


@dataclass
class Customers:
    """shop.customer, and a reader of its changes."""

    connection: extensions.connection
    lookup: CustomerLookup
    spec: RelationSpec
    noticed: str

    def run(self, statement: str) -> None:
        """A transaction of a writer."""
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(statement)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """The result of a query."""
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall()

    def look(self) -> Changes:
        """What has changed since the last look."""
        with self.connection:
            changes = unnoticed(self.connection, self.spec, self.noticed)
        self.noticed = changes.noticed
        return changes

    def changed(self) -> list[int]:
        """The keys that have changed since the last look."""
        changes = self.look()
        assert not changes.anything
        return sorted(set(changes.keys.codes.tolist()))


@pytest.fixture
def connection(warehouse_url: str) -> Iterator[extensions.connection]:
    """The warehouse with the table, not watched yet."""
    with closing(psycopg2.connect(warehouse_url)) as connection:
        with connection, connection.cursor() as cursor:
            cursor.execute(CUSTOMERS)
        yield connection


@pytest.fixture
def customers(connection: extensions.connection) -> Customers:
    """The table, watched."""
    lookup = CustomerLookup()
    assert watch_relations(connection, [lookup])["shop.customer"].refusal is None
    with connection:
        spec = describe_relation(connection, lookup, {"customer": pa.int64()})
        return Customers(connection, lookup, spec, current_snapshot(connection))
