"""A bucket that dies anywhere goes on from the version that is asked for; what is damaged is refused."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.errors import JoinStateError, PipelineDefinitionError, StateDamagedError, StateInUseError
from spark_jobs.join_state import stream_tuples
from spark_jobs.join_state.bucket import Bucket, StoredBucket
from spark_jobs.joins.stream_stream.windows import SlidingWindow
from tests.join_state.failing_disk import Died, DiskOfAProcess, running_on
from tests.join_state.joined_streams import (
    LAST,
    Event,
    Outcome,
    PlainState,
    Taken,
    batches_of,
    plan_of,
    reached_after,
    table,
)

# Versions hold all that there is: tuples, those that were purged, and punctuations.
PLAN = plan_of(ends=(None, LAST))
BATCHES = batches_of(2, random.Random(5), 12, 8)
EARLIEST = [-(2**63)] * 2


def number_of(batch: int) -> int:
    """The ledger's: they ascend with gaps."""
    return 0 if batch == 0 else 5 * batch + batch % 3


def expected_outcomes() -> list[Outcome]:
    """After each number of batches."""
    plain = PlainState(PLAN)
    outcomes = [Outcome(waiting=[set(), set()])]
    for batch, events in enumerate(BATCHES, start=1):
        plain.take(events, reached_after(batch - 1, 2), reached_after(batch, 2))
        outcomes.append(deepcopy(plain.outcome.sorted()))
    return outcomes


