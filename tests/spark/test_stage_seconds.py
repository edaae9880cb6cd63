"""A stream's status tells where the time of its tuples went."""

from __future__ import annotations

from contextlib import closing

import psycopg2

from spark_jobs.ledger.status.pipeline_status import read_status
from tests.spark.conftest import Shop
from tests.spark.shop import land, sale


def test_every_stage_of_a_batch_is_measured(shop: Shop) -> None:
    land(shop.folder, "first", (sale(number) for number in range(50)))
    shop.load()
    with closing(psycopg2.connect(shop.url)) as connection:
        (status,) = read_status(connection)
    stages = status.stages_ms
    assert status.arrived == 50
    assert stages.waiting is not None
    assert stages.waiting > 0
    for measured in (stages.front_stage, stages.back_stage, stages.commit):
        assert measured is not None
        assert measured > 0
