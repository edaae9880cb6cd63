"""The front stage keeps the tuples that are popular now, within its memory."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

from spark_jobs.errors import JoinStateError, MemoryBudgetError
from spark_jobs.joins.semi_stream.admission_threshold import AdmissionThreshold
from spark_jobs.joins.semi_stream.front_stage import FrontStage

TUPLE_BYTES = 100


class Cache:
    """A front stage with the keys of R as their own tuples, driven batch by batch."""

    def __init__(self, capacity: int) -> None:
        self.front = FrontStage(capacity)
        self.tuples = np.empty(0, np.int64)

    def batch(self, keys: np.ndarray) -> float:
        """Probe, count, offer all misses, publish; the part of the tuples that were hits."""
        slots = self.front.hot_set.probe(keys)
        hit = slots >= 0
        assert np.array_equal(self.tuples[slots[hit]], keys[hit])
        self.front.observe_hits(np.bincount(slots[hit], minlength=self.front.hot_set.slot_count))
        missed, frequencies = np.unique(keys[~hit], return_counts=True)
        accepted = missed[self.front.offer(missed, frequencies)]
        publication = self.front.publish()
        if publication is not None:
            self.tuples = np.concatenate([self.tuples, accepted])[publication.sources]
        assert np.array_equal(self.tuples, self.front.hot_set.keys)
        self.front.check()
        return float(hit.mean())


def zipf(count: int, seed: int) -> tuple[np.ndarray, Callable[[int], np.ndarray]]:
    """Probabilities by rank for exponent 1, and a generator of keys whose ranks are shuffled."""
    rng = np.random.default_rng(seed)
    cumulative = np.cumsum(1 / np.arange(1, count + 1))
    cumulative /= cumulative[-1]
    keys = rng.permutation(count)
    return cumulative, lambda size: keys[np.searchsorted(cumulative, rng.random(size))]


@pytest.mark.parametrize(
    ("capacity", "batch", "batches"), [(1000, 10_000, 60), (1000, 1000, 300), (5000, 100_000, 25), (50, 100_000, 15)]
)
def test_it_hits_nearly_as_often_as_one_that_knows_the_true_frequencies(
    capacity: int, batch: int, batches: int
) -> None:
    probabilities, draw = zipf(100_000, seed=1)
    cache = Cache(capacity)
    ratios = [cache.batch(draw(batch)) for _ in range(batches)]
    assert np.mean(ratios[-10_000 // batch - 10 :]) >= 0.97 * probabilities[capacity - 1]


def test_it_adapts_in_a_few_batches_when_all_popularity_changes() -> None:
    probabilities, draw = zipf(100_000, seed=1)
    _, draw_changed = zipf(100_000, seed=2)
    cache = Cache(1000)
    for _ in range(30):
        cache.batch(draw(10_000))
    ratios = [cache.batch(draw_changed(10_000)) for _ in range(10)]
    best = probabilities[999]
    assert ratios[0] < 0.3 * best
    assert ratios[1] > 0.6 * best
    assert ratios[5] > 0.85 * best
    assert ratios[9] > 0.9 * best


def test_the_least_frequent_gives_way() -> None:
    cache = Cache(4)
    for _ in range(4):
        cache.batch(np.repeat([10, 11, 12, 13], [9, 8, 7, 1]))
    assert sorted(cache.tuples.tolist()) == [10, 11, 12, 13]
    cache.batch(np.repeat([10, 11, 12, 22], [9, 8, 7, 50]))
    assert sorted(cache.tuples.tolist()) == [10, 11, 12, 22]


def test_a_newcomer_replaces_the_least_frequent_only_if_it_is_more_frequent() -> None:
    front = FrontStage(1)
    front.offer(np.array([7]), np.array([5]))
    assert front.publish() is not None
    assert front.offer(np.array([8]), np.array([4])).size == 0, "it would not win"
    assert front.publish() is None
    assert front.hot_set.keys.tolist() == [7]
    front.offer(np.array([8]), np.array([4]))
    publication = front.publish()
    assert publication is not None, "8 has been seen eight times by now, 7 five times"
    assert publication.hot_set.keys.tolist() == [8]
    assert publication.sources.tolist() == [1]


def test_frequencies_far_beyond_the_sketchs_counters_are_compared_as_they_are() -> None:
    front = FrontStage(1)
    front.offer(np.array([7]), np.array([10]))
    front.publish()
    front.observe_hits(np.array([5_000]))
    front.offer(np.array([8]), np.array([4_000]))
    assert front.publish() is None
    front.observe_hits(np.array([5_000]))
    front.offer(np.array([9]), np.array([6_000]))
    publication = front.publish()
    assert publication is not None
    assert publication.hot_set.keys.tolist() == [9]


def test_the_best_offers_are_accepted_when_there_is_not_room_for_all() -> None:
    front = FrontStage(80)
    assert front.staging_room == 80
    assert front.offer(np.arange(100), np.arange(1, 101)).tolist() == list(range(99, 19, -1))
    assert front.staging_room == 0
    assert front.offer(np.array([500]), np.array([10**6])).size == 0
    front.publish()
    assert front.staging_room == 10, "an eighth of the full cache"
    assert front.offer(np.arange(200, 300), np.arange(101, 201)).tolist() == list(range(99, 89, -1))


def test_a_tuple_is_accepted_once_however_often_it_is_offered() -> None:
    front = FrontStage(80)
    offered = np.array([5, 6, 5])
    assert sorted(offered[front.offer(offered, np.array([1, 1, 1]))].tolist()) == [5, 6]
    assert front.offer(np.array([6, 7]), np.array([9, 9])).tolist() == [1]
    publication = front.publish()
    assert publication is not None
    assert sorted(publication.hot_set.keys.tolist()) == [5, 6, 7]
    assert front.offer(np.array([7]), np.array([3])).size == 0, "7 is in the cache already"
    front.check()


def test_rows_of_a_page_are_offered_as_their_keys_and_counts_are() -> None:
    by_key, by_row = FrontStage(200), FrontStage(200)
    rng = np.random.default_rng(1)
    for _ in range(200):
        page_keys = np.arange(50) + 50 * rng.integers(0, 4)
        rows = np.minimum(rng.zipf(1.5, 30) - 1, 49)
        found, counts = np.unique(rows, return_counts=True)
        accepted = page_keys[found[by_key.offer(page_keys[found], counts)]]
        assert sorted(page_keys[by_row.offer_rows(page_keys, rows)].tolist()) == sorted(accepted.tolist())
        by_row.check()
    for front in (by_key, by_row):
        front.publish()
    frequencies, of_rows = (front.frequencies[np.argsort(front.hot_set.keys)] for front in (by_key, by_row))
    assert len(frequencies) > 100
    assert np.array_equal(frequencies, of_rows)


def test_rows_that_are_in_the_cache_by_now_count_for_their_slots() -> None:
    front = FrontStage(8)
    front.offer_rows(np.array([5, 6, 7]), np.array([1, 1]))
    front.publish()
    assert front.hot_set.keys.tolist() == [6]
    assert front.offer_rows(np.array([5, 6, 7]), np.array([1, 2, 1, 1])).tolist() == [2]
    assert front.frequencies.tolist() == [2 + 3]
    assert front.observed == 6


def test_a_publication_is_due_after_an_eighth_of_the_cache_or_eight_times_as_much_of_the_stream() -> None:
    front = FrontStage(80)
    front.offer(np.arange(9), np.ones(9, np.int64))
    assert not front.publication_due
    front.offer(np.array([9]), np.array([1]))
    assert front.publication_due
    front.publish()
    front.observe_slots(np.zeros(639, np.int64))
    assert not front.publication_due
    front.observe_slots(np.zeros(1, np.int64))
    assert front.publication_due


def test_few_are_accepted_where_none_is_more_popular_than_others() -> None:
    front = FrontStage(500)
    rng = np.random.default_rng(1)
    accepted = []
    for _ in range(10_000):
        accepted.append(len(front.offer_rows(np.arange(500) + 500 * rng.integers(0, 1000), rng.integers(0, 500, 50))))
        if front.publication_due:
            front.publish()
    assert sum(accepted[5000:]) < 250_000 / 300


def test_hits_are_counted_by_slot_or_one_by_one() -> None:
    counted, single = FrontStage(8), FrontStage(8)
    for front in (counted, single):
        front.offer(np.array([1]), np.array([1]))
        front.publish()
        front.offer(np.array([2]), np.array([1]))
        front.publish()
        assert front.hot_set.slot_count == 2
    counted.observe_hits(np.array([2, 1]))
    single.observe_slots(np.array([0, 1, 0]))
    assert pickle.dumps(counted._recorder) == pickle.dumps(single._recorder)


def test_hits_of_another_version_are_refused() -> None:
    front = FrontStage(8)
    with pytest.raises(JoinStateError, match="hits of 3 slots reported, but version 0 of the hot set has 0"):
        front.observe_hits(np.array([1, 2, 3]))


@pytest.mark.parametrize("memory", [500, 5_000, 123_456])
def test_memory_stays_within_the_budget(memory: int) -> None:
    capacity = FrontStage.capacity_within(memory, TUPLE_BYTES)
    front = FrontStage(capacity)

    def used() -> int:
        return front.memory_used() + (front.hot_set.slot_count + front.staged) * TUPLE_BYTES

    rng = np.random.default_rng(1)
    for _ in range(30):
        front.offer(rng.integers(0, 10_000, 500), np.ones(500, np.int64))
        assert used() <= memory
        front.publish()
        assert used() <= memory
    assert front.hot_set.slot_count == capacity
    assert FrontStage.capacity_within(2 * memory, TUPLE_BYTES) > capacity


def test_too_little_memory_is_refused_with_the_amount_that_would_do() -> None:
    with pytest.raises(MemoryBudgetError, match="one tuple of 100 bytes needs") as error:
        FrontStage.capacity_within(100, TUPLE_BYTES)
    needed = int(str(error.value).split("needs ")[1].split(":")[0].replace(",", ""))
    assert FrontStage.capacity_within(needed, TUPLE_BYTES) == 1


def test_the_threshold_falls_while_the_cache_is_not_full_and_rises_when_too_many_are_accepted() -> None:
    threshold = AdmissionThreshold()

    def adapt(accepted: int, *, full: bool = True, hit_ratio: float = 0.5) -> float:
        threshold.adapt(full=full, accepted=accepted, stream_tuples=12_800, hit_ratio=hit_ratio)
        return threshold.value

    assert adapt(0, full=False) == 1
    for _ in range(10):
        adapt(1000)
    risen = threshold.value
    assert risen > 5
    # One for 64 hits, and one for 1,024 stream tuples.
    assert adapt(100 + 12) == pytest.approx(risen, rel=0.01)
    assert adapt(100 + 12, hit_ratio=0.0) > 1.5 * risen, "a cache that saves nothing is not worth as many"
    risen = threshold.value
    assert 1 < adapt(0) < risen
    risen = threshold.value
    assert adapt(1000, full=False) == risen / 2


def frequencies(front: FrontStage) -> dict[int, float]:
    return dict(zip(front.hot_set.keys.tolist(), front.frequencies.tolist(), strict=True))


def test_removed_tuples_leave_the_others_with_their_frequencies() -> None:
    front = FrontStage(5)
    front.offer(np.array([10, 11, 12, 13]), np.array([9, 8, 7, 6]))
    front.publish()
    before = front.hot_set.keys
    publication = front.remove(front.hot_set.probe(np.array([12, 10])))
    assert publication.hot_set.version == 2
    assert publication.hot_set.keys.tolist() == before[publication.sources].tolist()
    assert frequencies(front) == {11: 8, 13: 6}
    front.check()


def test_a_cache_that_lost_tuples_takes_others_in() -> None:
    cache = Cache(4)
    cache.batch(np.repeat([10, 11, 12, 13], [9, 8, 7, 6]))
    removed = cache.front.hot_set.probe(np.array([11]))
    cache.tuples = cache.tuples[cache.front.remove(removed).sources]
    cache.batch(np.repeat([10, 12, 13, 20], [9, 7, 6, 3]))
    assert sorted(cache.tuples.tolist()) == [10, 12, 13, 20]


def test_tuples_accepted_before_others_were_removed_are_published() -> None:
    front = FrontStage(8)
    front.offer(np.array([10, 11]), np.array([9, 8]))
    front.publish()
    front.offer(np.array([12]), np.array([7]))
    front.remove(front.hot_set.probe(np.array([10])))
    publication = front.publish()
    assert publication is not None
    assert np.array([11, 12])[publication.sources].tolist() == publication.hot_set.keys.tolist()


def test_others_take_the_place_of_all_and_what_was_known_before_keeps_its_frequency() -> None:
    front = FrontStage(4)
    front.offer(np.array([10, 11]), np.array([9, 80]))
    front.publish()
    keys = np.array([12, 11, 13])
    publication = front.replace_all(keys, np.array([5, 6, 7], np.float32))
    assert publication.hot_set is front.hot_set
    assert publication.hot_set.keys.tolist() == keys[publication.sources].tolist()
    assert publication.hot_set.version == 2
    assert frequencies(front) == {12: 5, 11: 80, 13: 7}
    front.check()
    front.offer(np.array([10]), np.array([1]))
    assert front.publish() is not None
    assert frequencies(front).keys() == {10, 11, 12, 13}
    assert frequencies(front)[10] >= 10, "that it was found nine times before is remembered"


def test_a_cache_that_begins_with_known_tuples_replaces_the_least_frequent_of_them() -> None:
    front = FrontStage(3)
    front.replace_all(np.array([10, 11, 12]), np.array([50, 2, 60], np.float32))
    front.offer(np.array([20]), np.array([30]))
    assert front.publish() is not None
    assert sorted(front.hot_set.keys.tolist()) == [10, 12, 20]
