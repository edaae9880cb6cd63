"""Join sizes: unbiased, within their bounds, and exact where the sketch has room for all values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from spark_jobs.sketches.agms import AgmsSketch
from spark_jobs.sketches.error_model import basic_deviation
from spark_jobs.sketches.hash_sketch import HashSketch
from spark_jobs.sketches.join_size import JoinSizeSketch, median_error
from tests.sketches.streams import Counts, join_size, shifted_pair

AGMS, HASH = (
    (lambda rows, counters, seed: AgmsSketch(rows, counters, seed=seed)),
    (lambda rows, counters, seed: HashSketch(rows, counters, seed=seed)),
)
both_sketches = pytest.mark.parametrize("make", [AGMS, HASH], ids=["agms", "hash"])
Make = Callable[[int, int, int], JoinSizeSketch]


def sketched(make: Make, rows: int, counters: int, seed: int, counts: Counts) -> JoinSizeSketch:
    sketch = make(rows, counters, seed)
    sketch.update(np.arange(len(counts)), counts)
    return sketch


@both_sketches
def test_a_row_is_right_on_average_and_varies_as_the_theory_says(make: Make) -> None:
    """400 rows of 16 counters over 20 seeds: their mean lies within four standard errors of the truth."""
    first, second = shifted_pair(1, domain=256, shift=3)
    pairs = [(sketched(make, 400, 16, seed, first), sketched(make, 400, 16, seed, second)) for seed in range(20)]
    f, g = first.astype(np.float64), second.astype(np.float64)
    for truth, rows, other in (
        (join_size(first, second), np.concatenate([a.row_joins(b) for a, b in pairs]), g),
        (join_size(first, first), np.concatenate([a.row_joins(a) for a, _ in pairs]), f),
    ):
        deviation = basic_deviation(f, other, 1, 16) / math.sqrt(math.pi / 2)
        assert abs(rows.mean() - truth) < 4 * deviation / math.sqrt(len(rows))
        assert rows.std() == pytest.approx(deviation, rel=0.15)


@both_sketches
def test_estimates_lie_within_the_error_that_is_told_and_it_tells_something(make: Make) -> None:
    inside, errors, told = 0, [], []
    for seed in range(100):
        first, second = shifted_pair(seed, exponent=0.7)
        a, b = sketched(make, 7, 128, seed, first), sketched(make, 7, 128, seed, second)
        for estimate, truth in (
            (a.join_size(b, confidence=0.9), join_size(first, second)),
            (a.self_join_size(confidence=0.9), join_size(first, first)),
        ):
            error = abs(estimate.value - truth)
            inside += error <= estimate.error
            errors.append(error / truth)
            told.append(estimate.error / truth)
    assert inside >= 0.9 * 200
    # Chebyshev's inequality and the shared-out risk cost a factor, not orders of magnitude.
    assert 2 < np.mean(told) / np.sqrt(np.mean(np.square(errors))) < 30


@both_sketches
def test_the_error_that_is_told_shrinks_with_space_and_grows_with_confidence(make: Make) -> None:
    first, second = shifted_pair(1)
    few, many, rows = (
        sketched(make, *shape, 1, first).join_size(sketched(make, *shape, 1, second))
        for shape in ((7, 50), (7, 200), (31, 200))
    )
    assert few.error > 1.5 * many.error > 2 * rows.error
    surer = sketched(make, 7, 200, 1, first).join_size(sketched(make, 7, 200, 1, second), confidence=0.999)
    assert surer.error > many.error
    assert surer.value == many.value
    assert (surer.confidence, many.confidence) == (0.999, 0.95)


def test_a_sketch_that_is_too_small_to_tell_an_error_says_so() -> None:
    sketch = sketched(HASH, 1, 4, 1, shifted_pair(1)[0])
    assert sketch.join_size(sketch).error == math.inf


def test_a_median_is_off_as_the_binomial_distribution_says() -> None:
    """One row by Chebyshev; of three, two have to be off: 3 p^2 - 2 p^3 is the risk."""
    assert median_error(4.0, 1, 0.25) == pytest.approx(4.0)
    p = (math.sqrt(4.0) / median_error(4.0, 3, 0.1)) ** 2
    assert 3 * p**2 - 2 * p**3 == pytest.approx(0.1)
    assert median_error(4.0, 5, 0.1) < median_error(4.0, 3, 0.1)


@both_sketches
def test_one_value_and_no_value_are_told_exactly(make: Make) -> None:
    one, none = make(5, 16, 3), make(5, 16, 3)
    one.update(np.array([-(2**63)]), np.array([1_000_000]))
    assert one.self_join_size().value == 1e12
    assert none.join_size(one).value == none.join_size(one).error == 0


def test_frequencies_are_medians_of_tables_and_places_say_where_they_lie() -> None:
    counts = shifted_pair(3, exponent=1.5)[0]
    sketch = HashSketch(7, 256, seed=4)
    sketch.update(np.arange(len(counts)), counts)
    assert sketch.frequencies(np.arange(5)) == pytest.approx(counts[:5], abs=0.05 * counts[0])
    places = sketch.places(np.arange(len(counts)))
    signs = 1 - 2 * (places & 1)
    rebuilt = np.zeros_like(sketch.counters)
    for table in range(7):
        np.add.at(rebuilt[table], places[table] >> 1, signs[table] * counts)
    assert np.array_equal(rebuilt, sketch.counters)
    by_table = signs[:, :100] * np.take_along_axis(sketch.counters, places[:, :100] >> 1, axis=1)
    assert np.array_equal(np.median(by_table, axis=0), sketch.frequencies(np.arange(100)))


def test_a_join_with_known_tuples_is_their_weighted_frequencies() -> None:
    first, second = shifted_pair(5)
    sketch = sketched(HASH, 5, 64, 1, first)
    assert isinstance(sketch, HashSketch)
    known = HashSketch(5, 64, seed=1)
    known.update(np.arange(10), second[:10])
    exact = sketch.row_joins_with(np.arange(10), second[:10])
    signs = 1 - 2 * (sketch.places(np.arange(10)) & 1)
    counters = np.take_along_axis(sketch.counters, sketch.places(np.arange(10)) >> 1, axis=1)
    assert exact == pytest.approx((signs * counters) @ second[:10])


def test_a_table_does_not_depend_on_how_many_there_are_nor_an_atom() -> None:
    counts = shifted_pair(1)[0]
    for make, few, many in ((HASH, (3, 50), (9, 50)), (AGMS, (3, 61), (5, 150))):
        small, large = sketched(make, *few, 1, counts), sketched(make, *many, 1, counts)
        assert np.array_equal(small.counters, large.counters[: few[0], : few[1]])
