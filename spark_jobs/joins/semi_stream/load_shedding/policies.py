"""Which stream tuples are shed, and whose page is looked up meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spark_jobs.joins.semi_stream.base import Int64Array, SemiStreamJoin
from spark_jobs.joins.semi_stream.lookup_position import FixedPosition, LookupPosition, OldestTuple
from spark_jobs.joins.structures.stream_buffer import StreamBuffer, TupleColumns

# Finds the tuples with some ids: its caller has kept them.
TuplesOf = Callable[[Int64Array], TupleColumns]


@dataclass(frozen=True)
class SheddingPolicy:
    """What a join does under overload.

    Attributes:
        name: in the catalogue.
        position: whose page is read next; the join must be made with it, if it lets that be chosen.
        shed: gives up so many tuples of (join, stream buffer); `TuplesOf` finds those that the join gives up.
    """

    name: str
    position: LookupPosition
    shed: Callable[[SemiStreamJoin, StreamBuffer, TuplesOf, int], TupleColumns]


def considered(position: LookupPosition | None = None) -> SheddingPolicy:
    """Shed the oldest of the queue: the pages of many others have been read since they came (003 §4.2).

    Those left are looked up long before the end: who is near it is soon shed, and few wait for the same page.

    Args:
        position: where; 15 % of the queue from its start if left out.
    """
    return SheddingPolicy("considered", FixedPosition() if position is None else position, _shed_oldest_of_queue)


def untuned() -> SheddingPolicy:
    """Shed the oldest of the queue, and look up the oldest left ("untuned load shedding", 003 §5.3.2)."""
    return SheddingPolicy("untuned", OldestTuple(), _shed_oldest_of_queue)


def upfront() -> SheddingPolicy:
    """Shed what came last, before it is processed ("keep", MESHJOIN's way; 003 §4): all equally likely."""

    def newest(_: SemiStreamJoin, buffer: StreamBuffer, __: TuplesOf, count: int) -> TupleColumns:
        return buffer.take_newest(count)

    return SheddingPolicy("upfront", OldestTuple(), newest)


def random_sample(random: np.random.Generator | None = None) -> SheddingPolicy:
    """Shed a random sample of the stream buffer: what is joined is a random subset of the whole output (003 §4).

    Neither key nor place in the stream counts, where `upfront` gives up neighbours together.

    Args:
        random: draws the sample; one with a fixed seed if left out.
    """
    generator = np.random.default_rng(0) if random is None else random

    def sample(_: SemiStreamJoin, buffer: StreamBuffer, __: TuplesOf, count: int) -> TupleColumns:
        return buffer.take_sample(count, generator)

    return SheddingPolicy("random_sample", OldestTuple(), sample)


def _shed_oldest_of_queue(join: SemiStreamJoin, _: StreamBuffer, tuples_of: TuplesOf, count: int) -> TupleColumns:
    return tuples_of(join.shed(count))
