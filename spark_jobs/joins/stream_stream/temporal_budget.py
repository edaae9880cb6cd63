"""Splits a temporal join's memory: areas, what waits, extents read from disk, and scratch space."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.memory_budget import most_within
from spark_jobs.joins.stream_stream.disk_area import DiskArea
from spark_jobs.joins.stream_stream.emission import Emission
from spark_jobs.joins.stream_stream.result_buffer import ResultBuffer
from spark_jobs.joins.stream_stream.tuple_queue import TupleQueue
from spark_jobs.joins.structures.sweep_area import COLUMNS, FOUND_COLUMNS, SweepArea

TUPLE_COLUMNS = COLUMNS
_WORD = 8
# Of what is not needed in any case. The rest is the areas'.
_SCRATCH_SHARE, _EXTENT_SHARE, _WAITING_SHARE, _INTERMEDIATE_SHARE = 8, 8, 4, 3
# More tuples at once make nothing faster: what they touch would not stay in the processor's cache.
_LARGEST_PIECE = 4096
# An area's room is shared by halves when it is full; a piece has to fit into what one stream gets.
_PIECES_OF_AREA = 8
_LARGEST_BUDGET = 2**50


@dataclass(frozen=True)
class Budget:
    """Numbers of tuples, unless they are bytes.

    Attributes:
        piece: joined at once; and intermediate results of that.
        extent: written to disk at once.
        chunk: tuples that wait are kept and written by so many; 0 where results wait.
        chunks: so many at most.
        buffer_bytes: for results that wait.
        capacity: of the areas.
        intermediate_capacity: of the areas of intermediate results, each.
    """

    piece: int
    extent: int
    chunk: int
    chunks: int
    buffer_bytes: int
    capacity: int
    intermediate_capacity: int


def budget(memory_bytes: int, streams: int, *, emission: Emission, indexed: bool, materialise: bool) -> Budget:
    """How the memory of a temporal join is split. O(log memory).

    Raises:
        MemoryBudgetError: it is too small for one tuple at a time.
    """
    split = _split(memory_bytes, streams, emission, indexed, materialise)
    if split is None:
        needed = 1 + most_within(
            _LARGEST_BUDGET,
            lambda size: 0 if _split(size, streams, emission, indexed, materialise) is None else 2**60,
            _LARGEST_BUDGET,
        )
        raise MemoryBudgetError(
            f"temporal_join was given {memory_bytes:,} bytes, but to join {streams} streams one tuple at a time takes "
            f"{needed:,}: give it more memory"
        )
    return split


def _split(memory_bytes: int, streams: int, emission: Emission, indexed: bool, materialise: bool) -> Budget | None:
    result_columns = 2 + streams
    waiting_least = 0
    if emission.buffers_inputs:
        waiting_least = streams * TupleQueue.bytes_for(TUPLE_COLUMNS, 1)
    elif emission.buffers_results:
        waiting_least = ResultBuffer.bytes_for(result_columns)
    free = memory_bytes - streams * DiskArea.bytes_for() - waiting_least
    per_piece = _piece_bytes(streams, indexed)
    piece = min(_LARGEST_PIECE, free // _SCRATCH_SHARE // per_piece)
    extent = min(
        _LARGEST_PIECE, most_within(free // _EXTENT_SHARE, lambda n: _extent_bytes(n, streams), _LARGEST_PIECE)
    )
    for_waiting = free // _WAITING_SHARE if emission.buffers_inputs or emission.buffers_results else 0
    chunk = chunks = 0
    if emission.buffers_inputs:
        # A queue needs two chunks; with four it writes to disk half as often.
        chunk = min(_LARGEST_PIECE, for_waiting // (4 * streams * TUPLE_COLUMNS * _WORD))
        if chunk < 1:
            return None
        chunks = for_waiting // (chunk * TUPLE_COLUMNS * _WORD)
    areas = free - piece * per_piece - _extent_bytes(extent, streams) - for_waiting
    intermediate = 0
    if materialise:
        share = areas // _INTERMEDIATE_SHARE // (streams - 2)
        intermediate = most_within(share, lambda n: SweepArea.bytes_for(n, 1, 2 * (streams - 1)), 2**40)
        areas -= areas // _INTERMEDIATE_SHARE
    capacity = most_within(areas, lambda n: SweepArea.bytes_for(n, streams), 2**40)
    piece = min(piece, capacity // _PIECES_OF_AREA)
    if piece < 1 or extent < 1 or capacity < 2 * streams or (materialise and intermediate < 1):
        return None
    return Budget(piece, extent, chunk, chunks, waiting_least + for_waiting, capacity, intermediate)


def _piece_bytes(streams: int, indexed: bool) -> int:
    """Scratch space for each tuple of a piece: its columns twice, and for each further stream what is found.

    Combinations of d streams have d ids, numbers and, for a predicate of the user's, two values, besides.
    """
    member = 2 if indexed else 4
    found = sum(FOUND_COLUMNS + member * depth for depth in range(2, streams + 1))
    pairs = 0 if indexed else TUPLE_COLUMNS + 10
    return (2 * TUPLE_COLUMNS + found + 2 + streams + pairs) * _WORD


def _extent_bytes(extent: int, streams: int) -> int:
    """Memory for extents: an area for each stream but one, the columns read, and those written."""
    return (streams - 1) * (SweepArea.bytes_for(extent, 1) + 3 * TUPLE_COLUMNS * extent * _WORD)
