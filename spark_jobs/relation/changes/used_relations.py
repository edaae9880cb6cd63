"""The relations that pipelines look up, with the key columns of all their lookups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from psycopg2 import extensions

_REGISTERED = """
    SELECT lookup ->> 'relation', jsonb_path_query_array(lookup, '$.on.*')
    FROM freshet.pipeline, jsonb_array_elements(definition -> 'lookups') AS lookup
"""


class Lookup(Protocol):
    """What a pipeline says about one lookup."""

    @property
    def relation(self) -> str:
        """R: schema.table."""

    @property
    def on(self) -> Mapping[str, str]:
        """Stream column: column of R that it equals."""


def used_relations(cursor: extensions.cursor, lookups: Iterable[Lookup] = ()) -> dict[str, tuple[str, ...]]:
    """Key columns of each relation that a registered pipeline or one of these lookups uses.

    All pipelines read the same changes: so a change is noted with the columns that any of them finds a row by.

    Args:
        cursor: on the warehouse.
        lookups: of pipelines that may not be registered yet.

    Returns:
        the columns in alphabetical order, by relation.
    """
    cursor.execute(_REGISTERED)
    return _united([*cursor.fetchall(), *((lookup.relation, lookup.on.values()) for lookup in lookups)])


def key_columns_of(lookups: Iterable[Lookup]) -> dict[str, tuple[str, ...]]:
    """Key columns of each relation that these lookups use, in alphabetical order."""
    return _united((lookup.relation, lookup.on.values()) for lookup in lookups)


def _united(uses: Iterable[tuple[str, Iterable[str]]]) -> dict[str, tuple[str, ...]]:
    columns: dict[str, set[str]] = {}
    for relation, keys in uses:
        columns.setdefault(relation, set()).update(keys)
    return {relation: tuple(sorted(keys)) for relation, keys in sorted(columns.items())}
