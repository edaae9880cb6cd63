"""Cost model of the temporal join: what it holds, what it looks at, what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from spark_jobs.joins.structures.sweep_area import COLUMNS

_TUPLE_BYTES = COLUMNS * 8


@dataclass(frozen=True)
class TimedStream:
    """One stream whose tuples start evenly in time.

    Attributes:
        rate: tuples that start in a unit of time, lambda.
        validity: mean time from start to end: r of a sliding window, m / 2 of a fixed one (004 §5.1).
        lag: how far behind time it arrives.
    """

    rate: float
    validity: float
    lag: float = 0.0


def tuples_in_areas(streams: Sequence[TimedStream], *, output_ordered: bool = True) -> list[float]:
    """Tuples of each stream in its sweep area, on average.

    A tuple enters when it arrives, its stream's lag behind its start, and leaves when the last of the other
    streams has passed its end. Where inputs wait, time in all areas is that of the stream that is behind most.
    """
    if not output_ordered:
        return [stream.rate * stream.validity for stream in streams]
    held = []
    for number, stream in enumerate(streams):
        slowest = max(other.lag for position, other in enumerate(streams) if position != number)
        held.append(stream.rate * max(0.0, stream.validity + slowest - stream.lag))
    return held


def waiting_tuples(streams: Sequence[TimedStream]) -> list[float]:
    """Tuples of each stream that wait for the one that is behind most, where inputs wait."""
    slowest = max(stream.lag for stream in streams)
    return [stream.rate * (slowest - stream.lag) for stream in streams]


def probes_per_tuple(streams: Sequence[TimedStream], orders: Sequence[Sequence[int]], matching: float) -> float:
    """Sweep areas asked for a tuple, on average, its partial results included; streams in step.

    The first area is asked once; the second once for each partner found in the first, and so on:

        1 + m_1 + m_1 m_2 + ...        m_k = lambda_k v_k p

    Args:
        streams: all of them.
        orders: for each the others, in the order in which its tuples ask them.
        matching: p, the probability that two tuples match, if one matches others as well: 1 / K for K equal keys.
    """
    total = sum(stream.rate for stream in streams)
    partners = [stream.rate * stream.validity * matching for stream in streams]
    return sum(
        stream.rate / total * sum(prod(partners[other] for other in order[:asked]) for asked in range(len(order)))
        for stream, order in zip(streams, orders, strict=True)
    )


def results_per_time(streams: Sequence[TimedStream], matching: float) -> float:
    """Results in a unit of time: each is found by the last of its tuples."""
    partners = [stream.rate * stream.validity * matching for stream in streams]
    return sum(
        stream.rate * prod(partners[other] for other in range(len(streams)) if other != number)
        for number, stream in enumerate(streams)
    )


def pages_read_per_tuple(on_disk: float, extent: int, batch: float, page_bytes: int) -> float:
    """Pages that a join of two streams reads for a tuple: a batch reads all that lies on the other's disk.

    Args:
        on_disk: tuples there, of the other stream.
        extent: of how many tuples an extent is.
        batch: of how many tuples a batch is.
        page_bytes: size of a page.
    """
    return on_disk / extent * ceil(extent * _TUPLE_BYTES / page_bytes) / batch
