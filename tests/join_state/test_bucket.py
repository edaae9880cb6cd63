"""A bucket joins, tells and keeps what the definition says, whatever the cuts, the keys and the memory."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from spark_jobs.join_state.bucket import Bucket
from spark_jobs.joins.stream_stream.windows import FixedWindow, SlidingWindow, Window
from tests.join_state.correlated_streams import PlainState, Taken, batches_of, plan_of, reached_after

LITTLE = 40_000


@pytest.mark.parametrize("window", [SlidingWindow(100), FixedWindow(90), None], ids=["sliding", "fixed", "for-ever"])
@pytest.mark.parametrize("key", ["whole", "text", "amount", "composite"])
@pytest.mark.parametrize("streams", [2, 3])
def test_a_bucket_does_what_the_definition_says(streams: int, key: str, window: Window | None, tmp_path: Path) -> None:
    plan = plan_of(streams, window, key, LITTLE if key == "whole" else 1 << 20)
    taken, plain = Taken(Bucket(plan, tmp_path, 0), plan, key), PlainState(plan)
    batches = batches_of(streams, random.Random(streams), 12)
    for number, batch in enumerate(batches, start=1):
        reached = [reached_after(number - 1, streams), reached_after(number, streams)]
        taken.take(batch, *reached)
        plain.take(batch, *reached)
        assert taken.outcome.sorted() == plain.outcome.sorted()
        if number % 2:
            taken.bucket.checkpoint(3 * number)
        if number % 4 == 1:
            taken.bucket.close()
            taken.bucket = Bucket(plan, tmp_path, 3 * number)
    assert taken.outcome.joined
    assert taken.outcome.late
    assert taken.outcome.duplicates
    assert bool(taken.outcome.expired) == (window is not None)
