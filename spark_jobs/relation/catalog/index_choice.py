"""Chooses the indexes of R: one that lookups go by, and one whose order pages are cut in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spark_jobs.relation.catalog.columns import CatalogColumn
from spark_jobs.relation.catalog.indexes import CatalogIndex
from spark_jobs.relation.catalog.sql_names import sql_name
from spark_jobs.relation.relation_spec import RelationSpec


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
