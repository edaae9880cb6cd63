"""Measures what a tuple costs in MESHJOIN's hash table, by a MESHJOIN at work on an R in memory."""

from __future__ import annotations

from functools import partial
from statistics import median

import numpy as np

from spark_jobs.experiments.calibration.displaced_caches import DisplacedCaches
from spark_jobs.experiments.calibration.relation_in_memory import RelationInMemory
from spark_jobs.experiments.calibration.step_calibration import measure_access
from spark_jobs.joins.semi_stream.early_release_mesh_join import EarlyReleaseMeshJoin
from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from spark_jobs.joins.semi_stream.theory.processor_costs import ProcessorCosts
from spark_jobs.joins.structures.keyed_tuples import KeyedTuples
from spark_jobs.relation.access_costs import Clock, seconds_of

_STEPS = 100
_TUPLE_BYTES = 8


def measure_multimap(waiting_tuples: int, page_rows: int, page_count: int, read: float, clock: Clock) -> ProcessorCosts:
    """Let a MESHJOIN with early release settle a uniform stream; MESHJOIN's own hash table has the same chains.

    To be handed on costs nothing apart, c_O is in c_E: a tuple's id and row of R come out of the chains together. So
    is what falls to a tuple of the sweep for those without match, which is about what it costs to expire in MESHJOIN.
    A step without tuples is MESHJOIN's own, the dearer one.

    Args:
        waiting_tuples: in the hash table.
        page_rows: tuples of a page of R.
        page_count: pages of R.
        read: c_S, the same for every join.
        clock: tells seconds.
    """
    early_release = measure_access(EarlyReleaseMeshJoin, clock)
    probe = _probe(waiting_tuples, page_rows, clock)
    # With no more pages than tuples, most steps settle something.
    relation = RelationInMemory(min(page_count, waiting_tuples), page_rows, _TUPLE_BYTES)
    join = EarlyReleaseMeshJoin(relation, relation.page_bytes + KeyedTuples.bytes_for(waiting_tuples))
    random = np.random.default_rng(waiting_tuples)
    # As in the middle of a run: most wait for the pages that come next, for those were read longest ago.
    keys = ((1 - np.sqrt(random.random(join.room))) * relation.row_count).astype(np.int64)
    join.push(keys, keys, np.arange(len(keys)))
    caches, append, joined = DisplacedCaches(), [], []
    for _ in range(_STEPS):
        caches.displace()
        step = seconds_of(clock, join.advance)
        settled = join.room
        if not settled:
            continue
        keys = random.integers(relation.row_count, size=settled)
        ids = np.arange(join.statistics.pushed, join.statistics.pushed + settled)
        push = seconds_of(clock, partial(join.push, keys, keys, ids))
        append.append(push / settled)
        joined.append((step + push - early_release - page_rows * probe) / settled)
    appended = median(append)
    return ProcessorCosts(
        probe=probe,
        front_probe=0.0,
        emit=0.0,
        evict=max(0.0, median(joined) - appended),
        read=read,
        append=appended,
        per_access=measure_access(partial(MeshJoin, blocking=False), clock),
    )


def _probe(waiting_tuples: int, page_rows: int, clock: Clock) -> float:
    """c_H: keys of R for which no tuple waits, beyond what a page of a single one costs."""
    waiting = KeyedTuples(waiting_tuples)
    keys = np.arange(waiting_tuples)
    waiting.append(keys, keys)
    caches, one, page = DisplacedCaches(), [], []
    for first in range(waiting_tuples, waiting_tuples + (_STEPS + 1) * page_rows, page_rows):
        absent = np.arange(first, first + page_rows)
        caches.displace()
        one.append(seconds_of(clock, partial(waiting.take, absent[:1])))
        caches.displace()
        page.append(seconds_of(clock, partial(waiting.take, absent)))
    further = median(page[1:]) - median(one[1:])  # the first ones have compiled the kernels
    return max(0.0, further) / max(1, page_rows - 1)
