"""A stream's status tells where the time of its tuples went, and what is left to be loaded."""

from __future__ import annotations

from contextlib import closing

import psycopg2

from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.source.files.landing_look import ONE_LOOK, LandingLook
from tests.spark.conftest import Shop
from tests.spark.shop import land, sale, sales_definition


def test_what_lands_after_the_driver_has_ended_is_lag(shop: Shop) -> None:
    land(shop.folder, "first", (sale(number) for number in range(5)))
    shop.load()
    land(shop.folder, "second", (sale(number) for number in range(5, 8)))
    with closing(psycopg2.connect(shop.url)) as connection:
        (told,) = read_status(connection)
        (seen,) = read_status(connection, look=LandingLook(shop.home, ONE_LOOK))
    assert (told.state, told.lag.unread_files, told.lag.at_least) == ("stopped", 0, True)
    assert told.lag.looked_at is not None
    assert (seen.lag.unread_files, seen.lag.at_least) == (1, False)
    assert seen.lag.unread_bytes == next(shop.folder.rglob("second*")).stat().st_size


def test_every_stage_of_a_batch_is_measured(shop: Shop) -> None:
    lookup = sales_definition(shop.folder)["lookups"][0] | {"memory": "64KB"}  # not all of R fits: some tuples miss
    shop.define(lookups=[lookup])
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
