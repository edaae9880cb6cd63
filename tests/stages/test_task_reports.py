"""What the reports of a batch's tasks add up to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from spark_jobs.source.log import mean_landing

from spark_jobs.stages.batch_context import TaskReport
from spark_jobs.stages.reports import BatchReport


def front(total: float, load: float) -> TaskReport:
    return TaskReport("front", -1, {"join": 0.1, "load": load, "total": total}, {"arrived": 1}, {})


def back(lookup: int, join: float, load: float) -> TaskReport:
    return TaskReport("back", lookup, {"join": join, "load": load, "total": join + load}, {}, {})


def test_a_stage_takes_as_long_as_its_slowest_task_and_lookups_come_one_after_the_other() -> None:
    report = BatchReport(
        [front(1.0, 0.5), front(0.9, 0.1), back(0, 0.3, 0.1), back(0, 0.2, 0.2), back(1, 0.4, 0.0), back(1, 0.1, 0.3)]
    )
    assert report.stage_seconds() == pytest.approx({"front_stage": 0.8, "back_stage": 0.7, "commit": 0.5 + 0.2 + 0.3})


def test_the_time_that_tuples_waited_is_told_where_it_is_known() -> None:
    report = BatchReport([front(1.0, 0.5)])
    assert report.statistics((), 1.25)["stage_seconds"]["waiting"] == 1.25
    assert "waiting" not in report.statistics(())["stage_seconds"]


def test_a_batch_without_tasks_took_no_time() -> None:
    assert BatchReport([]).stage_seconds() == {"front_stage": 0, "back_stage": 0, "commit": 0}


def test_files_land_on_average_when_most_of_their_bytes_do(tmp_path: Path) -> None:
    for name, size, landed_at in (("small", 1, 100.0), ("large", 3, 200.0)):
        (tmp_path / name).write_bytes(b"x" * size)
        os.utime(tmp_path / name, (landed_at, landed_at))
    assert mean_landing([tmp_path / "small", tmp_path / "large", tmp_path / "gone"]) == 175
    assert mean_landing([tmp_path / "gone"]) is None
