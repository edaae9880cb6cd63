"""Measures what a join's own work costs, with the kernels that the joins use."""

from __future__ import annotations

from functools import partial
from statistics import median

import numpy as np

from spark_jobs.experiments.calibration.front_stage_calibration import measure_front_probe, measure_upkeep
from spark_jobs.experiments.calibration.step_calibration import DisplacedCaches, RelationInMemory, measure_access
from spark_jobs.joins.semi_stream.early_release_mesh_join import EarlyReleaseMeshJoin
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from spark_jobs.joins.semi_stream.theory.setting import ProcessorCosts
from spark_jobs.joins.structures.keyed_tuples import KeyedTuples
from spark_jobs.joins.structures.page_probe import PageProbe
from spark_jobs.joins.structures.stream_buffer import StreamBuffer, TupleColumns
from spark_jobs.joins.structures.stream_tuples import StreamTuples
from spark_jobs.lookup.relation.access_costs import ROUNDS, Clock, median_of_means, real_clock, seconds_of

_MULTIMAP_STEPS = 100
_MULTIMAP_TUPLE_BYTES = 8

MOST_TUPLES = 1_000_000
# Of a small R each page settles a large part of memory, again and again: as many tuples tell what more would.
_MOST_FOR_A_PAGE = 5_000
PAPER_TUPLE_BYTES = 120

# A stream of more keys tells the same of a front stage, and takes more memory to draw.
_MOST_ROWS = 1 << 21

_REPETITIONS = 20 * ROUNDS
_PAGES_AT_ONCE = 10
# What a page settles, where skew and memory make reading pages worthwhile at all.
_SETTLED_BY_A_PAGE = 64
_SETTLED_BY_A_HOT_PAGE = 1024
_TUPLES_AT_ONCE = 4096


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
    relation = RelationInMemory(min(page_count, waiting_tuples), page_rows, _MULTIMAP_TUPLE_BYTES)
    join = EarlyReleaseMeshJoin(relation, relation.page_bytes + KeyedTuples.bytes_for(waiting_tuples))
    random = np.random.default_rng(waiting_tuples)
    # As in the middle of a run: most wait for the pages that come next, for those were read longest ago.
    keys = ((1 - np.sqrt(random.random(join.room))) * relation.row_count).astype(np.int64)
    join.push(keys, keys, np.arange(len(keys)))
    caches, append, joined = DisplacedCaches(), [], []
    for _ in range(_MULTIMAP_STEPS):
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
    for first in range(waiting_tuples, waiting_tuples + (_MULTIMAP_STEPS + 1) * page_rows, page_rows):
        absent = np.arange(first, first + page_rows)
        caches.displace()
        one.append(seconds_of(clock, partial(waiting.take, absent[:1])))
        caches.displace()
        page.append(seconds_of(clock, partial(waiting.take, absent)))
    further = median(page[1:]) - median(one[1:])  # the first ones have compiled the kernels
    return max(0.0, further) / max(1, page_rows - 1)


