"""How the tasks of a batch read R from a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.relation.changes.changed_keys import ChangedKeys
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.page_index import PageIndex
from spark_jobs.relation.postgres_snapshot import PostgresSnapshot, SnapshotManifest, SnapshotWithChanges
from spark_jobs.stages.mapped_broadcast import MappedBroadcast
from spark_jobs.stages.metered_relation import ReadRelation


@dataclass(frozen=True)
class SnapshotPlan:
    """The snapshot of one lookup in one batch.

    Attributes:
        manifest: the broadcast SnapshotManifest.
        changed: the broadcast ChangedKeys of R since it was taken; None: no change has been noted.
    """

    manifest: MappedBroadcast
    changed: MappedBroadcast | None

    @property
    def stored_pages(self) -> PageIndex:
        """The snapshot's own pages, by which a damaged one is read live."""
        manifest: SnapshotManifest = self.manifest.value()
        return manifest.index

    def open(self, live: ReadRelation, page_rows: int, keys: KeyColumns) -> OpenSnapshot:
        """The snapshot for one task.

        Args:
            live: R itself, cut into the snapshot's own pages.
            page_rows: tuples of a page.
            keys: keys of the task's stream tuples; those that have changed are looked up live, now.
        """
        snapshot = PostgresSnapshot(self.manifest.value(), live.spec, live, page_rows)
        changed: ChangedKeys | None = self.changed.value() if self.changed is not None else None
        if changed is None:
            return OpenSnapshot(snapshot, snapshot)
        among = np.flatnonzero(changed.contains(keys.codes) & keys.valid)
        return OpenSnapshot(snapshot, SnapshotWithChanges(snapshot, live, keys.take(among)) if len(among) else snapshot)


@dataclass(frozen=True)
class OpenSnapshot:
    """A snapshot that a task reads.

    Attributes:
        snapshot: the files.
        relation: R as the task's tuples shall see it.
    """

    snapshot: PostgresSnapshot
    relation: ReadRelation