class Ledger:
    """Where what batches gave is stored together with their number."""

    def __init__(self) -> None:
        self.batches = 0
        self.outcome = Outcome()

    def work(self, folder: Path, until: int = len(BATCHES), *, keep: int = 1) -> None:
        """Go on from what is committed, as a new process does."""
        bucket = Bucket(PLAN, folder, number_of(self.batches), patience_seconds=0)
        try:
            for batch in range(self.batches + 1, until + 1):
                taken = Taken(bucket, PLAN)
                taken.outcome = deepcopy(self.outcome)
                taken.take(BATCHES[batch - 1], reached_after(batch - 1, 2), reached_after(batch, 2))
                bucket.checkpoint(number_of(batch))
                self.batches, self.outcome = batch, taken.outcome
                bucket.forget(number_of(max(0, batch - keep)))
        finally:
            bucket.close()  # The lock of a process that died goes with it.


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few tuples are merged as many are."""
    monkeypatch.setattr(stream_tuples, "_SMALL", 4)
    monkeypatch.setattr(stream_tuples, "_MERGED_AT_ONCE", 3)


def test_a_process_that_dies_at_any_change_of_the_disk_goes_on_from_the_last_committed_batch(tmp_path: Path) -> None:
    batches = 6
    expected = expected_outcomes()[batches]
    Ledger().work(tmp_path / "first", batches)  # Compiles the kernels, which writes files too.
    disk = DiskOfAProcess()
    with running_on(disk):
        Ledger().work(tmp_path / "whole", batches)
    assert disk.changes > 100
    for last in range(0, disk.changes, max(1, disk.changes // 40)):
        folder, ledger = tmp_path / f"died-{last}", Ledger()
        with pytest.raises(Died), running_on(DiskOfAProcess(last)):
            ledger.work(folder, batches)
        ledger.work(folder, batches)
        assert ledger.outcome.sorted() == expected
        assert not list(folder.glob("*.writing"))


def test_every_version_that_was_not_forgotten_can_be_restored_and_has_the_same_future(tmp_path: Path) -> None:
    expected = expected_outcomes()
    ledger = Ledger()
    ledger.work(tmp_path, keep=99)
    for batch in reversed(range(len(BATCHES) + 1)):
        stored = StoredBucket(PLAN, tmp_path, number_of(batch))
        for stream in (0, 1):
            waiting = {id_ for piece in stored.waiting(stream) for id_ in piece["id"].to_pylist()}
            assert waiting == expected[batch].waiting[stream]
    for batch in (9, 4, 0):
        again = Ledger()
        again.batches, again.outcome = batch, deepcopy(expected[batch])
        again.work(tmp_path, keep=99)
        assert again.outcome.sorted() == expected[-1]


def test_old_versions_go_when_they_are_forgotten_and_readers_keep_what_they_opened(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.work(tmp_path, until=6, keep=99)
    stored = StoredBucket(PLAN, tmp_path, number_of(2))
    before = set(tmp_path.glob("segment.*"))
    bucket = Bucket(PLAN, tmp_path, number_of(6))
    bucket.forget(number_of(5))
    assert len(list(tmp_path.glob("version.*"))) == 2
    assert set(tmp_path.glob("segment.*")) < before
    waiting = {id_ for piece in stored.waiting(0) for id_ in piece["id"].to_pylist()}
    assert waiting == expected_outcomes()[2].waiting[0]
    with pytest.raises(StateDamagedError, match=rf"no version {number_of(2)} .*{number_of(5)}, {number_of(6)}"):
        StoredBucket(PLAN, tmp_path, number_of(2))
    bucket.close()
    assert Bucket(PLAN, tmp_path, number_of(5)).version == number_of(5)


def test_the_disk_holds_little_more_than_what_lives(tmp_path: Path) -> None:
    plan = plan_of(window=SlidingWindow(10))
    bucket = Bucket(plan, tmp_path, 0)
    most, written = 0, 0
    for batch in range(60):
        events = [Event(100 * batch + number, number, batch) for number in range(100)]
        for _ in bucket.take([table(events), table(events[::2])], EARLIEST, [batch, batch]):
            pass
        before = {path.name for path in tmp_path.glob("segment.*")}
        bucket.checkpoint(batch + 1)
        written += sum(path.stat().st_size for path in tmp_path.glob("segment.*") if path.name not in before)
        bucket.forget(batch + 1)
        if batch >= 30:
            most = max(most, sum(path.stat().st_size for path in tmp_path.glob("segment.*")))
    of_a_tuple = table(events).nbytes / len(events) + 56
    living = 150 * 11
    assert most < 3 * living * of_a_tuple
    assert written < 6 * 60 * 150 * of_a_tuple


Damage = Callable[[Path], object]


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("kind", ["segment", "version"])
@pytest.mark.parametrize(
    "damage",
    [flipped, Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-9]), lambda path: path.write_bytes(b"")],
    ids=["flipped", "missing", "cut", "empty"],
)
def test_what_is_damaged_is_refused_by_name_with_what_to_do(kind: str, damage: Damage, tmp_path: Path) -> None:
    Ledger().work(tmp_path, until=3)
    files = set(tmp_path.iterdir())
    path = max(tmp_path.glob(f"{kind}.*"))
    damage(path)
    for opened in (Bucket, StoredBucket):
        with pytest.raises(StateDamagedError, match="freshet rebuild-state") as refusal:
            opened(PLAN, tmp_path, number_of(3))
        assert kind in str(refusal.value)
    assert set(tmp_path.iterdir()) >= files - {path}  # Nothing is removed that somebody could look at.
    ledger = Ledger()
    ledger.work(tmp_path)
    assert ledger.outcome.sorted() == expected_outcomes()[-1]


def test_a_folder_is_opened_for_the_streams_only_that_it_was_made_for(tmp_path: Path) -> None:
    Ledger().work(tmp_path, until=1)
    Bucket(replace(PLAN, memory_bytes=1 << 21), tmp_path, number_of(1)).close()
    with pytest.raises(PipelineDefinitionError, match=r"punctuations was \{.*: \{when: last\}\}, now left out"):
        Bucket(plan_of(), tmp_path, number_of(1))
    told = r"join\.window was 0\.1ms, now 0\.007ms; .*former definition"
    with pytest.raises(PipelineDefinitionError, match=told):
        Bucket(plan_of(window=SlidingWindow(7)), tmp_path, number_of(1))
    Bucket(plan_of(window=SlidingWindow(7)), tmp_path, 0).close()  # Empty, it may be made for anything.


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    Ledger().work(tmp_path, until=1)
    holding = "import sys, time; from pathlib import Path; from spark_jobs.join_state.state_folder import FolderLock;"
    holding += "lock = FolderLock(Path(sys.argv[1]), 5); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holding, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout
        holder.stdout.readline()
        with pytest.raises(StateInUseError, match=f"process {holder.pid}:"):
            Bucket(PLAN, tmp_path, number_of(1), patience_seconds=0.1)
        assert StoredBucket(PLAN, tmp_path, number_of(1))  # Readers need no lock.
        holder.kill()
    bucket = Bucket(PLAN, tmp_path, number_of(1))
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    bucket.close()


def test_versions_ascend(tmp_path: Path) -> None:
    bucket = Bucket(PLAN, tmp_path, 0)
    bucket.checkpoint(7)
    with pytest.raises(JoinStateError, match="version 7 is not above 7"):
        bucket.checkpoint(7)


def test_a_disk_that_is_full_leaves_the_version_before_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger()
    ledger.work(tmp_path, until=3)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            ledger.work(tmp_path)
    assert ledger.batches == 3
    ledger.work(tmp_path)
    assert ledger.outcome.sorted() == expected_outcomes()[-1]


def test_a_column_that_came_later_is_null_in_what_came_before(tmp_path: Path) -> None:
    bucket = Bucket(PLAN, tmp_path, 0)
    old, new = table([Event(1, 7, 0)]), table([Event(2, 7, 0)])
    wider = new.append_column("discount", [np.array([3])])
    for arrived in ([old, None], [wider, None], [None, table([Event(3, 7, 0)])]):
        joined = [p.joined for p in bucket.take(arrived, EARLIEST, EARLIEST) if p.joined.num_rows]
    assert sorted(joined[0]["a.discount"].to_pylist(), key=str) == [3, None]
