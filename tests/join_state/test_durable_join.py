"""A join that dies anywhere goes on from its last version: no result is lost, and none comes twice."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.errors import JoinStateError, StateDamagedError
from spark_jobs.join_state.durable_join import DurableJoin
from spark_jobs.joins.stream_stream import ALGORITHMS, create
from spark_jobs.joins.stream_stream.base import Results, StreamStreamJoin, Tuples
from spark_jobs.joins.stream_stream.patterns import constant
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.stream_stream.spill import SpillStore
from tests.conformance.stream_stream_run import PAGE_BYTES, PREDICATES, Case, random_streams
from tests.join_state.failing_disk import Died, DiskOfAProcess, running_on
from tests.joins.stream_stream.naive_join import Row, naive_join

CASES = [Case(name, algorithm.predicates[0], 2) for name, algorithm in ALGORITHMS.items()]


@pytest.fixture(params=CASES, ids=lambda case: case.algorithm)
def case(request: pytest.FixtureRequest) -> Case:
    chosen: Case = request.param
    return chosen


class Warehouse:
    """Where results and the version that they belong to are stored together, as a batch's transaction does it."""

    def __init__(self) -> None:
        self.version = 0
        self.batches = 0
        self.results: list[tuple[int, ...]] = []
        self.unmatched: list[tuple[int, int]] = []

    def commit(self, version: int, settled: list[Results]) -> None:
        self.version = version
        self.batches += 1
        for results in settled:
            self.results += zip(*results.ids.tolist(), strict=True)
            self.unmatched += zip(*results.unmatched.tolist(), strict=True)


def opened(folder: Path, case: Case, version: int | None = None) -> DurableJoin:
    memory = case.least_memory() + 1000 if ALGORITHMS[case.algorithm].spills else 1 << 16

    def make(spill: SpillStore) -> StreamStreamJoin:
        return create(case.algorithm, case.streams, PREDICATES[case.predicate][0], memory, spill)

    return DurableJoin(folder, make, version=version, page_bytes=PAGE_BYTES)


def batches_of(case: Case, streams: list[list[Row]], size: int) -> list[list[tuple[int, Tuples]]]:
    """What comes in each batch: a piece of every stream; the last batch is empty, and ends the streams."""
    pieces = range(0, max(len(rows) for rows in streams), size)
    return [
        *([(s, case.tuples(rows[first : first + size])) for s, rows in enumerate(streams)] for first in pieces),
        [],
    ]


def steps_of(join: DurableJoin, batch: list[tuple[int, Tuples]]) -> Iterator[Results]:
    if not batch:
        yield from join.finish()
    for stream, tuples in batch:
        yield join.arrive(stream, tuples)
    if join.join.is_work:
        yield join.advance()


def work(folder: Path, case: Case, warehouse: Warehouse, batches: list[list[tuple[int, Tuples]]]) -> None:
    """Go on from what the warehouse knows, to the end."""
    join = opened(folder, case, warehouse.version)
    for batch in batches[warehouse.batches :]:
        settled = list(steps_of(join, batch))
        warehouse.commit(join.checkpoint(), settled)
        join.forget(warehouse.version)


