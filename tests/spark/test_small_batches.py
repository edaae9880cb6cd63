"""What a batch of a few tuples costs, and what passes between two batches."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark import RDD

from spark_jobs.driver import batch_run
from spark_jobs.driver.one_stream import OneStreamIntake
from spark_jobs.lookup.driven_lookups import DrivenLookups
from tests.spark.conftest import Shop
from tests.spark.shop import land, query, sale, sales_definition, write_definition


def test_a_small_batch_is_one_job_although_its_tuples_are_not_hot(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, collect, close = [0], RDD.collect, OneStreamIntake.close

    def counting(rdd: RDD[Any]) -> list[Any]:
        jobs[-1] += 1
        return collect(rdd)

    def closing(*arguments: Any) -> None:
        close(*arguments)
        jobs.append(0)

    monkeypatch.setattr(RDD, "collect", counting)
    monkeypatch.setattr(OneStreamIntake, "close", closing)
    scarce = sales_definition(shop.folder)["lookups"][0] | {"memory": "64KB"}  # not all of R fits, and is hot
    write_definition(shop.folder, sales_definition(shop.folder, lookups=[scarce]))
    shop.one_file_a_batch()
    for number in range(3):
        land(shop.folder, f"file-{number}", [sale(number)])
    shop.load()
    assert jobs[1:] == [1, 1, 0], "after the first batch, before which there is the warm-up"
    probes = "SELECT sum((statistics ->> 'front_stage_probes')::int), sum((statistics ->> 'front_stage_hits')::int)"
    assert query(shop.url, f"{probes} FROM freshet.batch") == [(3, 0)]
    assert shop.verify().holds


def test_the_next_batch_begins_while_what_the_last_one_found_out_is_taken_in(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, learned, second_planned = [], [], threading.Event()
    plan_for_batch, learn = DrivenLookups.plan_for_batch, DrivenLookups.learn

    def planning(lookups: DrivenLookups, batch_no: int) -> Any:
        planned.append(batch_no)
        if len(planned) > 2:  # the first one is the warm-up
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
