"""Measures what reading R costs here and now, so that `algorithm: auto` chooses by it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from spark_jobs.joins.semi_stream.base import Int64Array, Page
from spark_jobs.joins.semi_stream.cost_model import AccessCosts
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.postgres_relation import PostgresRelation
from spark_jobs.relation.relation_size import fits_into_memory

PAGES_READ = 16
SINGLE_LOOKUPS = 8
KEYS_LOOKED_UP = 1_000
FENCES_ENOUGH = 100

Clock = Callable[[], float]


def measure_access(relation: PostgresRelation, clock: Clock = time.perf_counter) -> AccessCosts:
    """Read some pages and look some keys up. Takes about 0.1 s; a second or so where R is not in memory.

    Pages and keys are spread over all of R, because neighbours of what was just read are found in the caches of
    PostgreSQL and of the processor, and joins don't ask for neighbours only. Where R fits into PostgreSQL's memory it
    will soon be there, and what counts is what the same reads cost the second time.

    Args:
        relation: R, with a page index.
        clock: tells seconds.
    """
    relation.read_page(0)  # connects, and compiles the kernels
    numbers = _spread(relation.page_count, PAGES_READ)
    keys = _keys_over_all(relation, numbers)
    relation.lookup_keys(keys.take(np.arange(min(1, len(keys)))))
    costs = _measure_once(relation, numbers, keys, clock)
    spec = relation.spec
    cached = relation.connection.run(lambda connection: fits_into_memory(connection, spec.schema, spec.table))
    return _measure_once(relation, numbers, keys, clock) if cached else costs


def _measure_once(relation: PostgresRelation, pages: Int64Array, keys: KeyColumns, clock: Clock) -> AccessCosts:
    page_read = float(np.mean([_seconds(clock, partial(relation.read_page, page)) for page in pages.tolist()]))
    if len(keys) == 0:
        return AccessCosts(page_read, 0.0, page_read)  # R is empty
    alone = [keys.take(np.array([i])) for i in range(min(SINGLE_LOOKUPS, len(keys)))]
    overhead = float(np.median([_seconds(clock, partial(relation.lookup_keys, key)) for key in alone]))
    others = keys.take(np.arange(len(alone) if len(keys) > len(alone) else 0, len(keys)))
    together = _seconds(clock, partial(relation.lookup_keys, others))
    return AccessCosts(page_read, max(together - overhead, 0.0) / len(others), overhead)


def _keys_over_all(relation: PostgresRelation, pages: Int64Array) -> KeyColumns:
    """Keys of R from as many places as can be told: the first ones of pages, or, of a small R, those on some pages."""
    keys = relation.pages.fences
    if len(keys) < FENCES_ENOUGH:
        keys = KeyColumns.concatenate([relation.read_page(page).rows.keys for page in pages.tolist()])
    return keys.take(np.random.default_rng(len(keys)).permutation(_spread(len(keys), KEYS_LOOKED_UP)))


def _spread(count: int, most: int) -> Int64Array:
    """Up to `most` numbers below `count`, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _seconds(clock: Clock, read: Callable[[], Page]) -> float:
    started = clock()
    read()
    return clock() - started
