"""What holds for every sketch: it is linear, deletes cancel, and bytes give it back or say why they don't."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from spark_jobs.errors import SketchDamagedError, SketchMismatchError
from spark_jobs.sketches.agms import AgmsSketch
from spark_jobs.sketches.dyadic_sketch import DyadicSketch
from spark_jobs.sketches.hash_sketch import HashSketch
from spark_jobs.sketches.linear_sketch import LinearSketch

MAKERS: dict[str, Callable[[int], LinearSketch]] = {
    "agms": lambda seed: AgmsSketch(3, 70, seed=seed),
    "hash": lambda seed: HashSketch(5, 37, seed=seed),
    "dyadic": lambda seed: DyadicSketch(7, 3, 16, seed=seed),
}
every_sketch = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
RANDOM = np.random.default_rng(1)
VALUES = RANDOM.integers(0, 4_096, 30_000)
WEIGHTS = RANDOM.integers(-5, 9, 30_000)


def sketched(make: Callable[[int], LinearSketch], part: slice = slice(None)) -> LinearSketch:
    sketch = make(1)
    sketch.update(VALUES[part], WEIGHTS[part])
    return sketch


@every_sketch
def test_the_sum_of_two_sketches_is_one_sketch_of_both_streams(make: Callable[[int], LinearSketch]) -> None:
    whole = sketched(make)
    both = sketched(make, slice(0, 11_111)) + sketched(make, slice(11_111, None))
    assert np.array_equal(both.counters, whole.counters)
    assert np.array_equal(
        (whole - sketched(make, slice(11_111, None))).counters, sketched(make, slice(0, 11_111)).counters
    )


@every_sketch
def test_batches_or_frequencies_give_the_same_counters(
    make: Callable[[int], LinearSketch],
) -> None:
    by_batch, by_frequency = make(1), make(1)
    for start in range(0, 600, 7):
        by_batch.update(VALUES[start : min(start + 7, 600)])
    values, counts = np.unique(VALUES[:600], return_counts=True)
    by_frequency.update(values[::-1], counts[::-1])
    assert np.array_equal(by_batch.counters, by_frequency.counters)
    assert not by_batch.is_zero


@every_sketch
def test_deletes_leave_no_trace(make: Callable[[int], LinearSketch]) -> None:
    sketch = sketched(make)
    order = np.random.default_rng(2).permutation(len(VALUES))
    sketch.update(VALUES[order], -WEIGHTS[order])
    assert sketch.is_zero


@every_sketch
def test_a_missing_tuple_and_a_doubled_one_show_in_the_difference(make: Callable[[int], LinearSketch]) -> None:
    arrived, stored = make(1), make(1)
    arrived.update(np.arange(1_000))
    stored.update(np.arange(1_000))
    assert (arrived - stored).is_zero
    stored.update(np.array([7, 8]), np.array([1, -1]))
    assert not (arrived - stored).is_zero


@every_sketch
def test_nothing_is_counted_of_an_empty_batch(make: Callable[[int], LinearSketch]) -> None:
    sketch = make(1)
    sketch.update(np.array([], np.int64))
    assert sketch.is_zero
    assert sketch.memory_used() == 8 * sketch.counters.size


@every_sketch
def test_bytes_give_the_sketch_back_which_counts_on(make: Callable[[int], LinearSketch]) -> None:
    half = sketched(make, slice(0, 11_111))
    back = type(half).from_bytes(half.to_bytes())
    back.update(VALUES[11_111:], WEIGHTS[11_111:])
    assert np.array_equal(back.counters, sketched(make).counters)
    assert (back - sketched(make)).is_zero


@every_sketch
def test_every_damaged_byte_is_found(make: Callable[[int], LinearSketch]) -> None:
    data = bytearray(sketched(make).to_bytes())
    for place in [*range(40), len(data) // 2, len(data) - 1]:
        data[place] ^= 0x10
        with pytest.raises(SketchDamagedError):
            type(make(1)).from_bytes(bytes(data))
        data[place] ^= 0x10
    for length in (0, 10, 21, 40, len(data) - 1):
        with pytest.raises(SketchDamagedError):
            type(make(1)).from_bytes(bytes(data[:length]))


def test_bytes_of_another_class_or_version_say_so() -> None:
    data = bytearray(HashSketch(3, 8, seed=1).to_bytes())
    with pytest.raises(SketchDamagedError, match="no AgmsSketch but a sketch of kind 2: read it with its class"):
        AgmsSketch.from_bytes(bytes(data))
    data[8] = 9
    with pytest.raises(SketchDamagedError, match="format 9, and this version reads 1: make it anew"):
        HashSketch.from_bytes(bytes(data))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (HashSketch(5, 37, seed=2), "seed 1 with 5 x 37 counters and of seed 2 .*Sketch both streams anew"),
        (HashSketch(5, 38, seed=1), "5 x 37 counters and of seed 1 with 5 x 38"),
        (AgmsSketch(5, 37, seed=1), "A HashSketch and a AgmsSketch don't belong together: .*same class"),
    ],
    ids=["seed", "shape", "class"],
)
def test_sketches_that_differ_are_refused_with_what_to_do(other: LinearSketch, message: str) -> None:
    sketch = HashSketch(5, 37, seed=1)
    for combine in (sketch.__add__, sketch.__sub__, sketch.join_size):
        with pytest.raises(SketchMismatchError, match=message):
            combine(other)  # type: ignore[operator]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="give one weight for each value"):
        HashSketch(3, 8, seed=1).update(np.arange(3), np.arange(2))
    with pytest.raises(ValueError, match="give at least 1 each"):
        HashSketch(0, 8, seed=1)
    with pytest.raises(ValueError, match="give at most 1,073,741,824"):
        HashSketch(1, 2**30 + 1, seed=1)
    with pytest.raises(ValueError, match="values run from -1 to 3, but the sketch has levels for 0 to 255"):
        DyadicSketch(3, 3, 8, seed=1).update(np.array([3, -1]))
    with pytest.raises(ValueError, match="give at most 58"):
        DyadicSketch(59, 3, 8, seed=1)
