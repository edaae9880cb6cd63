"""What a batch of a few tuples costs, and what passes between two batches."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from spark_jobs.driver import batch_run
from spark_jobs.driver.driven_lookups import DrivenLookups
from tests.spark.conftest import Shop
from tests.spark.shop import land, query, sale


def jobs_of_load(shop: Shop, files: int) -> int:
    """Let files of a few sales land, and load each as a batch; how many jobs Spark ran."""
    [(first,)] = query(shop.url, "SELECT coalesce(max(sale_id), 0) + 1 FROM shop.fact_sales")
    for number in range(first, first + files):
        land(shop.folder, f"file-{number}", [sale(number)])
    tracker = shop.spark.statusTracker()
    before = max(tracker.getJobIdsForGroup())
    shop.load()
    return max(tracker.getJobIdsForGroup()) - before


def test_a_small_batch_is_one_job_although_its_tuples_are_not_hot(shop: Shop) -> None:
    shop.one_file_a_batch()
    assert jobs_of_load(shop, files=4) - jobs_of_load(shop, files=1) == 3
    assert query(shop.url, "SELECT count(*), sum(facts) FROM freshet.batch") == [(5, 5)]
    statistics = "SELECT sum((statistics ->> 'front_stage_hits')::bigint) FROM freshet.batch"
    assert query(shop.url, statistics) == [(0,)]
    assert shop.verify().holds


def test_the_next_batch_begins_while_what_the_last_one_found_out_is_taken_in(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, learned, second_planned = [], [], threading.Event()
    plan_for_batch, learn = DrivenLookups.plan_for_batch, DrivenLookups.learn

    def planning(lookups: DrivenLookups, batch_no: int) -> Any:
        planned.append(batch_no)
        if len(planned) > 2:  # the first one is the rehearsal
            second_planned.set()
        return plan_for_batch(lookups, batch_no)

    def learning(lookups: DrivenLookups, report: Any, batch_no: int) -> None:
        assert second_planned.wait(60)
        learn(lookups, report, batch_no)
        learned.append(batch_no)

    monkeypatch.setattr(DrivenLookups, "plan_for_batch", planning)
    monkeypatch.setattr(DrivenLookups, "learn", learning)
    monkeypatch.setattr(batch_run, "SETTLING_BATCHES", 0)
    shop.one_file_a_batch()
    for number in range(3):
        land(shop.folder, f"file-{number}", [sale(number)])
    shop.load()
    assert learned == planned[1:], "each once, in their order, and all before the driver ends"
    assert shop.verify().holds
