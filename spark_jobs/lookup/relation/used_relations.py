"""What a pipeline says about a lookup, and the relations that pipelines look up with all the columns that they use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from psycopg2 import extensions

_REGISTERED = """
    SELECT lookup ->> 'relation', jsonb_path_query_array(lookup, '$.on.*'), jsonb_path_query_array(lookup, '$.fetch.*'),
        CASE jsonb_typeof(lookup -> 'validity') WHEN 'array' THEN lookup -> 'validity' END
    FROM freshet.pipeline, jsonb_array_elements(definition -> 'lookups') AS lookup
"""


class Lookup(Protocol):
    """What a pipeline says about one lookup."""

    @property
    def relation(self) -> str:
        """R: schema.table, as the catalog has the names."""

    @property
    def on(self) -> Mapping[str, str]:
        """Stream column: column of R that it equals."""

    @property
    def fetch(self) -> Mapping[str, str]:
        """Output name: column of R."""

    @property
    def validity(self) -> tuple[str, str] | None:
        """Columns of R from when and until when a version is valid; None if R has one row for each key."""


@dataclass(frozen=True)
class UsedColumns:
    """The columns of a relation that lookups use.

    Attributes:
        key: those that a row is found by, in alphabetical order.
        further: the others, in alphabetical order.
    """

    key: tuple[str, ...]
    further: tuple[str, ...]

    def contains(self, other: UsedColumns) -> bool:
        """Whether rows are found by the other's key columns, too, and all that the other uses is used."""
        return {*other.key} <= {*self.key} and {*other.further} <= {*self.key, *self.further}


def used_relations(cursor: extensions.cursor, lookups: Iterable[Lookup] = ()) -> dict[str, UsedColumns]:
    """The columns of each relation that a registered pipeline or one of these lookups uses.

    All pipelines read the same changes: so a change is noted with the columns that any of them uses.

    Args:
        cursor: on the warehouse.
        lookups: of pipelines that may not be registered yet.
    """
    cursor.execute(_REGISTERED)
    registered = [
        (relation, key, (*fetched, *(validity or ()))) for relation, key, fetched, validity in cursor.fetchall()
    ]
    return _united([*registered, *map(_use, lookups)])


def columns_of(lookups: Iterable[Lookup]) -> dict[str, UsedColumns]:
    """The columns of each relation that these lookups use."""
    return _united(map(_use, lookups))


_Use = tuple[str, Iterable[str], Iterable[str]]


def _use(lookup: Lookup) -> _Use:
    return lookup.relation, lookup.on.values(), (*lookup.fetch.values(), *(lookup.validity or ()))


def _united(uses: Iterable[_Use]) -> dict[str, UsedColumns]:
    keys: dict[str, set[str]] = {}
    others: dict[str, set[str]] = {}
    for relation, key, further in uses:
        keys.setdefault(relation, set()).update(key)
        others.setdefault(relation, set()).update(further)
    return {
        relation: UsedColumns(tuple(sorted(key)), tuple(sorted(others[relation] - key)))
        for relation, key in sorted(keys.items())
    }
