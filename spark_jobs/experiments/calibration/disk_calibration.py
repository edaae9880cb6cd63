"""Measures what reading R costs for the cost models: pages of several sizes, single lookups, batches of lookups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.experiments.numbered_relation import NumberedRelation, NumberedTable
from spark_jobs.joins.semi_stream.base import Relation
from spark_jobs.joins.semi_stream.theory.setting import DiskCosts, fit_page_reads
from spark_jobs.lookup.relation.access_costs import (
    KEYS_LOOKED_UP,
    Clock,
    PageRead,
    SampleLookups,
    measure_lookups,
    measure_pages,
    read_in_vain,
    real_clock,
    sample_lookups,
    shuffled,
    stays_in_memory,
)
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.stored_relation import RelationPart

_SMALLEST_PAGE_BYTES = 4 << 10
_LARGEST_PAGE_BYTES = 1 << 20


@dataclass(frozen=True)
class DiskMeasurement:
    """What reading R costs, and what was measured for it.

    Attributes:
        costs: the constants of the cost models.
        page_reads: reads by page size, ascending.
    """

    costs: DiskCosts
    page_reads: tuple[PageRead, ...]


def measure_disk(relation: LiveRelation | NumberedRelation, clock: Clock = real_clock) -> DiskMeasurement:
    """Read pages of several sizes from all over R, and look keys up. About a second; ten on a hard disk.

    Args:
        relation: R, with pages, of which those that are measured are multiples.
        clock: tells seconds.
    """
    if isinstance(relation, NumberedTable):
        relation = relation.live
    if isinstance(relation, LiveRelation):
        spec = relation.spec
        sizes = _page_sizes(spec.row_count, spec.tuple_bytes, relation.pages.page_rows)
        cuts: list[Relation] = [RelationPart.whole(relation.with_page_rows(rows)) for rows in sizes]
        lookups = sample_lookups(relation)
        # A server finds each key of a batch by itself.
        return _measured(cuts, lookups, spec.tuple_bytes, 1, clock, everything=stays_in_memory(relation))
    sizes = _page_sizes(relation.row_count, relation.tuple_bytes, relation.page_row_step)
    cuts = [relation.with_page_rows(rows) for rows in sizes]
    keys = shuffled(relation.sample_keys(KEYS_LOOKED_UP))
    lookups = SampleLookups(len(keys), lambda numbers: relation.lookup(keys[numbers], numbers))
    return _measured(cuts, lookups, relation.tuple_bytes, relation.page_row_step, clock, everything=False)


def _measured(
    cuts: Sequence[Relation], lookups: SampleLookups, tuple_bytes: int, shared: int, clock: Clock, *, everything: bool
) -> DiskMeasurement:
    """Args: `shared`: neighbouring tuples of R that keys of a batch share the cost of."""
    read_in_vain(cuts, lookups, everything=everything)
    reads = measure_pages(cuts, tuple_bytes, clock)
    points = tuple((read.page_bytes, read.seconds) for read in reads)
    seek, bytes_per_second = fit_page_reads(*zip(*points, strict=True))
    overhead, per_key = measure_lookups(lookups, clock) if lookups.count else (reads[0].seconds, 0.0)
    return DiskMeasurement(DiskCosts(seek, bytes_per_second, overhead, per_key, points, shared), tuple(reads))


def _page_sizes(row_count: int, tuple_bytes: int, step: int) -> list[int]:
    """Tuples of a page, ascending, multiples of `step`: five sizes from 4 KiB to 1 MiB, as far as R is large enough."""
    sizes = set()
    size = _SMALLEST_PAGE_BYTES
    while size <= _LARGEST_PAGE_BYTES:
        sizes.add(max(1, round(size / tuple_bytes / step)) * step)
        size *= 4
    fitting = {rows for rows in sizes if rows <= row_count}
    return sorted(fitting or {min(sizes)})
