"""002 Fig. 5, Fig. 6 and the costs of a probe: what a tuple costs that finds all others in memory, or does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import numpy as np

from spark_jobs.experiments.papers.claims import fact, is_faster, ours, predictions_hold, ratio_at, ratio_moves
from spark_jobs.experiments.papers.figure import Axis, Cause, Curves, Figure, Origin, Panel, Point, Series
from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.papers.multiple_streams.five_streams import (
    DATA,
    SELECTIVITIES,
    STREAMS,
    Batch,
    Streams,
    predicted_am_join_probes,
    predicted_m_join_probes,
    tuple_count,
)
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.am_join import AMJoin
from spark_jobs.joins.stream_stream.base import StreamStreamJoin, Tuples
from spark_jobs.joins.stream_stream.keys_in_all_streams import KeysInAllStreams
from spark_jobs.joins.stream_stream.m_join import MJoin
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.stream_stream.probe_order import FixedOrder
from spark_jobs.joins.stream_stream.theory.choice import Workload, choose
from spark_jobs.joins.structures.bit_vector_table import BitVectorTable
from spark_jobs.joins.structures.hashed_streams import HashedStreams
from spark_jobs.joins.structures.multi_way_probe import join_with

_ROUNDS = 8
_ROUNDS_OF_LOOKS = 32  # They are short, and others use the machine's caches, too.
_ONE, _MANY = 1, 64
_MEMORY_A_TUPLE = 120
# Nothing has the bit of a tenth stream.
_NEVER = 1 << 9
_LOOKS = 50_000
_SIZES = (10_000, 100_000, 1_000_000)
_LARGEST = _SIZES[-1]
PUBLISHED_RATIO = round(2.88 / 1.61, 2)

Work = Callable[[Batch], object]


def joining(join: StreamStreamJoin) -> Work:
    """The work of joining a batch."""
    return lambda batch: join.arrive(batch.stream, Tuples(batch.ids, batch.keys))


def asking(query: KeysInAllStreams) -> Work:
    """The work of asking for a batch's ids."""
    return lambda batch: query.arrive(batch.stream, batch.keys)