def measure_processor(
    *,
    waiting_tuples: int,
    page_rows: int,
    page_count: int,
    cached_tuples: int,
    tuple_bytes: int = PAPER_TUPLE_BYTES,
    clock: Clock = real_clock,
) -> ProcessorCosts:
    """Do the steps of HYBRIDJOIN, of a MESHJOIN and of a front stage with made-up keys. Takes about two seconds.

    The sizes matter because what fits into the processor's caches costs a fraction. What a call costs whatever it
    handles is shared out among the tuples of one page.

    Args:
        waiting_tuples: stream tuples in HYBRIDJOIN's memory (h_S of 003), from which follows how many are in as much
            of MESHJOIN's; a million are measured at most.
        page_rows: tuples of a page of R.
        page_count: pages of R.
        cached_tuples: tuples in the front stage; a million are measured at most.
        tuple_bytes: size of a tuple of R; matters to the front stage, which copies them.
        clock: tells seconds.
    """
    waiting = min(waiting_tuples, MOST_TUPLES)
    cached = max(1, min(cached_tuples, MOST_TUPLES))
    append, evict = _append_and_evict(max(_SETTLED_BY_A_PAGE, waiting), clock)
    probe, emit = _probe_and_emit(page_rows, clock)
    read = _read_stream(clock)
    front_probe = measure_front_probe(cached, clock)
    relation = RelationInMemory(min(page_count, -(-_MOST_ROWS // page_rows)), page_rows, tuple_bytes)
    enough = _MOST_FOR_A_PAGE * page_count
    upkeep = measure_upkeep(relation, cached, max(1, min(waiting, enough)), front_probe, clock)
    in_multimap = waiting * StreamTuples.bytes_for(1000) // KeyedTuples.bytes_for(1000)
    in_multimap = max(1, min(in_multimap, MOST_TUPLES, enough))
    return ProcessorCosts(
        probe=probe,
        front_probe=front_probe,
        emit=emit,
        evict=evict,
        read=read,
        append=append,
        per_access=measure_access(HybridJoin, clock),
        upkeep_per_access=upkeep.per_access,
        upkeep_per_miss=upkeep.per_miss,
        multimap=measure_multimap(in_multimap, page_rows, page_count, read, clock),
    )


def _append_and_evict(waiting_tuples: int, clock: Clock) -> tuple[float, float]:
    """c_A and c_E: a full queue with multimap loses the tuples of some pages, and gets as many new ones."""
    random = np.random.default_rng(waiting_tuples)
    waiting = StreamTuples(waiting_tuples)
    page_count = max(1, waiting_tuples // _SETTLED_BY_A_PAGE)
    keys = np.arange(waiting_tuples)
    waiting.append(keys, random.integers(page_count, size=waiting_tuples), keys)
    append, evict = [], []
    for repetition in range(_REPETITIONS + 1):
        evicted, taking = 0, 0.0
        for page in random.integers(page_count, size=_PAGES_AT_ONCE).tolist():
            started = clock()
            taken, _ = waiting.take_page(page)
            taking += clock() - started
            evicted += len(taken)
        if not evicted:
            continue  # a small queue may hold no tuple of these pages
        new_keys, new_pages = np.arange(evicted), random.integers(page_count, size=evicted)
        appending = seconds_of(clock, partial(waiting.append, new_keys, new_pages, new_keys))
        if repetition:  # the first one has compiled the kernels
            append.append(appending / evicted)
            evict.append(taking / evicted)
    return median_of_means(append), median_of_means(evict)


def _probe_and_emit(page_rows: int, clock: Clock) -> tuple[float, float]:
    """c_H and c_O: a page that settles hardly a tuple costs its probes, one that settles many costs these, too."""
    probe = PageProbe(PageProbe.bytes_for(8 * page_rows))
    page_keys = np.arange(page_rows)
    random = np.random.default_rng(page_rows)
    few, many = np.zeros(1, np.int64), random.integers(page_rows, size=_SETTLED_BY_A_HOT_PAGE)
    probe.join(many, many, page_keys)
    seconds_few, seconds_many = [], []
    for _ in range(_REPETITIONS):
        seconds_few.append(seconds_of(clock, partial(probe.join, few, few, page_keys)))
        seconds_many.append(seconds_of(clock, partial(probe.join, many, many, page_keys)))
    page = median_of_means(seconds_few)
    return page / page_rows, max(median_of_means(seconds_many) - page, 0.0) / (len(many) - len(few))


def _read_stream(clock: Clock) -> float:
    """c_S: key, page and id of a stream tuple copied out of the stream buffer; who fills that has found the page."""
    buffer = StreamBuffer(_TUPLES_AT_ONCE)
    tuples = TupleColumns(*np.arange(3 * _TUPLES_AT_ONCE).reshape(3, -1))
    seconds = []
    for _ in range(_REPETITIONS):
        buffer.append(tuples)
        seconds.append(seconds_of(clock, partial(buffer.take_oldest, _TUPLES_AT_ONCE)))
    return median_of_means(seconds) / _TUPLES_AT_ONCE
