"""Why some published ratios can't be reached by counting page loads: bounds that hold for any design."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from spark_jobs.experiments.papers.contenders import CHYBRIDJOIN, CMESHJOIN, HYBRIDJOIN, MESHJOIN
from spark_jobs.experiments.papers.disks import VirtualKind, disk_of
from spark_jobs.experiments.papers.measured_point import best_page_rows, predicted
from spark_jobs.experiments.papers.sketches.join_size_error import zipf_probabilities
from spark_jobs.experiments.papers.sort_based import interval_joins as sort_based
from spark_jobs.experiments.semi_stream.shedding_run import SheddingSetting, arrival_rate_series
from spark_jobs.experiments.semi_stream.workloads import TUPLE_BYTES, temporal_locality, zipf
from spark_jobs.experiments.virtual_relation import HARD_DISK
from spark_jobs.joins.semi_stream.theory.hybrid_join_model import stays_in_queue
from spark_jobs.joins.semi_stream.theory.popularity import ZipfStream, zipf_page_popularity
from spark_jobs.joins.semi_stream.theory.setting import FREE_PROCESSOR, PAPER_ERA, ProcessorCosts
from spark_jobs.joins.stream_stream.theory.interval_results import expected_results
from spark_jobs.joins.structures.hashed_streams import HashedStreams
from spark_jobs.settings import Home
from spark_jobs.sketches.error_model import basic_deviation
from spark_jobs.workload.tpch_files import generate_tables
from spark_jobs.workload.zipf import ZipfDistribution

PAPER_TUPLES = 100_000_000
FRONT_SHARE = 0.15


def oracle_bound(hit_ratio: float) -> float:
    """The most that a front stage can do for MESHJOIN, whose matches per page are proportional to its memory."""
    return (1 - FRONT_SHARE) / (1 - hit_ratio)


@pytest.mark.parametrize(("memory_percent", "published", "bound"), [(10, 6.5, 3.8), (1, 4.0, 2.5)], ids=["10 %", "1 %"])
def test_no_front_stage_can_make_mesh_join_as_much_faster_as_published(
    memory_percent: int, published: float, bound: float
) -> None:
    """003 Fig. 5(a): even if a slot took no more than its tuple, and the cache held the most frequent ones.

    MESHJOIN's w = h_S d / R depends on memory alone, so what the front stage lets pass costs at least 1 / 0.85 of what
    it cost before. 6.5 would take a hit ratio of 87 %, 4 would take 79 %; the top tuples have 77 % and 64 %.
    """
    slots = FRONT_SHARE * memory_percent / 100 * PAPER_TUPLES
    hit_ratio = ZipfStream(PAPER_TUPLES, 1.0, shuffled=True).share_of_hottest(slots)
    assert hit_ratio == pytest.approx(np.log(slots) / np.log(PAPER_TUPLES), rel=0.01)
    assert oracle_bound(hit_ratio) < bound < published


def test_the_processor_decides_whether_hybrid_joins_published_ratios_are_reached() -> None:
    """003 Fig. 5(b): 3x for R = 20 million tuples, 2.8x for 100 million; the paper prints no processor costs.

    With none, page loads alone give more, and less for the larger R, as published; with those that are assumed here
    it is the other way round, for with R = 20 million both algorithms are limited by the processor.
    """

    def ratio(tuples: int, processor: ProcessorCosts) -> float:
        disk, memory = VirtualKind(HARD_DISK, processor), PAPER_TUPLES * TUPLE_BYTES // 10
        r = zipf(tuples, 1.0, sorted_by_rank=False)
        rates = []
        for contender in (CHYBRIDJOIN, HYBRIDJOIN):
            prediction = predicted(contender, r, memory, best_page_rows(contender, r, memory, disk), disk)
            assert prediction is not None
            rates.append(prediction.service_rate)
        return rates[0] / rates[1]

    free = [ratio(tuples, FREE_PROCESSOR) for tuples in (20_000_000, 100_000_000)]
    charged = [ratio(tuples, PAPER_ERA) for tuples in (20_000_000, 100_000_000)]
    assert free[0] > free[1] > 2.8 > charged[1] > charged[0]


def test_the_published_hit_ratio_and_the_published_speed_contradict_each_other() -> None:
    """003 Fig. 9(d): with 51 % of the stream joined by the front stage, page loads explain a factor of 1.7, not 6.5."""
    assert oracle_bound(0.51) == pytest.approx(1.73, abs=0.01)


def test_lists_of_duplicates_grow_with_what_slows_the_published_mesh_join_down() -> None:
    """A guess at 6.5x, by arithmetic alone: a Java MultiHashMap takes a tuple out of its key's list in O(list length).

    With h_S tuples waiting, that of a tuple is h_S * sum p^2 long on average. At skew 1 these are some ten thousand
    tuples, at skew 0 less than two; behind a front stage, which takes the hottest keys away, far fewer; and more for
    the smaller domains of N = 20 than for those of N = 1. At 1 % memory lists are a tenth as long, while page loads
    cost several times more a tuple: the published 4x is not explained by them.
    """
    waiting = 11_000_000  # 1.12 GB at 100 bytes a tuple

    def list_length(keys: int, exponent: float, cached: int = 0) -> float:
        probabilities = ZipfDistribution(keys, exponent).probabilities()[cached:]
        return waiting * float(np.square(probabilities).sum() / probabilities.sum())

    keys = PAPER_TUPLES // 10  # a tenth of the keys does: the hottest ones make the sum
    assert list_length(keys, 0.0) < 2
    assert list_length(keys, 1.0) > 30_000
    assert list_length(keys, 1.0) > 100 * list_length(keys, 1.0, cached=10_000)
    assert list_length(200_000, 1.0) > 1.5 * list_length(4_000_000, 1.0)


def test_mesh_join_loads_as_many_pages_whatever_the_skew() -> None:
    """003 Fig. 5(d) publishes a slight decrease with skew, which page loads don't show."""
    with disk_of("virtual-hdd", Home(Path("unused")), lambda what, share: None) as disk:
        rates = []
        for exponent in (0.0, 1.0):
            r = zipf(1_000_000, exponent, sorted_by_rank=False)
            prediction = predicted(MESHJOIN, r, 12_000_000, 10_000, disk)
            assert prediction is not None
            rates.append(prediction.service_rate)
    assert rates[0] == rates[1]


