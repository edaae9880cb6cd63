"""Tuples of R in memory: their join keys and the fetched columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.versions import versions_by_key

if TYPE_CHECKING:
    from spark_jobs.relation.relation_spec import RelationSpec


@dataclass(frozen=True, eq=False)
class RelationRows:
    """n tuples of R.

    Attributes:
        keys: their join keys, shape (n,), all valid.
        columns: the fetched columns under their output names, n rows; of a relation with a validity one column, which
            holds the versions of each tuple (`versions`).
    """

    keys: KeyColumns
    columns: pa.Table

    @classmethod
    def empty(cls, spec: RelationSpec) -> RelationRows:
        """No tuples of a relation."""
        keys = KeyColumns.encode([pa.array([], kind) for kind in spec.key_types], spec.key_kinds)
        return cls(keys, spec.rows_schema.empty_table())

    @classmethod
    def null(cls, spec: RelationSpec) -> RelationRows:
        """One tuple of nulls: what a tuple takes at least."""
        return rows_of([pa.nulls(1, kind.arrow) for kind in spec.read_types], spec)

    @classmethod
    def concatenate(cls, parts: Sequence[RelationRows]) -> RelationRows:
        """The tuples of all parts, one after the other, in one chunk per column; at least one part."""
        if len(parts) == 1:
            return parts[0]
        columns = pa.concat_tables([part.columns for part in parts]).combine_chunks()
        return cls(KeyColumns.concatenate([part.keys for part in parts]), columns)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Memory of keys and columns, in bytes."""
        return self.keys.nbytes + self.columns.nbytes

    def take(self, indices: NDArray[np.int64]) -> RelationRows:
        """The tuples at these positions, int64 (k,)."""
        return RelationRows(self.keys.take(indices), self.columns.take(pa.array(indices)))

    def with_unique_codes(self) -> RelationRows:
        """The tuples whose codes differ, as joins want them: of those that share a hash code, the first.

        Whoever confirms matches by the real keys finds that a tuple left out was meant, and looks it up alone.
        """
        if self.keys.encoded is None:
            return self
        _, first = np.unique(self.keys.codes, return_index=True)
        return self if len(first) == len(self) else self.take(np.sort(first))


def rows_of(columns: Sequence[pa.Array], spec: RelationSpec) -> RelationRows:
    """Tuples of R from the columns that every read of R returns, each of shape (n,).

    Of a relation with a validity, whose rows are versions, the rows of a key become one tuple of R. O(n log n) then.
    """
    width = len(spec.key)
    keys = KeyColumns.encode(columns[:width], spec.key_kinds)
    if spec.validity is None:
        return RelationRows(keys, pa.table(list(columns[width:]), schema=spec.fetched_schema))
    begins, ends, *fetched = columns[width:]
    first, versions = versions_by_key(keys, begins, ends, pa.table(fetched, schema=spec.fetched_schema))
    return RelationRows(keys.take(first), pa.table([versions], schema=spec.rows_schema))
