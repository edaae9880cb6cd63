"""PJoin beside the symmetric hash join: what punctuations cost, and what they save."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np

from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure, interleaved, seconds
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream import create
from spark_jobs.joins.stream_stream.base import StreamStreamJoin, Tuples
from spark_jobs.joins.stream_stream.patterns import Pattern, enumeration
from spark_jobs.joins.stream_stream.predicates import Equality

MOST_RATIO = 1.3
_BATCH = 4_000
_INTERVAL = 40
_TUPLES = 400_000
_MEMORY = 64 << 20


class Run(NamedTuple):
    """What a join of two whole streams took.

    Attributes:
        nanoseconds: of processor time, a tuple.
        kept: tuples that memory holds at the end.
    """

    nanoseconds: float
    kept: int


Punctuated = Literal["a range a batch", "a range every 40 tuples", "a key a tuple"]


def run(algorithm: str, punctuated: Punctuated, tuples: int = _TUPLES) -> Run:
    """Join two streams in which each key comes once, within a batch of its turn; each tuple finds one match.

    The punctuations of a batch are handed over together: as what they close does not come again, nothing else comes of
    it than if each came in its turn, but that their tuples are kept until then.

    Args:
        algorithm: its name.
        punctuated: keys in turn, whose punctuations join to one range a batch; in runs of 40 all over int64, each of
            them a range; or one by one all over int64.
        tuples: of each stream.
    """
    join = create(algorithm, 2, Equality(), _MEMORY, VirtualSpill())
    randomness = np.random.default_rng(1)
    ids = np.arange(tuples)
    together = {"a range a batch": tuples, "a range every 40 tuples": _INTERVAL, "a key a tuple": 1}[punctuated]
    runs = -(-tuples // together)
    keys = randomness.permutation(2**62 // runs * np.arange(runs))[ids // together] + ids % together
    # A key comes up to a batch later than its turn; so what had its turn a batch ago is closed.
    turns = [np.argsort(ids + randomness.integers(0, _BATCH, tuples), kind="stable") for _ in range(2)]
    streams = [Tuples(ids, keys[turn]) for turn in turns]
    told = [enumeration(keys[max(0, first - _BATCH) : first]) for first in range(0, tuples, _BATCH)]
    taken = seconds(partial(_play, join, streams, told))
    return Run(taken / (2 * tuples) * 1e9, join.tuples_in_memory())


def _play(join: StreamStreamJoin, streams: list[Tuples], told: list[Pattern]) -> None:
    for number, pattern in enumerate(told):
        for stream, tuples in enumerate(streams):
            join.arrive(stream, tuples.part(slice(number * _BATCH, (number + 1) * _BATCH)))
        for stream in range(2):
            join.punctuate(stream, pattern)


def measure(repeats: int) -> list[MeasuredFigure]:
    """Ratios to the symmetric hash join, which takes the same tuples and keeps them all."""
    figures = []
    for punctuated in get_args(Punctuated):
        cases: dict[str, Callable[[], Run]] = {
            name: partial(run, name, punctuated) for name in ("symmetric_hash_join", "p_join")
        }
        runs = interleaved(cases, repeats)
        pairs = list(zip(runs["p_join"], runs["symmetric_hash_join"], strict=True))
        title = f"PJoin, {punctuated}"
        figures.append(
            MeasuredFigure.of(
                f"{title}: own work",
                [a.nanoseconds / b.nanoseconds for a, b in pairs],
                "x symmetric hash join",
                None if punctuated == "a key a tuple" else MOST_RATIO,
            )
        )
        figures.append(MeasuredFigure.of(f"{title}: kept", [a.kept / b.kept for a, b in pairs], "of its tuples"))
    return figures
