"""004 Fig. 3: the streams' rate changes every 20 s, and the merge strategy follows the load."""

from __future__ import annotations

import numpy as np

from spark_jobs.experiments.papers.claims import fact
from spark_jobs.experiments.papers.figure import Axis, Curves, Figure, Panel, Point, Series
from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.papers.sort_based.interval_joins import (
    ASSUMPTION,
    RUN_MEMORY,
    SHAPES,
    STREAMS,
    TICK_SECONDS,
    play,
)
from spark_jobs.joins.stream_stream.merge_strategies import LoadFollowing

_PHASE_SECONDS = 20.0
_HIGH_RATE, _LOW_RATE = 1000.0, 100.0
_READINGS = 120
_RATE, _BACKLOG, _MEMORY = "input rate", "results not told yet", "memory for runs"
_RESULTS = "results"
# Bytes of that memory for a tuple, with the room to sort it.
_TUPLE_BYTES = 88


def tuples_by(seconds: float) -> float:
    """How many tuples of each stream have come: fast and slow by turns, fast at first."""
    pairs, rest = divmod(seconds, 2 * _PHASE_SECONDS)
    fast = pairs * _PHASE_SECONDS + min(rest, _PHASE_SECONDS)
    return fast * _HIGH_RATE + (seconds - fast) * _LOW_RATE


def measure(setting: FigureSetting) -> list[Panel]:
    """Rate, results and memory at equal distances of time."""
    part = setting.scale.sort_based_part
    setting.watch(SHAPES[0], 0.0)
    between = STREAMS * TICK_SECONDS * part
    strategy = LoadFollowing(high_load=int(between * (_HIGH_RATE * _LOW_RATE) ** 0.5))
    run = play(SHAPES[0], strategy, part, lambda seconds: int(tuples_by(seconds) * part)).run
    setting.watch("", 1.0)
    times = np.linspace(0, run.ended_seconds, _READINGS + 1)[1:].tolist()
    places = (np.searchsorted(run.seconds, times, side="right") - 1).tolist()
    told = [int(run.results[place]) for place in places]
    known = np.searchsorted(run.starts, run.tuples[places], side="right").tolist()
    rates = [_HIGH_RATE if time % (2 * _PHASE_SECONDS) < _PHASE_SECONDS else _LOW_RATE for time in times]
    memory = [int(run.memory_tuples[place]) * _TUPLE_BYTES for place in places]
    x = Axis("time (s)")
    backlog = [known - told for known, told in zip(known, told, strict=True)]
    return [
        Panel(x, Axis("tuples/s of each stream"), (_line(_RATE, times, rates),)),
        Panel(x, Axis("results"), (_line(_RESULTS, times, told), _line(_BACKLOG, times, backlog))),
        Panel(x, Axis("bytes"), (_line(_MEMORY, times, memory),)),
    ]


def _line(name: str, times: list[float], values: list[float] | list[int]) -> Series:
    return Series(name, tuple(Point(time, max(0, value)) for time, value in zip(times, values, strict=True)))


def _ends_of_phases(curves: Curves) -> tuple[list[float], list[float]]:
    """The backlog at the ends of the fast and of the slow phases."""
    last = curves[_BACKLOG].points[-1].x
    ends = np.arange(_PHASE_SECONDS, last, _PHASE_SECONDS).tolist()
    backlog = [max(p.y for p in curves[_BACKLOG].points if end - 2.5 <= p.x <= end) for end in ends]
    return backlog[0::2], backlog[1::2]


def _slow_phases_catch_up(curves: Curves) -> tuple[str, bool]:
    fast, slow = _ends_of_phases(curves)
    mean_fast, mean_slow = float(np.mean(fast)), float(np.mean(slow))
    return f"{mean_fast:,.0f} results not told at the end of fast phases, {mean_slow:,.0f} of slow ones", (
        mean_slow < mean_fast
    )


def _memory_rises_to_the_limit(curves: Curves) -> tuple[str, bool]:
    values = np.array([point.y for point in curves[_MEMORY].points])
    falls = int((np.diff(values) < 0).sum())
    limit = RUN_MEMORY
    return f"up to {values.max() / 1e6:.2f} MB, written {falls} times", falls > 2 and values.max() <= limit


FIGURE = Figure(
    "004-3",
    "The rate changes every 20 s: MaxFanIn while it is high, Greedy while it is low",
    (
        fact(
            "When the load falls, and Greedy merges, the results catch up (004 §7)",
            "catch up",
            _slow_phases_catch_up,
        ),
        fact(
            "Memory rises up to the limit of 1 MB each time, where runs are written (004 §7)",
            "up to 1 MB",
            _memory_rises_to_the_limit,
        ),
    ),
    measure,
    minutes_at_paper_scale=0.2,
    memory_at_paper_scale=500_000_000,
    assumption=ASSUMPTION,
)
