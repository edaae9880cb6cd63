"""002 Fig. 7: memory for two thirds of the tuples, and which hash values go."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spark_jobs.experiments.papers.claims import is_faster, line_moves, ours
from spark_jobs.experiments.papers.figure import Axis, Figure, Origin, Panel, Point, Series
from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.papers.multiple_streams.five_streams import DATA, STREAMS, Streams, tuple_count
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.memory_budget import most_within
from spark_jobs.joins.stream_stream.am_join import AMJoin
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.m_join import MJoin
from spark_jobs.joins.stream_stream.multi_way_join import MultiWayJoin
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.stream_stream.value_flushing import MostBits, RandomValue

OVERFLOWS = (1 / 6, 1 / 3, 1 / 2)
SELECTIVITY = 0.1
_KILOBYTE = 1024


def memory_for(tuples: int) -> int:
    """The least memory, in bytes, in which MJoin's tables hold so many tuples; to the kilobyte."""

    def capacity(kilobytes: int) -> int:
        return MJoin(STREAMS, Equality(), kilobytes * _KILOBYTE, VirtualSpill()).capacity

    floor = 16
    return _KILOBYTE * (floor + 1 + most_within(tuples - 1, lambda more: capacity(floor + more), tuples))


def overflowing(join: MultiWayJoin, streams: Streams) -> MultiWayJoin:
    """Let all tuples arrive once, without a pause, then finish."""
    for batch in streams.all_once():
        join.arrive(batch.stream, Tuples(batch.ids, batch.keys))
    for _ in join.finish():
        pass
    return join


def measure(setting: FigureSetting) -> list[Panel]:
    """Hash values flushed for the room they give, and how many results come early."""
    tuples = tuple_count(setting)
    lines: dict[str, tuple[Callable[..., MultiWayJoin], Origin]] = {
        "MJoin, a random value": (partial(MJoin, flush=RandomValue()), Origin.PAPER),
        "AMJoin, 2 bits or more": (partial(AMJoin, flush=MostBits(fewest=2)), Origin.PAPER),
        "AMJoin, most bits": (partial(AMJoin, flush=MostBits()), Origin.PAPER),
    }
    flushes: dict[str, list[Point]] = {name: [] for name in lines}
    early: dict[str, list[Point]] = {name: [] for name in lines}
    for overflow in setting.each(OVERFLOWS, lambda part: f"{part:.0%} overflow"):
        memory = memory_for(int(tuples * (1 - overflow)))
        for name, (make, _) in lines.items():
            join = overflowing(make(STREAMS, Equality(), memory, VirtualSpill()), Streams(tuples, SELECTIVITY))
            counts = join.statistics
            note = f"{join.capacity:,} tuples fit; {join.tuples_freed:,} made room"
            flushes[name].append(Point(overflow, 1000 * join.values_flushed / join.tuples_freed, note=note))
            early[name].append(Point(overflow, counts.early / (counts.early + counts.late)))
    axis = Axis("part of the tuples for which there is no room")
    return [
        Panel(
            axis,
            Axis("hash values flushed to make room for 1,000 tuples"),
            tuple(Series(name, tuple(flushes[name]), origin) for name, (_, origin) in lines.items()),
        ),
        Panel(
            axis,
            Axis("part of the results that comes before the end"),
            tuple(Series(f"{name}: early", tuple(early[name]), origin) for name, (_, origin) in lines.items()),
        ),
    ]


FIGURE = Figure(
    "002-7",
    "Five streams of which a third overflows, join selectivity 0.1",
    (
        is_faster(
            "AMJoin, 2 bits or more",
            ("MJoin, a random value",),
            "AMJoin makes room with fewer flushes (002 §2.2, §3)",
            lower_is_better=True,
        ),
        is_faster(
            "AMJoin, most bits",
            ("AMJoin, 2 bits or more",),
            "A value with nearly all bits set gives most room (002 §2.2)",
            lower_is_better=True,
        ),
        ours(
            is_faster(
                "MJoin, a random value: early",
                ("AMJoin, most bits: early",),
                "But what has most bits set makes the results: a random value leaves more of them early",
            )
        ),
        line_moves(
            "MJoin, a random value: early", rises=False, text="The more overflows, the more is put off (002 §2.2)"
        ),
    ),
    measure,
    minutes_at_paper_scale=1,
    memory_at_paper_scale=1_500_000_000,
    assumption=f"{DATA} The paper's time counts a flush as a whole; here flushes are counted, for their tuples go "
    "through write buffers, and pages written depend on their number alone.",
)
