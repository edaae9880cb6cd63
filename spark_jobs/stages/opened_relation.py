"""R opened for one back task: live or a local copy of it, behind its read limit, and the part that the task joins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.relation.changes.unnoticed import ChangedKeys
from spark_jobs.relation.keys.key_columns import KeyColumns
from spark_jobs.relation.live import LiveRelation
from spark_jobs.relation.local_copy.copy_files import CopyManifest
from spark_jobs.relation.local_copy.local_copy import ChangedCopy, LocalCopy
from spark_jobs.relation.read_limit import LimitedRelation, ReadLimit, read_limit_of
from spark_jobs.relation.stored_relation import RelationPart
from spark_jobs.stages.batch_context import BatchContext, CopyPlan, LookupPlan, OwnedPages


@dataclass(frozen=True)
class OpenedRelation:
    """R as one task reads it.

    Attributes:
        part: what its join sees.
        live: what it reads of PostgreSQL, counted and limited.
        copy: the local copy that it reads; None: it reads R live.
    """

    part: RelationPart
    live: LimitedRelation
    copy: LocalCopy | ChangedCopy | None = None

    @property
    def most_tuples(self) -> int | None:
        """Tuples that one read should not exceed; None: any number, as a copy is read as fast as can be."""
        return self.live.most_tuples if self.copy is None else None

    @property
    def damaged_pages(self) -> int:
        """Pages of the copy that were read live instead."""
        return 0 if self.copy is None else self.copy.pages_read_live


def open_relation(
    plan: LookupPlan, context: BatchContext, keys: KeyColumns, pages: NDArray[np.int64]
) -> OpenedRelation:
    """Open R for the tuples of one task.

    Args:
        plan: the lookup.
        context: the batch.
        keys: keys of the tuples, shape (n,).
        pages: int64, shape (n,), the page of R that each waits for, all of one part of the exchange.
    """
    url, limit = context.warehouse_url, _read_limit(plan, context)
    if plan.pages is None:
        live = LimitedRelation(LiveRelation(url, plan.spec), limit)
        return OpenedRelation(RelationPart(live, keys, range(0)), live)
    owned: OwnedPages = plan.pages.value()
    task_pages = owned.range_around(pages)
    if plan.copy is None:
        live = LimitedRelation(LiveRelation(url, plan.spec, owned.index), limit)
        return OpenedRelation(RelationPart(live, keys, task_pages), live)
    manifest: CopyManifest = plan.copy.manifest.value()
    live = LimitedRelation(LiveRelation(url, plan.spec, manifest.index), limit)  # damaged pages are read from there
    copy = _with_changes(LocalCopy(manifest, plan.spec, live, owned.index.page_rows), plan.copy, live, keys)
    return OpenedRelation(RelationPart(copy, keys, task_pages), live, copy)


def _with_changes(copy: LocalCopy, plan: CopyPlan, live: LimitedRelation, keys: KeyColumns) -> LocalCopy | ChangedCopy:
    """The copy with those of the tuples' keys looked up live, now, that have changed since it was taken."""
    if plan.changed is None:
        return copy
    changed: ChangedKeys = plan.changed.value()
    among = np.flatnonzero(changed.contains(keys.codes) & keys.valid)
    return ChangedCopy(copy, live, keys.take(among)) if len(among) else copy


def _read_limit(plan: LookupPlan, context: BatchContext) -> ReadLimit | None:
    """The task's share of the lookup's limit."""
    if plan.read_limit is None:
        return None
    return read_limit_of((plan.position, plan.spec.relation), plan.read_limit / context.parts)