def test_no_cache_of_customers_hits_much_of_dbgens_orders(tmp_path: Path) -> None:
    """003 Fig. 5(e), 3.7x and 2.5x at 1 % memory: the best cache of customers hits less than 1 %.

    15 % of 1 % of Customer's bytes are 0.15 % of the customers, and dbgen's orders are nearly uniform over two
    thirds of them. So no front stage of 15 % of memory can pay, whatever its design.
    """
    folder = generate_tables(Home(tmp_path), 0.01, lambda what, share: None)
    customers = pq.read_metadata(folder / "customer.parquet").num_rows
    keys = pq.read_table(folder / "orders.parquet", columns=["o_custkey"])["o_custkey"].to_numpy()
    orders = np.bincount(keys, minlength=customers + 1)[1:]
    for memory_percent, most in ((1, 0.01), (10, 0.06)):
        slots = max(1, round(FRONT_SHARE * memory_percent / 100 * customers))
        hit_ratio = np.sort(orders)[-slots:].sum() / orders.sum()
        assert hit_ratio < most
        assert oracle_bound(hit_ratio) < 1


def test_the_front_stage_learns_an_interval_after_it_is_over() -> None:
    """003 Fig. 5(g), N = 20: a tuple meets its page half a cycle after it came, which is longer than an interval."""
    with disk_of("virtual-hdd", Home(Path("unused")), lambda what, share: None) as disk:
        interval = PAPER_TUPLES // 50
        r = temporal_locality(PAPER_TUPLES, 20, interval)
        memory = PAPER_TUPLES * TUPLE_BYTES // 10
        page_rows = best_page_rows(CMESHJOIN, r, memory, disk)
        prediction = predicted(CMESHJOIN, r, memory, page_rows, disk)
    assert prediction is not None
    seen_by_the_stream = prediction.waiting_tuples / (1 - prediction.hit_ratio)
    assert seen_by_the_stream / 2 > 3 * interval


def test_hybrid_joins_advantage_over_mesh_join_does_not_shrink_with_r() -> None:
    """000 Fig. 10(c): with equally many tuples waiting, w / (h_S d / R), the paper's k, rather grows with R."""
    waiting, page_rows = 500_000, 14_000
    ks = []
    for tuples in (500_000, 2_000_000, 8_000_000):
        popularity = zipf_page_popularity(tuples, 1.0, page_rows, shuffled=False)
        matches = stays_in_queue(popularity, waiting).matches_per_load
        ks.append(matches / (waiting * page_rows / tuples))
    assert ks == sorted(ks)
    # In the paper's settings, R = 2 million, it measured 1.36.
    assert ks[1] == pytest.approx(1.36, rel=0.1)


