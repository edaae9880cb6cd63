"""How the tasks of a batch read R from a copy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.relation.changes.changed_keys import ChangedKeys
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.local_copy import ChangedCopy, CopyManifest, LocalCopy
from spark_jobs.relation.page_index import PageIndex
from spark_jobs.relation.stored_relation import StoredRelation
from spark_jobs.stages.mapped_broadcast import MappedBroadcast


@dataclass(frozen=True)
class CopyPlan:
    """The copy of one lookup in one batch.

    Attributes:
        manifest: the broadcast CopyManifest.
        changed: the broadcast ChangedKeys of R since it was taken; None: no change has been noted.
    """

    manifest: MappedBroadcast
    changed: MappedBroadcast | None

    @property
    def stored_pages(self) -> PageIndex:
        """The copy's own pages, by which a damaged one is read live."""
        manifest: CopyManifest = self.manifest.value()
        return manifest.index

    def open(self, live: StoredRelation, page_rows: int, keys: KeyColumns) -> LocalCopy | ChangedCopy:
        """The copy as one task's tuples shall see it.

        Args:
            live: R itself, cut into the copy's own pages.
            page_rows: tuples of a page.
            keys: keys of the task's stream tuples; those that have changed are looked up live, now.
        """
        copy = LocalCopy(self.manifest.value(), live.spec, live, page_rows)
        changed: ChangedKeys | None = self.changed.value() if self.changed is not None else None
        if changed is None:
            return copy
        among = np.flatnonzero(changed.contains(keys.codes) & keys.valid)
        return ChangedCopy(copy, live, keys.take(among)) if len(among) else copy
