"""Which partitions go to disk when the memory is full: policies of XJoin and its relatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
# Tuples in memory and tuples on disk, int64, shape (streams, partitions) each: the streams and partitions to flush.
Choice = Callable[[Int64Array, Int64Array], Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class FlushingPolicy:
    """What is flushed.

    Attributes:
        name: in reports.
        choose: takes the tuples in memory and on disk, int64, shape (streams, partitions) each, at least one of them in
            memory; gives the parts to be flushed as pairs of stream and partition, of which one has a tuple at least.
            O(streams x partitions).
    """

    name: str
    choose: Choice


def largest_partition() -> FlushingPolicy:
    """The largest part of any stream, by itself (XJoin, UF00): few writes, each long."""

    def choose(memory: Int64Array, _: Int64Array) -> list[tuple[int, int]]:
        stream, partition = np.unravel_index(np.argmax(memory), memory.shape)
        return [(int(stream), int(partition))]

    return FlushingPolicy("largest_partition", choose)


def whole_partition() -> FlushingPolicy:
    """The partition that is largest over all streams, on every side ("flush largest", MLA04 §3.2).

    What was in memory together leaves together: no pair of an earlier and a later departure comes of it.
    """

    def choose(memory: Int64Array, _: Int64Array) -> list[tuple[int, int]]:
        return _all_sides(memory, int(np.argmax(memory.sum(axis=0))))

    return FlushingPolicy("whole_partition", choose)


def balanced(least: float = 0.5) -> FlushingPolicy:
    """On every side the partition that leaves the streams most alike in memory ("adaptive flushing", MLA04 §3.2).

    A stream with little in memory finds few matches for the others. What is flushed has to be large as well, because
    small runs cost merging later: a partition comes into question with `least` times the size of the largest.

    Args:
        least: from 0 (balance alone counts) to 1 (size alone).
    """

    def choose(memory: Int64Array, _: Int64Array) -> list[tuple[int, int]]:
        sizes = memory.sum(axis=0)
        left = memory.sum(axis=1, keepdims=True) - memory
        apart = np.where(sizes >= max(1.0, least * sizes.max()), np.ptp(left, axis=0), np.iinfo(np.int64).max)
        return _all_sides(memory, int(np.lexsort((-sizes, apart))[0]))

    return FlushingPolicy("balanced", choose)


def biased(larger: int | None = None, *, least: float = 0.25) -> FlushingPolicy:
    """The largest part of the larger stream, as long as that is large itself (early hash join, Law05 §3).

    The smaller stream stays in memory as long as it can, and finds its matches there: as in dynamic hash join.

    Args:
        larger: the stream of which most is to come; if left out, the one that has brought most so far.
        least: a part is large if it has so many times the tuples of the largest of any other stream; else that is
            flushed, as ever smaller writes would cost more than what is kept gives.
    """

    def choose(memory: Int64Array, disk: Int64Array) -> list[tuple[int, int]]:
        largest = memory.max(axis=1)
        brought = (memory + disk).sum(axis=1)
        if larger is not None:
            brought[larger] = np.iinfo(np.int64).max
        stream = int(np.argmax(np.where(largest >= max(1.0, least * largest.max()), brought, -1)))
        return [(stream, int(np.argmax(memory[stream])))]

    return FlushingPolicy("biased", choose)


def _all_sides(memory: Int64Array, partition: int) -> list[tuple[int, int]]:
    return [(stream, partition) for stream in range(len(memory)) if memory[stream, partition]]
