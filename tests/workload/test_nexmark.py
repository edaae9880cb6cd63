"""Nexmark's events: proportions, references, hot items, and that a number always stands for the same event."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_jobs.workload.nexmark import STREAMS, Nexmark

COUNT = 100_000
MOMENTS = np.arange(COUNT, dtype=np.int64) * 1000


@pytest.fixture(scope="module")
def events() -> dict[str, pa.Table]:
    return Nexmark(seed=1, auction_seconds=5.0).take(0, MOMENTS)


def test_of_fifty_events_one_is_a_person_three_are_auctions_the_rest_are_bids(events: dict[str, pa.Table]) -> None:
    assert {stream: table.num_rows for stream, table in events.items()} == {
        "persons": COUNT // 50, "auctions": COUNT // 50 * 3, "bids": COUNT // 50 * 46,
    }  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 49, 50, 51, 1000])
def test_events_do_not_depend_on_how_they_are_cut(events: dict[str, pa.Table], size: int) -> None:
    start, stop = 12_345, 12_345 + 2 * size
    nexmark = Nexmark(seed=1, auction_seconds=5.0)
    cuts = [nexmark.take(first, MOMENTS[first : first + size]) for first in range(start, stop, size)]
    for stream in STREAMS:
        cut = pa.concat_tables(each[stream] for each in cuts)
        before = nexmark.take(0, MOMENTS[:start])[stream].num_rows
        assert cut == events[stream].slice(before, cut.num_rows)


def test_another_seed_gives_other_events_with_the_same_ids(events: dict[str, pa.Table]) -> None:
    other = Nexmark(seed=2, auction_seconds=5.0).take(0, MOMENTS)["bids"]
    assert other["bid_id"] == events["bids"]["bid_id"]
    assert other["price"] != events["bids"]["price"]


def test_ids_are_unique_and_event_times_those_given(events: dict[str, pa.Table]) -> None:
    for table in events.values():
        assert pc.count_distinct(table[0]).as_py() == table.num_rows
    times = pa.concat_arrays(
        [
            events[stream][column].cast(pa.int64()).combine_chunks()
            for stream, column in (("persons", "registered_at"), ("auctions", "opened_at"), ("bids", "bid_at"))
        ]
    )
    assert sorted(times.to_pylist()) == MOMENTS.tolist()


def test_half_of_the_bids_are_on_the_hot_auction_and_most_of_the_rest_on_one_that_is_open(
    events: dict[str, pa.Table],
) -> None:
    bids = events["bids"]
    auction, moment = bids["auction_id"].to_numpy(), bids["bid_at"].cast(pa.int64()).to_numpy()
    opened = events["auctions"]["opened_at"].cast(pa.int64()).to_numpy()
    there = np.searchsorted(opened, moment)  # auctions opened before the bid
    hot = np.maximum(there - 1, 0) // 100 * 100 + 1000
    drawn = ~bids["is_last"].to_numpy()  # Which auction ends is not drawn.
    assert (auction == hot)[drawn].mean() == pytest.approx(0.5, abs=0.02)
    ahead = auction - 1000 - there
    assert ahead.max() < 11
    assert 0.02 < (ahead >= 0).mean() < 0.08
    settled = there > 1000
    assert (ahead[settled] >= -201).all()


def test_three_of_four_sellers_and_bidders_are_the_hot_one(events: dict[str, pa.Table]) -> None:
    for stream, column in (("auctions", "seller"), ("bids", "bidder")):
        people = events[stream][column].to_numpy()
        assert (people % 100 == 0).mean() == pytest.approx(0.75, abs=0.02)


def test_auctions_are_open_for_the_mean_time_and_prices_are_spread_over_six_decades(
    events: dict[str, pa.Table],
) -> None:
    auctions, prices = events["auctions"], events["bids"]["price"].to_numpy()
    open_for = auctions["expires_at"].cast(pa.int64()).to_numpy() - auctions["opened_at"].cast(pa.int64()).to_numpy()
    assert open_for.min() > 0
    assert open_for.mean() / 1e6 == pytest.approx(5.0, rel=0.05)
    assert prices.min() >= 100
    assert prices.max() <= 100_000_000
    shares = np.histogram(np.log10(prices / 100), bins=6, range=(0, 6))[0] / len(prices)
    assert shares == pytest.approx([1 / 6] * 6, abs=0.01)


def test_no_events_are_three_empty_streams() -> None:
    assert {table.num_rows for table in Nexmark(1, 5.0).take(17, MOMENTS[:0]).values()} == {0}