def test_a_front_stage_of_three_quarters_of_memory_pays_with_the_papers_relation_only() -> None:
    """003 Fig. 9(a): with a quarter of memory left it has to hit 75 %, which takes a large R: hits grow with log R."""

    def gain(tuples: int) -> float:
        disk, memory = VirtualKind(HARD_DISK, PAPER_ERA), tuples * TUPLE_BYTES // 10
        r = zipf(tuples, 1.0, sorted_by_rank=False)
        rates = []
        for share in (0.75, 0.0):
            contender = CMESHJOIN.with_front_share(share)
            prediction = predicted(contender, r, memory, best_page_rows(contender, r, memory, disk), disk)
            assert prediction is not None
            rates.append(prediction.service_rate)
        return rates[0] / rates[1]

    assert gain(PAPER_TUPLES) > 1 > gain(PAPER_TUPLES // 100)


def test_untuned_shedding_leaves_little_to_gain_behind_a_front_stage() -> None:
    """003 Fig. 8, 33 %: to settle a third more than untuned shedding does is to settle nearly all that comes."""
    r = zipf(250_000, 1.0, sorted_by_rank=True)
    setting = SheddingSetting(r, r.relation_bytes // 100, page_rows=800, warm_up=34_000, measured=34_000)
    points = arrival_rate_series(setting, overloads=(5,))
    untuned = next(point.measurement for point in points if point.series == "untuned")
    assert untuned.settled > 0.67 * untuned.arrived
    assert untuned.front_stage_hits > 0.5 * untuned.settled


def test_few_results_have_begun_before_the_windows_are_full() -> None:
    """004 Fig. 2: four tuples, all of the first window, are far fewer ways than one that has been full for a while."""
    whole = expected_results(sort_based.STREAMS, sort_based.TUPLES, sort_based.LENGTH, sort_based.WINDOW)
    first = expected_results(
        sort_based.STREAMS, sort_based.TUPLES, sort_based.LENGTH, sort_based.WINDOW, come=sort_based.WINDOW
    )
    assert first < 0.03 * whole


def test_intervals_of_75_would_give_a_thousand_times_the_published_results() -> None:
    """004 §7: 7.5, with a decimal comma that was lost, gives as many as published: whole numbers 8 in a row."""
    printed, read = (
        expected_results(sort_based.STREAMS, sort_based.TUPLES, length, sort_based.WINDOW)
        for length in (sort_based.PRINTED_LENGTH, sort_based.LENGTH)
    )
    assert printed > 900 * sort_based.PUBLISHED_RESULTS
    assert read == pytest.approx(sort_based.PUBLISHED_RESULTS, rel=0.01)


def test_intermediate_results_that_carry_their_parts_take_the_published_pages() -> None:
    """004 §7: Greedy's tree. A tuple is two ends, start, end, id; each further part of a result adds two ends.

    What an operator's left stream is of its tuples follows from the results to be expected of two and three streams.
    """
    accesses = sort_based.measured("binary tree", "Greedy", 1.0).accesses
    weighed = float(accesses[0])
    for parts, level in ((2, 1), (3, 2)):
        left = expected_results(parts, sort_based.TUPLES, sort_based.LENGTH, sort_based.WINDOW)
        tuples = left + sort_based.TUPLES
        bytes_of_left = 24 + 16 * parts
        weighed += accesses[level] * (left * bytes_of_left / 40 + sort_based.TUPLES) / tuples
    one = sort_based.measured("quaternary", "Greedy", 1.0).all_accesses
    published = [sort_based.PUBLISHED_ACCESSES[shape, "Greedy"] for shape in ("binary tree", "quaternary")]
    assert weighed / one == pytest.approx(published[0] / published[1], rel=0.1)


def test_m_joins_tables_lie_side_by_side() -> None:
    """002 Fig. 6, 3x: MJoin waits for memory once for the heads of all chains of a key, separate tables wait anew.

    Five heads are 20 bytes, so that three buckets of four lie in one line of 64 whole, wherever the array begins; a
    failing tuple then costs it one wait, and the tuples it finds on its way.
    """
    heads = HashedStreams(10_000, 5).heads
    begins = heads.ctypes.data % 64 + np.arange(len(heads)) * heads.strides[0]
    in_one_line = begins // 64 == (begins + heads.strides[0] - 1) // 64
    assert in_one_line.mean() > 0.7


def test_no_skimming_gets_a_join_size_from_few_counters_within_a_tenth() -> None:
    """001, sketches, Fig. 5(a), below 10 %: 11 tables of 50 buckets, even if as many values as counters were known.

    Dense values are joined with the other stream's sparse ones by the sketches, whose noise in that subjoin alone is
    more than a tenth of the join size of shift 300. With the most space, 59 tables of 250, it is not.
    """
    frequencies = 4_000_000 * zipf_probabilities(2**18, 1.0)

    def noise(tables: int, buckets: int) -> float:
        known = np.arange(len(frequencies)) < tables * buckets
        dense, sparse = np.where(known, frequencies, 0.0), np.where(known, 0.0, frequencies)
        shifted = np.roll(sparse, 300)
        return basic_deviation(dense, shifted, tables, buckets) / float(frequencies @ np.roll(frequencies, 300))

    assert noise(11, 50) > 0.1 > noise(59, 250)
