"""Runs that are asked to end before they have done anything."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import psycopg2

from spark_jobs.control import drivers
from spark_jobs.definition import load_definition
from spark_jobs.reprocessing.reprocessing_job import ReprocessingJob
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE
from tests.spark.shop import query, sales_definition, write_definition

HELD = """
    INSERT INTO freshet.pipeline (name, freshness_target, definition) VALUES ('sales', '5 s', '{}');
    INSERT INTO freshet.batch (pipeline, epoch, state, closed_at, shed)
        VALUES ('sales', 1, 'committed', now() - interval '1 hour', 1);
    INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, fate, reason, relation, payload,
            payload_encoding, event_time, arrived_at, batch_no)
        SELECT 'sales', '[1]', 0, 'shed', 'shed', 'no time', 'shop.customer', '{"sale_id": 1}', 'json', now(), now(),
            batch_no
        FROM freshet.batch;
"""


def test_a_run_that_is_asked_to_end_before_it_is_opened_takes_nothing(tmp_path: Path, shop_url: str) -> None:
    query(shop_url, HELD)
    definition = load_definition(write_definition(tmp_path, sales_definition(tmp_path)))

    def make_context() -> NoReturn:
        raise AssertionError("Spark was started")

    job = ReprocessingJob(definition, shop_url, ReprocessingRequest(limit=10), make_context)
    job.abandon()
    assert job.run().state == "abandoned"
    assert query(shop_url, "SELECT state, error FROM freshet.reprocessing_run") == [
        ("abandoned", "it was asked to end")
    ]
    assert query(shop_url, "SELECT count(*) FROM freshet.held_tuple") == [(1,)]


def test_the_command_says_that_it_yields_to_a_stream_and_ends_with_a_status_of_its_own(
    tmp_path: Path, shop_url: str
) -> None:
    query(shop_url, f"{HELD} UPDATE freshet.batch SET closed_at = now() + interval '1 min';")
    path = write_definition(tmp_path, sales_definition(tmp_path))
    with closing(psycopg2.connect(shop_url)) as connection:
        drivers.take_over(connection, "sales", log_file=None)
    told = subprocess.run(
        [Path(sys.executable).with_name("freshet"), "reprocess", path],
        env=os.environ | {HOME_VARIABLE: str(tmp_path), WAREHOUSE_URL_VARIABLE: shop_url},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 3, told.stderr
    assert "yielded to the stream, which has no time to spare: 1 tuples were shed within the last 15 s" in told.stdout
    assert "1 due tuples are left" in told.stdout
