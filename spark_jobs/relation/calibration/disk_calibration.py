"""Measures what reading R costs: pages of several sizes, single lookups, batches of lookups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from spark_jobs.joins.semi_stream.base import Relation
from spark_jobs.joins.semi_stream.theory.batch_choice import AccessCosts
from spark_jobs.joins.semi_stream.theory.disk_costs import DiskCosts, fit_page_reads
from spark_jobs.relation.calibration.median_of_means import ROUNDS, Clock, median_of_means, real_clock, seconds_of
from spark_jobs.relation.calibration.sample_reads import (
    NumberedRelation,
    SampleLookups,
    page_sizes,
    rows_of_a_lookup,
    spread_pages,
    stays_in_memory,
)
from spark_jobs.relation.page_runs import PageRuns
from spark_jobs.relation.paged_relation import PagedRelation
from spark_jobs.relation.postgres_relation import PostgresRelation

PAGES_READ = 60
SINGLE_LOOKUPS = 40
BATCH_KEYS = 200


@dataclass(frozen=True)
class PageRead:
    """What reading one page of some size costs.

    Attributes:
        page_rows: tuples of a page.
        page_bytes: what they take in memory on average.
        seconds: for one read.
    """

    page_rows: int
    page_bytes: int
    seconds: float


@dataclass(frozen=True)
class DiskMeasurement:
    """What reading R costs, and what was measured for it.

    Attributes:
        costs: the constants of the cost models.
        page_reads: reads by page size, ascending.
    """

    costs: DiskCosts
    page_reads: tuple[PageRead, ...]


def measure_disk(relation: PostgresRelation | NumberedRelation, clock: Clock = real_clock) -> DiskMeasurement:
    """Read pages of several sizes from all over R, and look keys up. About a second; ten on a hard disk.

    Args:
        relation: R, with pages, of which those that are measured are multiples.
        clock: tells seconds.
    """
    cuts = [relation.with_page_rows(rows) for rows in page_sizes(relation)]
    lookups = _prepared_lookups(relation, cuts)
    reads = _measure_pages(cuts, relation.tuple_bytes, clock)
    points = tuple((read.page_bytes, read.seconds) for read in reads)
    seek, bytes_per_second = fit_page_reads(*zip(*points, strict=True))
    overhead, per_key = _measure_lookups(lookups, clock) if lookups.count else (reads[0].seconds, 0.0)
    shared = rows_of_a_lookup(relation)
    return DiskMeasurement(DiskCosts(seek, bytes_per_second, overhead, per_key, points, shared), tuple(reads))


def measure_access(relation: PagedRelation, clock: Clock = real_clock, pages_at_once: int = 1) -> AccessCosts:
    """Read pages of the size that R is cut into, and look keys up. Takes about 0.1 s; a second where R is on a disk.

    Args:
        relation: R, with pages.
        clock: tells seconds.
        pages_at_once: pages that a scan of R would read in one go, see PageRuns.
    """
    lookups = _prepared_lookups(relation, [relation])
    [page_read] = _measure_pages([relation], relation.tuple_bytes, clock)
    overhead, per_key = _measure_lookups(lookups, clock) if lookups.count else (page_read.seconds, 0.0)
    scanned = _measure_scan(relation, pages_at_once, clock) if pages_at_once > 1 else None
    return AccessCosts(page_read.seconds, per_key, overhead, scanned)


def _measure_scan(relation: PagedRelation, pages_at_once: int, clock: Clock) -> float:
    """Seconds for each page of a run of them."""
    runs = PageRuns(relation, pages_at_once)
    [run] = _measure_pages([runs], relation.tuple_bytes, clock)
    return run.seconds / min(pages_at_once, relation.page_count)


def _prepared_lookups(relation: PagedRelation | NumberedRelation, cuts: Sequence[Relation]) -> SampleLookups:
    """Read in vain, to connect and compile; where R will soon be in the server's memory, all of it that is measured."""
    lookups = SampleLookups(relation, SINGLE_LOOKUPS + ROUNDS * BATCH_KEYS)
    everything = stays_in_memory(relation)
    for cut in cuts:
        for page in spread_pages(cut, PAGES_READ if everything else 1).tolist():
            cut.read_page(page)
    if lookups.count:
        lookups.look_up(np.arange(lookups.count if everything else 1))
    return lookups


def _measure_pages(cuts: Sequence[Relation], tuple_bytes: int, clock: Clock) -> list[PageRead]:
    """The sizes take turns, so that what else goes on while it lasts strikes them all."""
    numbers = [np.resize(spread_pages(cut, PAGES_READ), PAGES_READ).tolist() for cut in cuts]
    seconds: list[list[float]] = [[] for _ in cuts]
    tuples = [0] * len(cuts)
    for turn in range(PAGES_READ):
        for i, cut in enumerate(cuts):
            started = clock()
            page = cut.read_page(numbers[i][turn])
            seconds[i].append(clock() - started)
            tuples[i] += len(page.keys)
    return [
        PageRead(round(count / PAGES_READ), round(count * tuple_bytes / PAGES_READ), median_of_means(taken))
        for count, taken in zip(tuples, seconds, strict=True)
    ]


def _measure_lookups(lookups: SampleLookups, clock: Clock) -> tuple[float, float]:
    """Seconds of a lookup of one key, and of each further key in a batch."""
    numbers = np.arange(lookups.count)
    alone = numbers[:SINGLE_LOOKUPS]
    overhead = median_of_means(
        [seconds_of(clock, partial(lookups.look_up, key)) for key in np.split(alone, len(alone))]
    )
    others = numbers[SINGLE_LOOKUPS:] if lookups.count > SINGLE_LOOKUPS else numbers
    per_key = []
    for batch in np.array_split(others, min(ROUNDS, len(others))):
        together = seconds_of(clock, partial(lookups.look_up, batch))
        per_key.append(max(together - overhead, 0.0) / max(1, len(batch) - 1))
    return overhead, median_of_means(per_key)
