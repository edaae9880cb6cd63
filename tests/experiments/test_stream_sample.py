"""A sample of the stream tells its skew, and whether R is sorted by popularity."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.experiments.semi_stream.stream_sample import StreamSample
from spark_jobs.workload.zipf import ZipfKeys

ROWS = 200_000
PAGE_ROWS = 200


def sample_of(exponent: float, *, shuffled: bool, size: int = 8000) -> StreamSample:
    keys = ZipfKeys(np.arange(ROWS), exponent, shuffle_seed=(3,) if shuffled else None)
    drawn = keys.draw(size, np.random.default_rng(1))
    sample = StreamSample(size)
    sample.observe(drawn, drawn // PAGE_ROWS)
    return sample


@pytest.mark.parametrize("exponent", [0.75, 1, 1.2])
@pytest.mark.parametrize("shuffled", [False, True])
def test_exponent_and_order(exponent: float, shuffled: bool) -> None:
    sample = sample_of(exponent, shuffled=shuffled)
    assert sample.exponent(ROWS) == pytest.approx(exponent, abs=0.05)
    assert sample.shuffled(ROWS, exponent, PAGE_ROWS) is shuffled


def test_a_uniform_stream_has_no_skew() -> None:
    assert sample_of(0, shuffled=False).exponent(ROWS) < 0.1


@pytest.mark.parametrize("parts", [1, 7, 50])
def test_every_third_tuple_however_the_stream_is_cut(parts: int) -> None:
    sample = StreamSample(30)
    sample.start(3)
    for part in np.array_split(np.arange(100), parts):
        sample.observe(part, part)
    assert sample.full
    assert sample.exponent(1000) == 0
    again = StreamSample(30)
    again.observe(np.arange(0, 90, 3), np.arange(0, 90, 3))
    assert sample.tuples.tolist() == again.tuples.tolist()


def test_memory() -> None:
    assert StreamSample(100).memory_used() == StreamSample.bytes_for(100)
