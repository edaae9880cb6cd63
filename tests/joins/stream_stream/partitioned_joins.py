"""Runs of the hash joins with partitions on disk, for the tests of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream import create
from spark_jobs.joins.stream_stream.base import Results, StreamStreamJoin, Tuples
from spark_jobs.joins.stream_stream.predicates import Equality

PAGE_BYTES = 256


class PartitionedRun:
    """Tuples of two streams through a join; ids are positions in their stream."""

    def __init__(self, algorithm: str, memory: int, **policies: Any) -> None:
        self.spill = VirtualSpill(page_bytes=PAGE_BYTES)
        self.join: StreamStreamJoin = create(algorithm, 2, Equality(), memory, self.spill, **policies)
        self.keys: list[list[int]] = [[], []]
        self.pairs: list[tuple[int, int]] = []
        self.unmatched: list[tuple[int, int]] = []

    def arrive(self, stream: int, keys: list[int]) -> int:
        """How many results that gives."""
        ids = np.arange(len(keys)) + len(self.keys[stream])
        self.keys[stream] += keys
        return self.take(self.join.arrive(stream, Tuples(ids, np.array(keys, np.int64))))

    def pause(self) -> int:
        """Do all the background work; how many results that gives."""
        count = 0
        while self.join.is_work:
            count += self.take(self.join.advance())
        return count

    def finish(self) -> int:
        """How many results that gives; all results are there then, none twice."""
        count = sum(self.take(results) for results in self.join.finish())
        left, right = self.keys
        expected = [(i, j) for i in range(len(left)) for j in range(len(right)) if left[i] == right[j]]
        assert sorted(self.pairs) == expected
        matched = {tuple_ for pair in expected for tuple_ in enumerate(pair)}
        everything = {(stream, i) for stream in range(2) for i in range(len(self.keys[stream]))}
        assert sorted(self.unmatched) == sorted(everything - matched)
        assert not self.spill.extents
        return count

    def take(self, results: Results) -> int:
        self.join.check()
        self.pairs += list(zip(*results.ids.tolist(), strict=True))
        self.unmatched += list(zip(*results.unmatched.tolist(), strict=True))
        return results.count
