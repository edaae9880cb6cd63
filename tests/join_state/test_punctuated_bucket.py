"""A bucket lets go of what punctuations say is done with, and refuses what comes all the same."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.columns import value_codes
from spark_jobs.definition.fates import AFTER_LAST, PUNCTUATION, TOO_MANY
from spark_jobs.join_state.bucket import Bucket, BucketPlan, CorrelatedStream
from spark_jobs.join_state.correlated import PunctuationRule
from spark_jobs.join_state.state_folder import read_version
from spark_jobs.joins.stream_stream.windows import FixedWindow, SlidingWindow, Window
from spark_jobs.workload.nexmark import Nexmark
from tests.join_state.correlated_streams import (
    COUNTED,
    LAST,
    UNIQUE,
    Event,
    PlainState,
    Taken,
    batches_of,
    plan_of,
    reached_after,
    table,
)

EARLIEST = [-(2**63)] * 3
RULES = {
    "unique-last": (UNIQUE, LAST),
    "last-last": (LAST, LAST),
    "unique-counted": (UNIQUE, COUNTED),
    "last-none": (LAST, None),
    "three": (UNIQUE, LAST, COUNTED),
}


@pytest.mark.parametrize("rules", list(RULES))
@pytest.mark.parametrize("window", [SlidingWindow(100), FixedWindow(90), None], ids=["sliding", "fixed", "for-ever"])
@pytest.mark.parametrize(("key", "memory"), [("whole", 1 << 22), ("composite", 1 << 22), ("composite", 40_000)])
def test_what_is_purged_is_missed_by_nobody(
    rules: str, window: Window | None, key: str, memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the cuts and the memory, though keys and event ids share their codes."""
    ends = RULES[rules]
    # A count that is forgotten may leave another, which is noticed when the key comes again, or one of its code.
    if COUNTED not in ends or window is None:
        hash_bytes, combine = value_codes.hash_bytes, value_codes.combine
        monkeypatch.setattr(value_codes, "hash_bytes", lambda *parts: hash_bytes(*parts) % 5)
        monkeypatch.setattr(value_codes, "combine", lambda *parts: combine(*parts) % 5)
    streams = len(ends)
    plan = plan_of(streams, window, key, memory, ends)
    taken, plain = Taken(Bucket(plan, tmp_path, 0), plan, key), PlainState(plan)
    if memory < 1 << 20:
        # Never joined, never purged: they keep the bucket out of memory.
        many = [Event(10_000 + number, 10_000 + number, 10_000_000) for number in range(700)]
        for state in (taken, plain):
            state.take([many, *[[]] * (streams - 1)], EARLIEST[:streams], EARLIEST[:streams])
    for number, batch in enumerate(batches_of(streams, random.Random(rules), 12, 20, 60), start=1):
        reached = [reached_after(number - 1, streams), reached_after(number, streams)]
        taken.take(batch, *reached)
        plain.take(batch, *reached)
        assert taken.outcome.sorted() == plain.outcome.sorted()
        assert taken.bucket.in_memory == (memory > 1 << 20)
        if number % 2:
            taken.bucket.checkpoint(3 * number)
        if number % 4 == 1:
            taken.reopen(tmp_path, 3 * number)
    assert taken.outcome.joined
    assert taken.outcome.after_last
    assert taken.outcome.duplicates
    assert taken.outcome.left_early


def test_a_punctuation_that_comes_again_is_a_duplicate_as_long_as_it_holds(tmp_path: Path) -> None:
    """Though its tuple has left, by a punctuation or by time, and would be late."""
    plan = plan_of(ends=(UNIQUE, LAST))
    taken = Taken(Bucket(plan, tmp_path / "purged", 0), plan)
    both = [[Event(1, 7, 50)], [Event(9, 7, 60, last=True)]]
    for late_before, reached in ((EARLIEST[:2], [160, 160]), ([160, 160], [249, 259])):
        taken.take(both, late_before, reached)
    assert taken.outcome.duplicates == 2
    assert taken.outcome.late == taken.outcome.after_last == []
    taken.take(both, [249, 259], [250, 260])
    taken.take(both, [250, 260], [250, 260])
    assert taken.outcome.duplicates == 4
    assert taken.outcome.late == [(0, 1), (1, 9)]
    plan = plan_of(ends=(UNIQUE, None))
    taken = Taken(Bucket(plan, tmp_path / "by time", 0), plan)
    taken.take([[Event(1, 7, 50)], []], EARLIEST[:2], [40, 160])
    assert taken.outcome.expired == [(0, 1)]
    taken.take([[Event(1, 7, 50), Event(2, 7, 51)], []], [40, 160], [40, 160])
    assert taken.outcome.duplicates == 1
    assert taken.outcome.after_last == [(0, 2)]


