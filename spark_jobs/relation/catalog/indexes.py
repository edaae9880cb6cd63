"""The indexes of a table that keys can be found by, as PostgreSQL's catalog has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from psycopg2 import extensions

from spark_jobs.relation.catalog.collations import Collation, read_collations

# Only indexes over all tuples and plain columns. Columns that are merely INCLUDEd have no operator class.
_INDEXES = """
    SELECT i.indexrelid, i.indisunique, a.attname, i.indcollation[k.n - 1], i.indoption[k.n - 1], o.opcdefault
    FROM pg_index AS i
    JOIN pg_class AS c ON c.oid = i.indexrelid
    JOIN pg_am AS m ON m.oid = c.relam AND m.amname = 'btree'
    CROSS JOIN generate_series(1, i.indnkeyatts) AS k (n)
    JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k.n - 1]
    JOIN pg_opclass AS o ON o.oid = i.indclass[k.n - 1]
    WHERE i.indrelid = %s AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
    ORDER BY i.indisprimary DESC, i.indisunique DESC, i.indnkeyatts, i.indexrelid, k.n
"""
_DESCENDING = 1


@dataclass(frozen=True)
class CatalogIndex:
    """One btree index.

    Attributes:
        columns: its key columns.
        unique: whether no two tuples have the same key.
        collations: collation of each key column that is text.
        ascending: whether all columns are, and compare as their type does.
    """

    columns: tuple[str, ...]
    unique: bool
    collations: Mapping[str, Collation]
    ascending: bool

    def is_unique_within(self, names: Collection[str]) -> bool:
        """Whether at most one tuple has given values in the named columns."""
        return self.unique and set(self.columns) <= set(names)

    def leads_with(self, names: Collection[str]) -> bool:
        """Whether it starts with the named columns, in any order."""
        return set(self.columns[: len(names)]) == set(names)

    def orders_by_bytes(self, names: Collection[str], texts: Collection[str]) -> bool:
        """Whether it starts with the named columns, in any order, and has those that are text in the order of bytes."""
        return (
            self.ascending
            and self.leads_with(names)
            and all(name in self.collations and self.collations[name].by_bytes for name in texts)
        )


def read_indexes(connection: extensions.connection, table_id: int) -> list[CatalogIndex]:
    """The btree indexes of a table: its primary key first, then unique ones."""
    with connection.cursor() as cursor:
        cursor.execute(_INDEXES, (table_id,))
        rows = cursor.fetchall()
    collations = read_collations(connection, {collation for _, _, _, collation, _, _ in rows})
    columns: dict[int, list[tuple]] = {}
    for index, *facts in rows:
        columns.setdefault(index, []).append(tuple(facts))
    return [
        CatalogIndex(
            columns=tuple(name for _, name, _, _, _ in facts),
            unique=facts[0][0],
            collations={name: collations[number] for _, name, number, _, _ in facts if number in collations},
            ascending=all(default and not option & _DESCENDING for _, _, _, option, default in facts),
        )
        for facts in columns.values()
    ]
