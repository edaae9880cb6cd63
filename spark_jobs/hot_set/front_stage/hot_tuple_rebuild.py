"""Rebuilds the hot tuples of one lookup: chosen by their recorded frequencies, read again from R."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from spark_jobs.hot_set.cache_files import CacheVersion
from spark_jobs.joins.semi_stream.front_stage import FrontStage
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.limited import LimitedRelation
from spark_jobs.relation.live import LiveRelation
from spark_jobs.relation.read_limit import ReadLimit
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.relation.relation_spec import RelationSpec

# A statement for more keys takes more of the server's memory at once.
_KEYS_AT_ONCE = 20_000


@dataclass(frozen=True)
class RereadTask:
    """Reads tuples of R; called where a task runs. Pickles.

    Attributes:
        url: libpq URL of the warehouse.
        spec: R.
        limit: gives the limit of what one process may read, which all tasks in it share; None: there is none.
    """

    url: str
    spec: RelationSpec
    limit: Callable[[], ReadLimit] | None

    def __call__(self, keys: KeyColumns) -> RelationRows:
        """The tuples of R that have these keys now; those that have vanished are left out."""
        relation = LimitedRelation(LiveRelation(self.url, self.spec), self.limit() if self.limit else None)
        at_once = relation.most_tuples or max(len(keys), 1)
        parts = (np.arange(first, min(first + at_once, len(keys))) for first in range(0, len(keys), at_once))
        found = [relation.lookup_keys(keys.take(part)).rows for part in parts]
        return RelationRows.concatenate([RelationRows.empty(self.spec), *found])


Reread = Callable[[RereadTask, list[KeyColumns]], list[RelationRows]]
"""Calls the task for each of several parts of the keys, in any order and place; the results in any order."""


def rebuilt_hot_tuples(
    recorded: CacheVersion, task: RereadTask, noticed: str, *, memory_bytes: int, parts: int, reread: Reread
) -> CacheVersion:
    """The most frequent tuples that fit a front stage, as R has them now.

    Args:
        recorded: tuples with the frequencies that were recorded, any number.
        task: reads them.
        noticed: pg_snapshot as text, taken before: what changes after this counts as changed since.
        memory_bytes: memory of the front stage.
        parts: tasks that share the reading; each reads a range of the keys.
        reread: how they run.

    Returns:
        a version like the recorded one, the most frequent tuple first. Its number is the recorded one's.
    """
    spec = task.spec
    capacity = FrontStage(memory_bytes, max(spec.tuple_bytes, 1)).capacity
    chosen = np.argsort(-recorded.frequencies, kind="stable")[:capacity]
    keys, frequencies = recorded.rows.keys.take(chosen), recorded.frequencies[chosen]
    found = RelationRows.concatenate([RelationRows.empty(spec), *reread(task, _ranges(keys, parts))])
    found_frequencies = _frequencies_of(found.keys, keys, frequencies)
    order = np.argsort(-found_frequencies, kind="stable")
    return CacheVersion(
        version=recorded.version,
        origin="rebuilt",
        built_at=datetime.now(UTC),
        rows=found.take(order),
        frequencies=found_frequencies[order],
        noticed=noticed,
    )


def _ranges(keys: KeyColumns, parts: int) -> list[KeyColumns]:
    """The keys in contiguous ranges of about equal size, so that each task reads a part of the index of its own."""
    ordered = keys.in_order()
    count = max(parts, -(-len(keys) // _KEYS_AT_ONCE))
    return [ordered.take(some) for some in np.array_split(np.arange(len(keys)), count) if len(some)]


def _frequencies_of(found: KeyColumns, keys: KeyColumns, frequencies: NDArray[np.float32]) -> NDArray[np.float32]:
    """The frequencies of those keys that were found, whose codes differ as those of all hot tuples do."""
    order = np.argsort(keys.codes)
    places = np.searchsorted(keys.codes, found.codes, sorter=order)
    return frequencies[order[places]]
