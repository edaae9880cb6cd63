"""Skimming: dense values are found, what is left is the sketch of the rest, and join sizes get far better."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.errors import SketchMismatchError
from spark_jobs.sketches.dyadic_sketch import DyadicSketch
from spark_jobs.sketches.error_model import basic_deviation, skimmed_deviation
from spark_jobs.sketches.hash_sketch import HashSketch
from spark_jobs.sketches.skimmed import Candidates, Skimmed, skim
from tests.sketches.streams import Counts, join_size, shifted_pair, zipf_counts

TABLES, BUCKETS = 11, 64


def sketched(counts: Counts, seed: int, buckets: int = BUCKETS) -> HashSketch:
    sketch = HashSketch(TABLES, buckets, seed=seed)
    sketch.update(np.arange(len(counts)), counts)
    return sketch


def skimmed(counts: Counts, seed: int, buckets: int = BUCKETS) -> Skimmed:
    sketch = sketched(counts, seed, buckets)
    return skim(sketch, Candidates(sketch, np.arange(len(counts))))


def test_the_rest_is_the_sketch_of_the_stream_without_the_dense_values() -> None:
    counts, _ = shifted_pair(1)
    sketch = sketched(counts, 1)
    before = sketch.counters.copy()
    made = skim(sketch, Candidates(sketch, np.arange(len(counts))))
    assert len(made.values) > 5
    made.rest.update(made.values, made.frequencies)
    assert np.array_equal(made.rest.counters, before)
    assert np.array_equal(sketch.counters, before), "the sketch itself is left as it is"


def test_dense_values_are_found_with_their_frequencies() -> None:
    for seed in range(20):
        counts, _ = shifted_pair(seed, exponent=1.2)
        made = skimmed(counts, seed)
        assert set(made.values) >= set(range(8)), "the eight most frequent"
        order = np.argsort(made.values)[:8]
        assert made.frequencies[order] == pytest.approx(counts[:8], rel=0.2)
        rest = counts.astype(np.float64)
        rest[made.values] -= made.frequencies
        assert rest @ rest < 0.05 * join_size(counts, counts)


def test_one_pass_with_a_threshold_is_the_papers_skim_dense() -> None:
    counts, _ = shifted_pair(1)
    sketch = sketched(counts, 1)
    threshold = counts.sum() / np.sqrt(BUCKETS) / 2
    made = skim(sketch, Candidates(sketch, np.arange(len(counts))), threshold=threshold, passes=1)
    medians = sketch.frequencies(np.arange(len(counts)))
    dense = np.flatnonzero(np.abs(medians) >= threshold)
    assert 0 < len(dense) < 50
    assert np.array_equal(made.values, dense)
    assert np.array_equal(made.frequencies, medians[dense])


def test_a_value_that_was_deleted_more_often_than_it_came_is_dense_too() -> None:
    counts, _ = shifted_pair(1)
    counts[100] = -5_000
    made = skimmed(counts, 1)
    assert made.frequencies[made.values == 100] == pytest.approx([-5_000], rel=0.1)


def test_few_values_in_many_buckets_are_told_exactly() -> None:
    first, second = np.zeros(1_000, np.int64), np.zeros(1_000, np.int64)
    first[[3, 70, 500]], second[[3, 500, 900]] = (10, 20, 1), (7, 5, 1_000)
    a, b = skimmed(first, 1), skimmed(second, 1)
    assert a.rest.is_zero
    estimate = a.join_size(b)
    assert (estimate.value, estimate.error) == (75.0, 0.0)
    assert a.self_join_size().value == 501.0


def test_the_four_subjoins_are_those_of_dense_values_and_rests() -> None:
    first, second = shifted_pair(2)
    a, b = skimmed(first, 5), skimmed(second, 5)
    common = np.intersect1d(a.values, b.values)
    assert len(common) > 0
    dense = sum(int(a.frequencies[a.values == value][0]) * int(b.frequencies[b.values == value][0]) for value in common)
    mixed = np.median(b.rest.row_joins_with(a.values, a.frequencies)) + np.median(
        a.rest.row_joins_with(b.values, b.frequencies)
    )
    sparse = np.median(a.rest.row_joins(b.rest))
    assert a.join_size(b).value == pytest.approx(dense + mixed + sparse)
    assert b.join_size(a).value == a.join_size(b).value


def test_estimates_are_far_better_than_without_skimming_and_lie_within_the_error_that_is_told() -> None:
    inside, errors, predicted = 0, [], []
    for seed in range(60):
        first, second = shifted_pair(seed, exponent=1.2)
        truth = join_size(first, second)
        estimate = skimmed(first, seed).join_size(skimmed(second, seed), confidence=0.9)
        inside += abs(estimate.value - truth) <= estimate.error
        plain = sketched(first, seed).join_size(sketched(second, seed))
        errors.append([estimate.value / truth - 1, plain.value / truth - 1])
        f, g = first.astype(np.float64), second.astype(np.float64)
        predicted.append([model(f, g, TABLES, BUCKETS) / truth for model in (skimmed_deviation, basic_deviation)])
    assert inside >= 0.9 * 60
    skimmed_error, plain_error = np.sqrt(np.mean(np.square(errors), axis=0))
    assert skimmed_error < plain_error / 3
    skimmed_told, plain_told = np.mean(predicted, axis=0)
    assert skimmed_error == pytest.approx(skimmed_told, rel=0.5)
    # Of plain tables few have two dense values in one bucket, which makes most of the variance, not of the median's.
    assert plain_error < plain_told
    # What the dense values' own estimates add is no more than a part of the noise.
    assert abs(np.mean(errors, axis=0)[0]) < 0.5 * skimmed_error


def test_self_join_sizes_of_skewed_streams_are_nearly_exact() -> None:
    for seed in range(20):
        counts = zipf_counts(4_096, 40_000, 1.5, seed)
        assert skimmed(counts, seed).self_join_size().value == pytest.approx(join_size(counts, counts), rel=0.02)


def test_candidates_serve_sketches_of_the_same_functions_only() -> None:
    counts, _ = shifted_pair(1)
    candidates = Candidates(sketched(counts, 1), np.arange(len(counts)))
    few_tables = HashSketch(5, BUCKETS, seed=1)
    few_tables.update(np.arange(len(counts)), counts)
    assert len(skim(few_tables, candidates).values) > 0
    for other in (sketched(counts, 2), sketched(counts, 1, buckets=65), HashSketch(TABLES + 1, BUCKETS, seed=1)):
        with pytest.raises(SketchMismatchError, match="make them anew from that sketch"):
            skim(other, candidates)
    with pytest.raises(SketchMismatchError, match="don't belong together"):
        skimmed(counts, 1).join_size(skimmed(counts, 2))


def test_a_candidate_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="3 candidates are 2 values: give each of them once"):
        Candidates(HashSketch(3, 8, seed=1), np.array([5, 6, 5]))


def test_dense_values_of_a_huge_domain_are_found_by_halving_intervals() -> None:
    counts = zipf_counts(4_096, 40_000, 1.2, 1)
    places = np.random.default_rng(1).integers(0, 2**50, len(counts))
    sketch = DyadicSketch.for_domain(2**50, TABLES, BUCKETS, seed=1)
    sketch.update(places, counts)
    found = sketch.dense_values()
    assert set(found) >= set(places[:5])
    assert len(found) < 200
    made = skim(sketch.values, Candidates(sketch.values, found))
    truth = join_size(counts, counts)
    assert made.self_join_size().value == pytest.approx(truth, rel=0.1)
    assert sketch.values.join_size(sketch.values).error > 2 * made.self_join_size().error


def test_halving_looks_at_few_intervals_with_a_threshold_too() -> None:
    counts = zipf_counts(4_096, 40_000, 1.2, 1)
    sketch = DyadicSketch.for_domain(4_096, TABLES, 512, seed=1)
    sketch.update(np.arange(len(counts)), counts)
    found = sketch.dense_values(threshold=1_500.0)
    assert set(np.flatnonzero(counts > 2_000)) <= set(found) <= set(np.flatnonzero(counts > 1_000))


@pytest.mark.parametrize(("values", "bits"), [(1, 6), (64, 6), (65, 7), (2**18, 18), (2**63, 63)])
def test_a_dyadic_sketch_has_levels_for_its_domain(values: int, bits: int) -> None:
    sketch = DyadicSketch.for_domain(values, 1, 4, seed=1)
    assert sketch.domain_bits == bits
    sketch.update(np.array([0, values - 1]))
    assert sketch.values.counters.any() or values == 1
