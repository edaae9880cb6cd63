"""A bucket lets go of what punctuations say is done with, and refuses what comes all the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from spark_jobs.join_state import key_codes
from spark_jobs.join_state.bucket import Bucket
from spark_jobs.joins.stream_stream.windows import FixedWindow, SlidingWindow, Window
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
        hash_bytes, combine = key_codes.hash_bytes, key_codes.combine
        monkeypatch.setattr(key_codes, "hash_bytes", lambda *parts: hash_bytes(*parts) % 5)
        monkeypatch.setattr(key_codes, "combine", lambda *parts: combine(*parts) % 5)
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
