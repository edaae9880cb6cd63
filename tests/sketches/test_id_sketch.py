"""Sketches of event ids: what they find among many, how sure that is, and that those of former days can be read."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spark_jobs.columns.hashing import hash_int64
from spark_jobs.errors import SketchDamagedError
from spark_jobs.sketches.hash_sketch import HashSketch
from spark_jobs.sketches.id_sketch import BUCKETS, MISS, TABLES, IdSketch

IDS, PIECE = 10_000_000, 1_000_000
# Of the ids 1, 2 and 3, as the first version packed it.
FORMER = bytes.fromhex(
    "01789c63661899e03f14e09267a4b27dd4368f5660a8b873b0015a87db40c50bb9f612ca5f23050cb7fc345ce275b8c50bb960b085c36049"
    "5f832d5c8805e4ba1b00d8d91fef"
)


def codes(*ids: int) -> np.ndarray:
    return hash_int64(np.array(ids, np.int64))


@pytest.fixture(scope="module")
def many() -> bytes:
    """The sketch of very many ids, as a ledger keeps it."""
    arrived = IdSketch()
    for start in range(0, IDS, PIECE):
        arrived.add(hash_int64(np.arange(start, start + PIECE)))
    return arrived.to_bytes()


def left(many: bytes, stored: bytes) -> IdSketch:
    difference = IdSketch.from_bytes(many)
    difference -= IdSketch.from_bytes(stored)
    return difference


def test_the_same_ids_leave_nothing_whatever_their_order_and_batches(many: bytes) -> None:
    stored = IdSketch()
    for start in range(3, -1, -1):
        batch = IdSketch(hash_int64(np.arange(start, IDS, 4)))
        stored += batch
    assert left(many, stored.to_bytes()).is_zero


def test_one_lost_one_doubled_and_two_swapped_are_found_among_many(many: bytes) -> None:
    for gone, more in ([17], []), ([], [17]), ([17], [18]), ([17], [IDS + 1]):
        faulty = IdSketch.from_bytes(many)
        faulty.remove(codes(*gone))
        faulty.add(codes(*more))
        difference = left(many, faulty.to_bytes())
        assert not difference.is_zero
        ids, net = difference.difference()
        assert (round(ids.value), net) == (len(gone) + len(more), len(gone) - len(more))


def test_how_many_are_lost_is_told_within_the_bound(many: bytes) -> None:
    outside = 0
    for trial in range(40):
        faulty = IdSketch.from_bytes(many)
        faulty.remove(hash_int64(np.arange(trial * 10_000, trial * 10_000 + 5_000)))
        faulty.add(hash_int64(np.arange(IDS + trial * 10_000, IDS + trial * 10_000 + 2_000)))
        ids, net = left(many, faulty.to_bytes()).difference()
        assert net == 3_000
        outside += ids.value + ids.error < 7_000
    assert outside <= 0.05 * 40


def test_a_difference_is_missed_no_more_often_than_is_said() -> None:
    """By one table of the five, which are independent."""
    rng, trials = np.random.default_rng(3), 3_000
    for lost, doubled in (1, 1), (2, 2), (8, 8):
        missed = 0
        for seed in range(trials):
            table = HashSketch(1, BUCKETS, seed=seed)
            ids = rng.integers(-(2**63), 2**63 - 1, lost + doubled)
            table.update(ids, np.repeat([1, -1], [lost, doubled]))
            missed += table.is_zero
        share = 1 / (2 * BUCKETS) if lost == doubled == 1 else 2 / BUCKETS
        assert missed <= trials * share + 4 * math.sqrt(trials * share)
    assert pytest.approx((2 / BUCKETS) ** TABLES) == MISS


def test_sketches_that_lie_in_ledgers_are_read_for_ever() -> None:
    assert left(FORMER, IdSketch(codes(1, 2, 3)).to_bytes()).is_zero
    assert len(IdSketch(codes(*range(10_000))).to_bytes()) < 600


@pytest.mark.parametrize("damaged", [FORMER[:-9], b"\x02" + FORMER[1:], b"", FORMER[:20] + FORMER[21:]])
def test_damaged_bytes_are_refused(damaged: bytes) -> None:
    with pytest.raises(SketchDamagedError, match="of ids"):
        IdSketch.from_bytes(damaged)