def nanoseconds(works: dict[str, Work], streams: Streams, measured: int) -> dict[str, float]:
    """Processor time a tuple of each work; they take turns, and the least of some rounds counts."""
    spent = dict.fromkeys(works, float("inf"))
    for _ in range(_ROUNDS):
        batches = list(streams.some_again(measured // _ROUNDS))
        for name, work in works.items():
            started = time.process_time()
            for batch in batches:
                work(batch)
            seconds = time.process_time() - started
            spent[name] = min(spent[name], 1e9 * seconds / sum(len(batch.keys) for batch in batches))
    return spent


def _lines(xs: Sequence[float], values: dict[str, list[float]], predicted: Sequence[float] = ()) -> tuple[Series, ...]:
    told: Sequence[float | None] = predicted or [None] * len(xs)
    return tuple(
        Series(
            name,
            tuple(Point(x, y, p) for x, y, p in zip(xs, ys, told, strict=True)),
            Origin.OURS if "batch" in name else Origin.PAPER,
        )
        for name, ys in values.items()
    )


def measure_selectivity(setting: FigureSetting) -> list[Panel]:
    """Looks and processor time a tuple."""
    tuples = tuple_count(setting)
    memory = _MEMORY_A_TUPLE * tuples
    xs = setting.some(SELECTIVITIES)
    times: dict[str, list[float]] = {}
    probes: dict[str, list[float]] = {"MJoin": [], "AMJoin": []}
    for x in setting.each(xs, lambda x: f"selectivity {x:g}"):
        joins: dict[str, StreamStreamJoin] = {
            "MJoin": MJoin(STREAMS, Equality(), memory, VirtualSpill(), order=FixedOrder(), block=_ONE),
            "AMJoin": AMJoin(STREAMS, Equality(), memory, VirtualSpill(), block=_ONE),
            "MJoin, batch at once": MJoin(STREAMS, Equality(), memory, VirtualSpill(), block=_MANY),
            "AMJoin, batch at once": AMJoin(STREAMS, Equality(), memory, VirtualSpill(), block=_MANY),
        }
        streams, again = Streams(tuples, x), tuples // 5
        for batch in streams.all_once():
            for join in joins.values():
                joining(join)(batch)
        before = {name: joins[name].statistics.probes for name in probes}
        works = {name: joining(join) for name, join in joins.items()}
        for name, spent in nanoseconds(works, streams, again).items():
            times.setdefault(f"{name}: time", []).append(spent)
        for name, counted in probes.items():
            counted.append((joins[name].statistics.probes - before[name]) / again)
    predictions = {
        "MJoin": [predicted_m_join_probes(x) for x in xs],
        "AMJoin": [predicted_am_join_probes(x) for x in xs],
    }
    looked = tuple(line for name, ys in probes.items() for line in _lines(xs, {name: ys}, predictions[name]))
    axis = Axis("join selectivity")
    return [
        Panel(axis, Axis("looks at tables and bit vectors a tuple"), looked),
        Panel(axis, Axis("processor time a tuple (ns)"), _lines(xs, times)),
    ]


def measure_ids(setting: FigureSetting) -> list[Panel]:
    """Tuples a second of the query for ids alone."""
    tuples = tuple_count(setting)
    memory = _MEMORY_A_TUPLE * tuples
    xs = setting.some(SELECTIVITIES)
    rates: dict[str, list[float]] = {}
    for x in setting.each(xs, lambda x: f"selectivity {x:g}"):
        join = MJoin(STREAMS, Equality(), memory, VirtualSpill(), order=FixedOrder(), block=_ONE)
        works: dict[str, Work] = {"MJoin": joining(join)}
        for name, block in (("AMJoin", _ONE), ("AMJoin, batch at once", _MANY)):
            query = KeysInAllStreams(STREAMS, memory // 4, block=block)
            works[name] = asking(query)
        streams = Streams(tuples, x)
        for batch in streams.all_once():
            for work in works.values():
                work(batch)
        for name, spent in nanoseconds(works, streams, tuples // 5).items():
            rates.setdefault(name, []).append(1e3 / spent)
    return [Panel(Axis("join selectivity"), Axis("tuples a second (millions)"), _lines(xs, rates))]


def measure_probe(setting: FigureSetting) -> list[Panel]:
    """A look at a table of one stream, which finds two keys in three, and at their bit vectors; by their number."""
    sizes = [size for size in _SIZES if size <= tuple_count(setting)]
    spent: dict[str, list[float]] = {}
    for size in setting.each(sizes, lambda size: f"{size:,} tuples"):
        for name, nanoseconds_ in looks(size).items():
            spent.setdefault(name, []).append(nanoseconds_)
    axis = Axis("tuples in the table", log=True)
    return [Panel(axis, Axis("processor time of a look (ns)"), _lines(sizes, spent))]


def looks(size: int) -> dict[str, float]:
    """Nanoseconds of a look, one after the other and a batch at once, at a table and at bit vectors of so many keys."""
    random = np.random.default_rng(2)
    keys = random.permutation(4 * size)
    held, numbers = np.ascontiguousarray(keys[:size]), np.arange(size)
    # A third stream, which is empty, ends the look before any result is made; its chain's head lies beside.
    table, bits = HashedStreams(size, 3), BitVectorTable(2 * size)
    table.insert(1, held, numbers, numbers)
    bits.add(1, np.ascontiguousarray(keys[: 3 * size // 2]), 0)
    order = np.array([1, 2])

    def look_at_table(batch: Batch, block: int) -> None:
        join_with(table, 0, batch.keys, batch.ids, order, block)

    def look_at_bits(batch: Batch, block: int) -> None:
        bits.add(0, batch.keys, _NEVER, block)

    works: dict[str, Work] = {
        "hash table": partial(look_at_table, block=_ONE),
        "bit vector": partial(look_at_bits, block=_ONE),
        "hash table, batch at once": partial(look_at_table, block=_MANY),
        "bit vector, batch at once": partial(look_at_bits, block=_MANY),
    }
    spent = dict.fromkeys(works, float("inf"))
    for _ in range(_ROUNDS_OF_LOOKS):
        asked = random.choice(keys[: 3 * size // 2], _LOOKS)
        for name, work in works.items():
            started = time.process_time()
            work(Batch(0, asked, np.arange(_LOOKS)))
            spent[name] = min(spent[name], 1e9 * (time.process_time() - started) / _LOOKS)
    return spent


def _time_ratio(curves: Curves) -> tuple[str, bool]:
    ratios = [
        slow.y / fast.y for slow, fast in zip(curves["MJoin: time"].points, curves["AMJoin: time"].points, strict=True)
    ]
    return f"{min(ratios):.2f}x to {max(ratios):.2f}x, {median(ratios):.2f}x in the middle", median(ratios) > 1


def _overlap(curves: Curves) -> tuple[str, bool]:
    one, many = curves["bit vector"].points[-1], curves["bit vector, batch at once"].points[-1]
    return f"{one.y / many.y:.1f}x", one.y > many.y


def _auto_looks_least(curves: Curves) -> tuple[str, bool]:
    pairs = zip(curves["MJoin"].points, curves["AMJoin"].points, strict=True)
    best = ["am_join" if fast.y < slow.y else "m_join" for slow, fast in pairs]
    chosen = [
        choose(Workload(STREAMS, "equality", 0, complete=point.x), 0).algorithm for point in curves["AMJoin"].points
    ]
    right = sum(one == other for one, other in zip(chosen, best, strict=True))
    return f"at {right} of {len(best)} selectivities", right == len(best)


SELECTIVITY = Figure(
    "002-5",
    "Five streams joined, by join selectivity",
    (
        is_faster("AMJoin", ("MJoin",), "AMJoin gives better performance (002 §3): looks", lower_is_better=True),
        fact("AMJoin gives better performance (002 §3): processor time", "better", _time_ratio),
        ratio_moves("MJoin", "AMJoin", rises=False, text="It is better the lower the selectivity: looks"),
        predictions_hold(("MJoin", "AMJoin"), 0.05, "MJoin needs (n - 1) / 2 looks for a failure, AMJoin one (002 §2)"),
        ours(
            is_faster(
                "AMJoin, batch at once: time",
                ("AMJoin: time",),
                "Bit vectors that a batch looks up at once are faster still",
                lower_is_better=True,
            )
        ),
        ours(fact("Auto chooses the join that looks least often", "-", _auto_looks_least)),
    ),
    measure_selectivity,
    minutes_at_paper_scale=2,
    memory_at_paper_scale=2_000_000_000,
    assumption=f"{DATA} AMJoin and MJoin look tuple by tuple, as in the paper; ours take the same batches at once. "
    "A fifth of the tuples comes again and is measured, keeping them included.",
)
IDS = Figure(
    "002-6",
    "The query for ids alone, five streams",
    (
        ratio_at(
            0.1,
            "AMJoin",
            "MJoin",
            3,
            "At selectivity 0.1 AMJoin is about 3 times as fast (002 §3)",
            cause=Cause(
                "a key's chains of all five streams begin in one line of the processor's cache here, so that MJoin's "
                "second look and those after it cost little",
                "test_m_joins_tables_lie_side_by_side",
            ),
        ),
        ours(is_faster("AMJoin, batch at once", ("AMJoin",), "A batch at once is faster still")),
    ),
    measure_ids,
    minutes_at_paper_scale=2,
    memory_at_paper_scale=1_500_000_000,
    assumption=f"{DATA} AMJoin keeps bit vectors alone, MJoin its tables; tuple by tuple but for our line.",
)
PROBES = Figure(
    "002-probes",
    "What a look costs",
    (
        ratio_at(
            _LARGEST,
            "hash table",
            "bit vector",
            PUBLISHED_RATIO,
            "A look at a hash table takes 2.88e-4 ms, one at the bit vectors 1.61e-4 ms (002 §3): their ratio",
        ),
        ours(fact("Looked up a batch at once, the waits for bit vectors overlap", "-", _overlap)),
    ),
    measure_probe,
    minutes_at_paper_scale=0.2,
    memory_at_paper_scale=200_000_000,
    assumption="The look at the bit vectors sets a bit, that at the table finds two keys of three and joins nothing.",
)
