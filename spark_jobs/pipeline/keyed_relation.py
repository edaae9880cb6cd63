"""R as a back stage sees it: pages and lookups, with the stream tuples' own keys behind their codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.postgres_relation import PostgresRelation


class KeyedRelation:
    """Joins' view of a relation for one task's tuples, whose ids are positions in `keys`.

    Args:
        relation: R.
        keys: keys of the task's stream tuples, shape (n,).
    """

    def __init__(self, relation: PostgresRelation, keys: KeyColumns) -> None:
        self._relation = relation
        self._keys = keys
        self._paged = relation.spec.page_refusal is None

    @property
    def page_count(self) -> int:
        """Pages of R."""
        return self._relation.page_count if self._paged else 0

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs at most, in bytes; of a relation without pages, that one tuple needs."""
        return self._relation.page_bytes if self._paged else self._relation.spec.tuple_bytes

    def read_page(self, number: int) -> Page:
        """Read one page of R."""
        return self._relation.read_page(number)

    def lookup(self, keys: NDArray[np.int64], ids: NDArray[np.int64]) -> Page:
        """Read the tuples of R that have the keys of these stream tuples."""
        return self._relation.lookup_keys(self._keys.take(ids))