def test_a_process_that_dies_at_any_change_of_the_disk_loses_no_result_and_repeats_none(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.join_state.durable_join._LEAST_SNAPSHOT_BYTES", 3000)
    streams = random_streams(case, random.Random(1), [60, 60])
    batches = batches_of(case, streams, 15)
    expected = naive_join(streams, PREDICATES[case.predicate][1])
    work(tmp_path / "first", case, Warehouse(), batches)  # Compiles the kernels, which writes files too.
    disk = DiskOfAProcess()
    with running_on(disk):
        work(tmp_path / "whole", case, Warehouse(), batches)
    assert disk.changes > 20

    for last in range(0, disk.changes, max(1, disk.changes // 25)):
        folder, warehouse = tmp_path / f"died-{last}", Warehouse()
        with pytest.raises(Died), running_on(DiskOfAProcess(last)):
            work(folder, case, warehouse, batches)
        work(folder, case, warehouse, batches)
        assert len(warehouse.results) == len(set(warehouse.results))
        assert set(warehouse.results) == set(expected)
        matched = {pair for ids in expected for pair in enumerate(ids)}
        everything = {(stream, row.id) for stream, rows in enumerate(streams) for row in rows}
        assert sorted(warehouse.unmatched) == sorted(everything - matched)


def test_an_older_version_can_be_restored_and_its_future_told_anew(case: Case, tmp_path: Path) -> None:
    streams = random_streams(case, random.Random(2), [60, 60])
    batches = batches_of(case, streams, 20)
    join = opened(tmp_path, case)
    settled: list[list[Results]] = []
    for batch in batches[:-1]:
        settled.append(list(steps_of(join, batch)))
        join.checkpoint()
    warehouse = Warehouse()
    warehouse.commit(1, settled[0])
    work(tmp_path, case, warehouse, batches)
    assert len(warehouse.results) == len(set(warehouse.results))
    assert set(warehouse.results) == set(naive_join(streams, PREDICATES[case.predicate][1]))


def test_all_kinds_of_calls_are_repeated(tmp_path: Path) -> None:
    case = Case("p_join")
    join = opened(tmp_path, case)
    join.arrive(0, case.tuples([Row(0, 7, 8, 0, 1), Row(1, 9, 10, 0, 1)]))
    join.punctuate(1, constant(7))
    join.reach(0, 5)
    join.request_propagation()
    join.advance()
    join.checkpoint()
    again = opened(tmp_path, case)
    assert again.join.statistics == join.join.statistics
    assert again.join.tuples_in_memory() == 1
    assert again.arrive(1, case.tuples([Row(0, 7, 8, 0, 1)])).refused.tolist() == [0]


def test_results_that_were_not_checkpointed_come_again(tmp_path: Path) -> None:
    case = Case("symmetric_hash_join")
    join = opened(tmp_path, case)
    rows = [Row(0, 7, 8, 0, 1)]
    join.arrive(0, case.tuples(rows))
    join.checkpoint()
    assert join.arrive(1, case.tuples(rows)).count == 1
    again = opened(tmp_path, case)
    assert again.version == 1
    assert again.arrive(1, case.tuples(rows)).count == 1


def test_a_checkpoint_costs_what_its_batch_does_not_what_the_state_holds(tmp_path: Path) -> None:
    def make(spill: SpillStore) -> StreamStreamJoin:
        return create("symmetric_hash_join", 2, Equality(), 64 << 20, spill)

    def stored() -> int:
        return sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())

    join = DurableJoin(tmp_path, make)
    count = 500_000
    join.arrive(0, Tuples(np.arange(count), np.arange(count)))
    join.checkpoint()
    before, small = stored(), Tuples(np.arange(count, count + 100), np.arange(100))
    for batch in range(20):
        join.arrive(1, small._each(lambda column, batch=batch: column + 100 * batch))  # type: ignore[misc]
        join.checkpoint()
    of_tuples = 20 * 100 * 16
    assert stored() - before < 4 * of_tuples + 20 * 2000


def test_the_files_of_old_versions_go_when_they_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.join_state.durable_join._LEAST_SNAPSHOT_BYTES", 1000)
    case = Case("symmetric_hash_join")
    streams = random_streams(case, random.Random(3), [400, 400])
    join = opened(tmp_path, case)
    for batch in batches_of(case, streams, 10)[:-1]:
        list(steps_of(join, batch))
        join.forget(join.checkpoint())
    assert len(list(tmp_path.glob("snapshot.*"))) == 1
    assert len(list(tmp_path.glob("calls.*"))) < 40
    with pytest.raises(StateDamagedError, match="missing"):
        opened(tmp_path, case, 2)
    assert opened(tmp_path, case).version == join.version


def test_a_damaged_file_is_refused_by_name_with_what_to_do(tmp_path: Path) -> None:
    case = Case("symmetric_hash_join")
    join = opened(tmp_path, case)
    join.arrive(0, case.tuples([Row(0, 7, 8, 0, 1)]))
    join.checkpoint()
    path = next(tmp_path.glob("calls.*"))
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(StateDamagedError, match=f"{path.name} is refused.*freshet rebuild-state"):
        opened(tmp_path, case)


@pytest.mark.parametrize(
    ("name", "memory", "page_bytes", "told"),
    [
        ("x_join", 30_000, 512, "memory in use by an empty one"),
        ("m_join", 60_000, 512, "operator was XJoin, now MJoin"),
        ("x_join", 60_000, 1024, "bytes of a page|memory"),
    ],
)
def test_a_folder_is_opened_by_the_operator_that_it_was_made_with_only(
    tmp_path: Path, name: str, memory: int, page_bytes: int, told: str
) -> None:
    def made(name: str, memory: int, page_bytes: int) -> DurableJoin:
        return DurableJoin(tmp_path, lambda spill: create(name, 2, Equality(), memory, spill), page_bytes=page_bytes)

    made("x_join", 60_000, 512).checkpoint()
    assert made("x_join", 60_000, 512).version == 1
    with pytest.raises(StateDamagedError, match=told):
        made(name, memory, page_bytes)


def test_after_a_call_that_failed_the_folder_has_to_be_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case("x_join")
    rows = [Row(number, number, number + 1, 0, 1) for number in range(500)]
    join = opened(tmp_path, case)
    join.checkpoint()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("spark_jobs.join_state.spill_files.SpillFiles.write", full)
        with pytest.raises(OSError, match="No space left"):
            join.arrive(0, case.tuples(rows))
    for call in (lambda: join.arrive(0, case.tuples(rows)), join.advance, join.checkpoint):
        with pytest.raises(JoinStateError, match=r"open .* again"):
            call()
    again = opened(tmp_path, case)
    again.arrive(0, case.tuples(rows))
    found = again.arrive(1, case.tuples(rows)).count + sum(results.count for results in again.finish())
    assert found == 500


def test_what_the_caller_does_with_its_arrays_afterwards_changes_nothing(tmp_path: Path) -> None:
    case = Case("symmetric_hash_join")
    join = opened(tmp_path, case)
    keys = np.arange(5)
    join.arrive(0, Tuples(np.arange(5), keys))
    keys[:] = 99
    join.checkpoint()
    assert opened(tmp_path, case).arrive(1, case.tuples([Row(0, 3, 4, 0, 1)])).count == 1


def test_a_damaged_older_snapshot_does_not_keep_the_newest_version_from_being_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.join_state.durable_join._LEAST_SNAPSHOT_BYTES", 1000)
    case = Case("symmetric_hash_join")
    join = opened(tmp_path, case)
    for batch in batches_of(case, random_streams(case, random.Random(3), [400, 400]), 10)[:-1]:
        list(steps_of(join, batch))
        join.checkpoint()
    first, *others = sorted(tmp_path.glob("snapshot.*"))
    assert others
    first.write_bytes(b"damaged")
    again = opened(tmp_path, case)
    assert again.version == join.version
    again.forget(again.version)


def test_a_process_that_dies_while_it_deletes_later_versions_leaves_a_folder_that_opens(tmp_path: Path) -> None:
    case = Case("symmetric_hash_join")
    for last in range(4):
        folder = tmp_path / str(last)
        join = opened(folder, case)
        for number in range(6):
            join.arrive(0, case.tuples([Row(number, number, number + 1, 0, 1)]))
            join.checkpoint()
        with pytest.raises(Died), running_on(DiskOfAProcess(last)):
            opened(folder, case, 2)
        again = opened(folder, case)
        assert 2 <= again.version <= 6
        assert again.join.tuples_in_memory() == again.version


def test_a_version_that_was_never_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateDamagedError, match="versions up to 0: there is no version 3"):
        opened(tmp_path, Case("symmetric_hash_join"), 3)


def test_a_join_that_is_finishing_has_no_version(tmp_path: Path) -> None:
    case = Case("symmetric_hash_join")
    join = opened(tmp_path, case)
    join.arrive(0, case.tuples([Row(0, 7, 8, 0, 1)]))
    next(join.finish())
    with pytest.raises(JoinStateError, match="take all of `finish` first"):
        join.checkpoint()
