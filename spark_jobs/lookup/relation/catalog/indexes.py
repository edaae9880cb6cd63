"""The indexes of R: those that there are, the one that lookups go by, and the one whose order pages are cut in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from psycopg2 import extensions

from spark_jobs.lookup.relation.catalog.columns import CatalogColumn, Collation, read_collations
from spark_jobs.lookup.relation.catalog.sql_names import sql_name
from spark_jobs.lookup.relation.relation_spec import RelationSpec

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

# Its parts are columns of the key, compared by =, and one range of the validity, compared by &&:
# EXCLUDE USING gist (id WITH =, tstzrange(valid_from, valid_to) WITH &&). A part that is no column is attribute 0.
_FORBIDS_OVERLAPS = """
    SELECT EXISTS (
        SELECT FROM pg_constraint AS c JOIN pg_index AS i ON i.indexrelid = c.conindid
        CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE part.attnum = 0 AND o.oprname = '&&') AS ranges,
                count(*) FILTER (WHERE o.oprname = '=' AND a.attname = ANY(%(key)s)) AS key_columns, count(*) AS parts
            FROM unnest(i.indkey::int2[], c.conexclop) AS part (attnum, operator)
            JOIN pg_operator AS o ON o.oid = part.operator
            LEFT JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = part.attnum
        ) AS counted
        CROSS JOIN LATERAL (
            SELECT array_agg(a.attname::text ORDER BY a.attname) AS columns
            FROM pg_depend AS d JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
            WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                AND d.refclassid = 'pg_class'::regclass AND d.refobjid = c.conrelid
        ) AS expressed
        WHERE c.conrelid = %(table)s AND c.contype = 'x' AND i.indisvalid AND i.indpred IS NULL
            AND ranges = 1 AND ranges + key_columns = parts AND expressed.columns = %(validity)s
    )
"""


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


def choose_indexes(
    spec: RelationSpec,
    columns: Mapping[str, CatalogColumn],
    indexes: list[CatalogIndex],
    *,
    versions_apart: bool = False,
) -> tuple[RelationSpec, list[str]]:
    """Choose by which indexes a relation is read.

    Args:
        spec: the relation, its key in any order.
        columns: its columns.
        indexes: its indexes, better ones first.
        versions_apart: whether an exclusion constraint keeps versions of a key from overlapping.

    Returns:
        The spec with the key in the order of the index of the pages, the collations that make PostgreSQL use both
        indexes, and why there are no pages if so; and the problems: that there is no unique index, or none by which
        the versions of a key are found.
    """
    names = [column.name for column in spec.key]
    texts = {column.name for column in spec.key if column.kind.is_text}
    if spec.validity is None:
        looked_up = next((index for index in indexes if index.is_unique_within(names)), None)
        problems = [] if looked_up is not None else [_missing_unique_index(spec, names)]
    else:
        looked_up = next((index for index in indexes if index.leads_with(names)), None)
        versions = [*names, spec.validity.begin.name]
        are_distinct = versions_apart or any(index.is_unique_within(versions) for index in indexes)
        problems = [] if are_distinct else [_missing_unique_index(spec, versions)]
        if looked_up is None and are_distinct:  # the unique index that is missing otherwise would do
            problems = [_missing_index(spec, names)]
    if problems:
        return spec, problems
    paged = next((index for index in indexes if index.orders_by_bytes(names, texts)), None)
    key = tuple(
        replace(
            column,
            lookup_collation=_named_collation(looked_up, column.name, columns[column.name]),
            page_collation=_named_collation(paged, column.name, columns[column.name]),
        )
        for column in spec.key
    )
    if paged is None:
        return replace(spec, key=key, page_refusal=_page_refusal(spec, names, texts)), []
    return replace(spec, key=tuple(sorted(key, key=lambda column: paged.columns.index(column.name)))), []


def _named_collation(index: CatalogIndex | None, name: str, column: CatalogColumn) -> tuple[str, str] | None:
    """The collation of the index's column, where it is not the column's own, so that a query has to name it."""
    collation = None if index is None else index.collations.get(name)
    return collation.name if collation is not None and collation != column.collation else None


def _missing_unique_index(spec: RelationSpec, names: list[str]) -> str:
    key = ", ".join(sql_name(name) for name in names)
    match = "match" if spec.validity is None else "version that began at the same time"
    return (
        f"there is no unique index on ({key}), so that a tuple could find more than one {match}; "
        f"a partial or expression index does not count: "
        f"CREATE UNIQUE INDEX ON {sql_name(spec.schema, spec.table)} ({key})"
    )


def _missing_index(spec: RelationSpec, names: list[str]) -> str:
    key = ", ".join(sql_name(name) for name in names)
    return (
        f"no index begins with ({key}), by which the versions of a tuple are found: "
        f"CREATE INDEX ON {sql_name(spec.schema, spec.table)} ({key})"
    )


def _page_refusal(spec: RelationSpec, names: list[str], texts: set[str]) -> str:
    key = ", ".join(f'{sql_name(name)} COLLATE "C"' if name in texts else sql_name(name) for name in names)
    unique = "UNIQUE " if spec.validity is None else ""
    return (
        f"Pages of {spec.relation} can't be read: no index has its key in the order of bytes. "
        f"Either CREATE {unique}INDEX ON {sql_name(spec.schema, spec.table)} ({key}), "
        "or choose `algorithm: batched_index_nested_loop`, which needs no pages."
    )


def forbids_overlaps(connection: extensions.connection, table_id: int, spec: RelationSpec) -> bool:
    """Whether no two versions of a key can be valid at the same time, because an exclusion constraint forbids it.

    Args:
        connection: where R is.
        table_id: R's.
        spec: the relation, with a validity.
    """
    assert spec.validity is not None, f"{spec.relation} keeps no versions"
    parameters = {
        "table": table_id,
        "validity": sorted([spec.validity.begin.name, spec.validity.end.name]),
        "key": [column.name for column in spec.key],
    }
    with connection.cursor() as cursor:
        cursor.execute(_FORBIDS_OVERLAPS, parameters)
        [(forbidden,)] = cursor.fetchall()
    return bool(forbidden)
