"""Measures what reading R costs here and now: its pages, single lookups, batches of them; `algorithm: auto` asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.joins.semi_stream.base import Int64Array, Page, Relation
from spark_jobs.joins.semi_stream.theory.batch_choice import AccessCosts
from spark_jobs.lookup.relation.catalog.sizes import fits_into_memory
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.stored_relation import RelationPart, StoredRelation

PAGES_READ = 60
SINGLE_LOOKUPS = 40
BATCH_KEYS = 200
ROUNDS = 5
KEYS_LOOKED_UP = SINGLE_LOOKUPS + ROUNDS * BATCH_KEYS

_FENCES_ENOUGH = 100
_PAGES_OF_KEYS = 16


Clock = Callable[[], float]

real_clock: Clock = time.perf_counter


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
class SampleLookups:
    """Lookups of keys that are in R.

    Attributes:
        count: how many keys there are to look up.
        look_up: looks up those of these numbers, int64 (n,), below `count`, in one access.
    """

    count: int
    look_up: Callable[[Int64Array], Page]


def measure_access(relation: StoredRelation, clock: Clock = real_clock, pages_at_once: int = 1) -> AccessCosts:
    """Read pages of the size that R is cut into, and look keys up. Takes about 0.1 s; a second where R is on a disk.

    Args:
        relation: R, with pages.
        clock: tells seconds.
        pages_at_once: pages that a scan of R would read in one go, see RelationPart.
    """
    part, tuple_bytes = RelationPart.whole(relation), relation.spec.tuple_bytes
    lookups = sample_lookups(relation)
    read_in_vain([part], lookups, everything=stays_in_memory(relation))
    [page_read] = measure_pages([part], tuple_bytes, clock)
    overhead, per_key = measure_lookups(lookups, clock) if lookups.count else (page_read.seconds, 0.0)
    scanned = None
    if pages_at_once > 1:
        [run] = measure_pages([part.in_runs_of(pages_at_once)], tuple_bytes, clock)
        scanned = run.seconds / min(pages_at_once, relation.page_count)
    return AccessCosts(page_read.seconds, per_key, overhead, scanned)


def sample_lookups(relation: StoredRelation) -> SampleLookups:
    """Lookups of keys from as many places as are known: the first of pages, or, of a small R, those on some pages."""
    keys = relation.pages.fences
    if len(keys) < _FENCES_ENOUGH:
        pages = _spread(relation.page_count, _PAGES_OF_KEYS)
        keys = KeyColumns.concatenate([relation.read_pages(page).rows.keys for page in pages.tolist()])
    keys = keys.take(shuffled(_spread(len(keys), KEYS_LOOKED_UP)))
    return SampleLookups(len(keys), lambda numbers: relation.lookup_keys(keys.take(numbers)))


def stays_in_memory(relation: StoredRelation) -> bool:
    """Whether a read that is done again finds R in the server's memory."""
    if not isinstance(relation, LiveRelation):
        return False
    spec = relation.spec
    return relation.connection.run(lambda connection: fits_into_memory(connection, spec.schema, spec.table))


def read_in_vain(cuts: Sequence[Relation], lookups: SampleLookups, *, everything: bool) -> None:
    """Read without measuring, to connect and compile.

    Args:
        cuts: R in pages of each size that will be measured.
        lookups: those that will be.
        everything: read all that will be measured, as R will soon be in the server's memory.
    """
    for cut in cuts:
        for page in _spread_pages(cut, PAGES_READ if everything else 1).tolist():
            cut.read_page(page)
    if lookups.count:
        lookups.look_up(np.arange(lookups.count if everything else 1))


def measure_pages(cuts: Sequence[Relation], tuple_bytes: int, clock: Clock) -> list[PageRead]:
    """What a page costs in each of the sizes, which take turns, so that what else goes on strikes them all.

    Args:
        cuts: R in pages of each size.
        tuple_bytes: memory of a tuple on average.
        clock: tells seconds.
    """
    numbers = [np.resize(_spread_pages(cut, PAGES_READ), PAGES_READ).tolist() for cut in cuts]
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


def measure_lookups(lookups: SampleLookups, clock: Clock) -> tuple[float, float]:
    """Seconds of a lookup of one key, and of each further key in a batch; there is at least one."""
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


def shuffled(numbers: Int64Array) -> Int64Array:
    """The same numbers in another order, always the same."""
    return np.random.default_rng(len(numbers)).permutation(numbers)


def _spread_pages(relation: Relation, most: int) -> Int64Array:
    """Up to `most` pages from all over R, in any order; without the last one, which may be short, where it can be."""
    return shuffled(_spread(max(1, relation.page_count - 1), most))


def _spread(count: int, most: int) -> Int64Array:
    """Up to `most` numbers below `count`, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def median_of_means(seconds: Sequence[float]) -> float:
    """The median of the means of five rounds: cheap and dear reads count as they come, but one stall does not.

    Args:
        seconds: in the order of measuring, at least one; every fifth belongs to the same round.
    """
    rounds = [np.mean(seconds[start::ROUNDS]) for start in range(min(ROUNDS, len(seconds)))]
    return float(np.median(rounds))


def seconds_of(clock: Clock, action: Callable[[], Any]) -> float:
    """How long an action takes."""
    started = clock()
    action()
    return clock() - started