def test_a_tuple_that_would_make_too_many_results_says_nothing_of_its_key(tmp_path: Path) -> None:
    plan = replace(plan_of(ends=(UNIQUE, UNIQUE)), most_results=1)
    bucket = Bucket(replace(plan, streams=plan.streams[:1] + plan_of().streams[1:]), tmp_path, 0)
    many = table([Event(1, 7, 50), Event(2, 7, 50)])
    list(bucket.take([None, many], EARLIEST[:2], EARLIEST[:2]))
    sums = [piece.counts[0] for piece in bucket.take([many, None], EARLIEST[:2], EARLIEST[:2])]
    assert sum(each[TOO_MANY] for each in sums) == 2
    assert sum(each[AFTER_LAST] + each[PUNCTUATION] for each in sums) == 0


def test_what_is_remembered_for_ever_lies_in_few_segments_and_costs_a_version_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.join_state.stream_tuples._SMALL", 4)
    monkeypatch.setattr("spark_jobs.join_state.stream_tuples._LARGE", 32)
    plan = plan_of(2, None, ends=(UNIQUE, UNIQUE))
    bucket = Bucket(plan, tmp_path, 0)
    for batch in range(1, 161):
        events = table([Event(4 * batch + number, 4 * batch + number, batch) for number in range(4)])
        for _ in bucket.take([events, events], EARLIEST[:2], EARLIEST[:2]):
            pass
        bucket.checkpoint(batch)
        bucket.forget(batch)
    assert len(bucket) == 0
    # Two traces and two punctuations of each of 640 keys: of each kind 2 segments of 256, and at most 7 of each smaller
    # size; if no more than 32 were merged, 20 of these.
    assert len(list(tmp_path.glob("segment.*"))) <= 4 * (2 + 7 + 7)
    record = read_version(tmp_path, 160)
    listed = [segment for segments in record.segments for segment in segments]
    assert sum(len(segment.joined) for segment in listed) == 4 * 640
    assert len(record.packed()) < 200 + 40 * len(listed)


def test_auctions_that_end_leave_the_state_and_without_punctuations_it_grows(tmp_path: Path) -> None:
    """Over a long time, without a window."""
    nexmark, size = Nexmark(seed=7, auction_seconds=30.0), 20_000
    held: dict[bool, list[int]] = {True: [], False: []}
    for punctuated, counts in held.items():
        auctions = CorrelatedStream("auctions", ("auction_id",), ("auction_id",), "opened_at", PunctuationRule())
        bids = CorrelatedStream("bids", ("auction_id",), ("bid_id",), "bid_at", PunctuationRule(when="is_last"))
        plan = BucketPlan((auctions, bids), None, "auto", 1 << 24)
        bucket = Bucket(plan if punctuated else plan.without_punctuations(), tmp_path / str(punctuated), 0)
        for batch in range(6):
            events = nexmark.take(batch * size, np.arange(batch * size, (batch + 1) * size) * 1000)
            arrived = [events[name].append_column("_arrived_at", events[name][-1]) for name in ("auctions", "bids")]
            for _ in bucket.take(arrived, EARLIEST[:2], EARLIEST[:2]):
                pass
            bucket.checkpoint(batch + 1)
            counts.append(len(bucket))
        bucket.close()
    # Of 1,200 auctions and 18,400 bids a batch, there are the recent auctions, and bids on those that are to come.
    assert max(held[True]) < 400
    assert held[False] == [19_600 * batch for batch in range(1, 7)]
