"""Frequencies: never too low in the sketch, exact in the slots, and ageing in both."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.structures.frequency_recorder import FrequencyRecorder
from spark_jobs.joins.structures.frequency_sketch import FrequencySketch


def test_estimates_are_never_below_the_truth_and_seldom_above() -> None:
    rng = np.random.default_rng(1)
    truth = np.minimum(rng.zipf(1.5, 4000), 200)
    keys = rng.permutation(10**6)[:4000]
    sketch = FrequencySketch(1000)
    for _ in range(2):
        sketch.add(keys, truth // 2)
    estimates = sketch.estimates(keys)
    counted = truth // 2 * 2
    assert (estimates >= counted).all()
    frequent = np.argsort(counted)[-200:]
    assert (estimates[frequent] <= counted[frequent] + 2).mean() > 0.95


def test_counts_stay_at_255() -> None:
    sketch = FrequencySketch(10)
    key = np.array([4])
    assert sketch.add(key, np.array([200])).tolist() == [200]
    assert sketch.add(key, np.array([10**12])).tolist() == [255]


def test_halving_halves() -> None:
    sketch = FrequencySketch(10)
    sketch.add(np.array([4, 5]), np.array([200, 1]))
    sketch.halve()
    assert sketch.estimates(np.array([4, 5])).tolist() == [100, 0]


def test_rows_are_counted_as_keys_with_their_counts() -> None:
    by_key, by_row = FrequencySketch(100), FrequencySketch(100)
    rng = np.random.default_rng(1)
    for _ in range(50):
        keys = rng.permutation(2000)[:300]
        rows = rng.integers(0, 300, 400)
        found, counts = np.unique(rows, return_counts=True)
        # Keys that share counters are raised in the order in which they come.
        order = np.argsort(np.unique(rows, return_index=True)[1])
        found, counts = found[order], counts[order]
        estimates = np.maximum(by_key.add(keys[found], counts) - 3, counts)
        frequent = estimates >= 5
        expected = np.stack([found[frequent], counts[frequent], estimates[frequent]])
        assert np.array_equal(by_row.add_each(keys, rows, least=5, noise=3), expected)


def test_noise_is_what_a_key_gets_that_was_never_seen() -> None:
    sketch = FrequencySketch(100)
    assert sketch.noise() == 0
    sketch.add(np.arange(20_000), np.ones(20_000, np.int64))
    strangers = sketch.estimates(np.arange(10**6, 10**6 + 1000))
    assert abs(sketch.noise() - np.median(strangers)) <= 1
    assert sketch.noise() > 10


def test_memory_is_sixteen_bytes_a_key() -> None:
    assert FrequencySketch(1000).memory_used() == FrequencySketch.bytes_for(1000) == 16_000


def test_slots_are_counted_one_by_one() -> None:
    recorder = FrequencyRecorder(3, half_life=1000)
    recorder.record_slots(np.array([2, 0, 2]), np.array([5, 1, 2]))
    assert recorder.of_slots.tolist() == [1, 0, 7]
    recorder.check()


def test_everything_counts_half_after_the_half_life() -> None:
    recorder = FrequencyRecorder(2, half_life=100)
    recorder.record_slots(np.array([0]), np.array([60]))
    recorder.record_others(np.array([7]), np.array([39]))
    assert recorder.estimates(np.array([7])).tolist() == [39]
    recorder.age()
    assert recorder.of_slots.tolist() == [60, 0]
    recorder.record_slots(np.array([1]), np.array([2]))
    recorder.age()
    assert recorder.of_slots.tolist() == [30, 1]
    assert recorder.estimates(np.array([7])).tolist() == [19]
    recorder.record_slots(np.array([1]), np.array([10**6]))
    assert recorder.of_slots.tolist() == [30, 10**6 + 1], "what is counted together weighs the same"
    recorder.age()
    assert recorder.of_slots.max() < 1e-9


def test_noise_is_taken_off_the_frequencies_of_others_once_time_has_passed() -> None:
    recorder = FrequencyRecorder(100, half_life=10**6)
    recorder.record_others(np.arange(20_000), np.ones(20_000, np.int64))
    strangers = np.arange(10**6, 10**6 + 1000)
    assert np.median(recorder.estimates(strangers)) > 10
    recorder.age()
    assert abs(np.median(recorder.estimates(strangers))) <= 1
    assert (recorder.record_others(strangers, np.full(1000, 2)) >= 2).all(), "never below what has just been counted"


def test_a_tuple_that_leaves_a_slot_is_remembered() -> None:
    recorder = FrequencyRecorder(2, half_life=10**6)
    recorder.replace(np.array([0]), np.array([], np.int64), np.array([3]))
    recorder.record_slots(np.array([0]), np.array([40]))
    recorder.replace(np.array([0]), np.array([77]), np.array([50]))
    assert recorder.of_slots.tolist() == [50, 0]
    assert recorder.estimates(np.array([77])).tolist() == [43]


def test_recorder_memory_is_what_it_says() -> None:
    assert FrequencyRecorder(123, 10).memory_used() == FrequencyRecorder.bytes_for(123)
