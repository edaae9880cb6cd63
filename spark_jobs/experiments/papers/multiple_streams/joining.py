"""002 Fig. 5, Fig. 6 and the costs of a probe: what a tuple costs that finds all others in memory, or does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from spark_jobs.experiments.papers.claims import fact, is_faster, ours, predictions_hold, ratio_at, ratio_moves
from spark_jobs.experiments.papers.figure import Axis, Cause, Curves, Figure, Origin, Panel, Point, Series
from spark_jobs.experiments.papers.multiple_streams.specification import (
    DATA,
    SELECTIVITIES,
    STREAMS,
    Batch,
    Streams,
    predicted_am_join_probes,
    predicted_m_join_probes,
    tuple_count,
)
from spark_jobs.experiments.papers.setting import Setting
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.am_join import AMJoin
from spark_jobs.joins.stream_stream.base import StreamStreamJoin, Tuples
from spark_jobs.joins.stream_stream.keys_in_all_streams import KeysInAllStreams
from spark_jobs.joins.stream_stream.m_join import MJoin
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.stream_stream.probe_order import FixedOrder
from spark_jobs.joins.structures.bit_vector_table import BitVectorTable
from spark_jobs.joins.structures.hashed_streams import HashedStreams
from spark_jobs.joins.structures.multi_way_probe import join_with

_ROUNDS = 5
_ONE, _MANY = 1, 64
_MEMORY_A_TUPLE = 120
PUBLISHED_TABLE, PUBLISHED_BITS = 288.0, 161.0

Work = Callable[[Batch], object]


def joining(join: StreamStreamJoin) -> Work:
    """The work of joining a batch."""
    return lambda batch: join.arrive(batch.stream, Tuples(batch.ids, batch.keys))


def nanoseconds(works: dict[str, Work], streams: Streams, measured: int) -> dict[str, float]:
    """Processor time a tuple of each work, in turn with the others for every batch; the median of some rounds."""
    for batch in streams.all_once():
        for work in works.values():
            work(batch)
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(_ROUNDS):
        batches = list(streams.some_again(measured // _ROUNDS))
        for name, work in works.items():
            started = time.process_time()
            for batch in batches:
                work(batch)
            spent[name].append((time.process_time() - started) / sum(len(batch.keys) for batch in batches))
    return {name: 1e9 * median(seconds) for name, seconds in spent.items()}


def _lines(xs: Sequence[float], values: dict[str, list[float]], predicted: Sequence[float] = ()) -> tuple[Series, ...]:
    told = predicted or [None] * len(xs)
    return tuple(
        Series(
            name,
            tuple(Point(x, y, p) for x, y, p in zip(xs, ys, told, strict=True)),
            Origin.OURS if "batch" in name else Origin.PAPER,
        )
        for name, ys in values.items()
    )


def measure_selectivity(setting: Setting) -> list[Panel]:
    """Probes and processor time a tuple."""
    tuples = tuple_count(setting)
    memory = _MEMORY_A_TUPLE * tuples * 2
    xs = setting.some(SELECTIVITIES)
    times: dict[str, list[float]] = {}
    probes: dict[str, list[float]] = {"MJoin": [], "AMJoin": []}
    for x in setting.each(xs, lambda x: f"selectivity {x:g}"):
        streams = Streams(tuples, x)
        joins: dict[str, StreamStreamJoin] = {
            "MJoin": MJoin(STREAMS, Equality(), memory, VirtualSpill(), order=FixedOrder(), block=_ONE),
            "AMJoin": AMJoin(STREAMS, Equality(), memory, VirtualSpill(), block=_ONE),
            "MJoin, batch at once": MJoin(STREAMS, Equality(), memory, VirtualSpill(), block=_MANY),
            "AMJoin, batch at once": AMJoin(STREAMS, Equality(), memory, VirtualSpill(), block=_MANY),
        }
        for batch in streams.all_once():
            for join in joins.values():
                joining(join)(batch)
        before = {name: joins[name].statistics.probes for name in probes}
        spent: dict[str, list[float]] = {name: [] for name in joins}
        measured = 0
        for _ in range(_ROUNDS):
            batches = list(streams.some_again(tuples // 10 // _ROUNDS))
            measured += sum(len(batch.keys) for batch in batches)
            for name, join in joins.items():
                started = time.process_time()
                for batch in batches:
                    joining(join)(batch)
                spent[name].append((time.process_time() - started) / sum(len(batch.keys) for batch in batches))
        for name, seconds in spent.items():
            times.setdefault(f"{name}: time", []).append(1e9 * median(seconds))
        for name in probes:
            probes[name].append((joins[name].statistics.probes - before[name]) / measured)
    predictions = {
        "MJoin": [predicted_m_join_probes(x) for x in xs],
        "AMJoin": [predicted_am_join_probes(x) for x in xs],
    }
    counted = tuple(line for name in probes for line in _lines(xs, {name: probes[name]}, predictions[name]))
    axis = Axis("join selectivity")
    return [
        Panel(axis, Axis("looks at tables and bit vectors a tuple"), counted),
        Panel(axis, Axis("processor time a tuple (ns)"), _lines(xs, times)),
    ]


def measure_ids(setting: Setting) -> list[Panel]:
    """Tuples a second of the query for ids alone."""
    tuples = tuple_count(setting)
    memory = _MEMORY_A_TUPLE * tuples * 2
    xs = setting.some(SELECTIVITIES)
    rates: dict[str, list[float]] = {}
    for x in setting.each(xs, lambda x: f"selectivity {x:g}"):
        join = MJoin(STREAMS, Equality(), memory, VirtualSpill(), order=FixedOrder(), block=_ONE)
        works: dict[str, Work] = {"MJoin": joining(join)}
        for name, block in (("AMJoin", _ONE), ("AMJoin, batch at once", _MANY)):
            query = KeysInAllStreams(STREAMS, memory // 4, block=block)
            works[name] = lambda batch, query=query: query.arrive(batch.stream, batch.keys)  # type: ignore[misc]
        for name, spent in nanoseconds(works, Streams(tuples, x), tuples // 10).items():
            rates.setdefault(name, []).append(1e3 / spent)
    return [Panel(Axis("join selectivity"), Axis("tuples a second (millions)"), _lines(xs, rates))]


def measure_probe(setting: Setting) -> list[Panel]:
    """A look at a table of one stream and at the bit vectors, by their size."""
    sizes = [size for size in (10_000, 100_000, 1_000_000) if size <= max(tuple_count(setting), 100_000)]
    spent: dict[str, list[float]] = {}
    random = np.random.default_rng(2)
    for size in setting.each(sizes, lambda size: f"{size:,} tuples"):
        keys = random.permutation(4 * size)
        held, ids = keys[: size // 2 * 2], np.arange(size // 2 * 2)
        table, bits = HashedStreams(2 * size, 2), BitVectorTable(2 * size)
        table.insert(1, held, ids, ids)
        bits.add(1, held, 3)
        asked = random.choice(keys[: 3 * size // 2], 100_000)
        bits.add(0, asked, 1)
        order, numbers = np.array([1]), np.arange(len(asked))

        def look_at_table(block: int, table: HashedStreams = table, asked: np.ndarray = asked) -> None:  # type: ignore[type-arg]
            join_with(table, 0, asked, numbers, order, block)

        def look_at_bits(block: int, bits: BitVectorTable = bits, asked: np.ndarray = asked) -> None:  # type: ignore[type-arg]
            bits.add(0, asked, 1 << 9, block)

        looks = {
            "hash table": lambda: look_at_table(_ONE),
            "bit vector": lambda: look_at_bits(_ONE),
            "hash table, batch at once": lambda: look_at_table(_MANY),
            "bit vector, batch at once": lambda: look_at_bits(_MANY),
        }
        rounds: dict[str, list[float]] = {name: [] for name in looks}
        for _ in range(_ROUNDS):
            for name, look in looks.items():
                started = time.process_time()
                look()
                rounds[name].append((time.process_time() - started) / len(asked))
        for name, seconds in rounds.items():
            spent.setdefault(name, []).append(1e9 * median(seconds))
    axis = Axis("tuples in the table", log=True)
    return [Panel(axis, Axis("processor time of a look (ns)"), _lines(sizes, spent))]
