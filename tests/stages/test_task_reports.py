"""What the reports of a batch's tasks add up to."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.driver.batch_run import waited_seconds
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.stages.batch_context import TaskReport
from spark_jobs.stages.reports import BatchReport


def front(total: float, load: float) -> TaskReport:
    return TaskReport(stage="front", seconds={"join": 0.1, "load": load, "total": total}, counts={"arrived": 1})


def back(lookup: int, join: float, load: float) -> TaskReport:
    return TaskReport(
        stage="back", lookup=lookup, seconds={"join": join, "load": load, "total": join + load}, counts={}
    )


def test_a_stage_takes_as_long_as_its_slowest_task_and_lookups_come_one_after_the_other() -> None:
    report = BatchReport(
        [front(1.0, 0.5), front(0.9, 0.1), back(0, 0.3, 0.1), back(0, 0.2, 0.2), back(1, 0.4, 0.0), back(1, 0.1, 0.3)]
    )
    assert report.stage_seconds() == pytest.approx({"front_stage": 0.8, "back_stage": 0.7, "commit": 0.5 + 0.2 + 0.3})


def test_the_time_that_tuples_waited_is_told_where_it_is_known() -> None:
    report = BatchReport([front(1.0, 0.5)])
    assert report.statistics((), 1.25)["stage_seconds"]["waiting"] == 1.25
    assert "waiting" not in report.statistics(())["stage_seconds"]


def test_what_was_read_and_not_loaded_is_told_by_the_last_try_of_each_task() -> None:
    read, loaded = IdSketch(np.arange(100)), IdSketch(np.arange(100))
    loaded.remove(np.array([17]))
    unsettled = IdSketch()
    unsettled -= loaded
    again = TaskReport(stage="back", lookup=0, seconds={}, counts={}, unsettled=unsettled.to_bytes())
    of_another = TaskReport(stage="front", partition=1, seconds={}, counts={}, unsettled=IdSketch().to_bytes())
    first = TaskReport(stage="front", seconds={}, counts={}, unsettled=read.to_bytes())
    lost = BatchReport([first, again, of_another, first, again]).unsettled()
    lost -= IdSketch(np.array([17]))
    assert lost.is_zero


def test_what_is_left_to_the_back_stages_is_told_of_all_lookups() -> None:
    counts = {"ignored": 7, "probes.0": 10, "hits.0": 4, "probes.1": 10, "hits.1": 9}
    reports = [TaskReport(stage="front", seconds={}, counts=counts) for _ in range(2)]
    assert BatchReport([*reports, back(0, 0.1, 0.1)]).misses == 14


def test_a_batch_without_tasks_took_no_time() -> None:
    assert BatchReport([]).stage_seconds() == {"front_stage": 0, "back_stage": 0, "commit": 0}


def test_tuples_waited_on_average_as_long_as_most_of_their_bytes_did() -> None:
    small, large = (
        SourceRange("small", 0, 1, 1, 100 * 10**9, kind="files"),
        SourceRange("large", 0, 3, 3, 200 * 10**9, kind="files"),
    )
    assert waited_seconds([small, large], began_at=185.0) == 10
    assert waited_seconds([small, large], began_at=1.0) == 0, "clocks differ"
    assert waited_seconds([SourceRange("gone", 0, 0, None, None, kind="files")], began_at=185.0) is None
