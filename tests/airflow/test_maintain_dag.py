"""The DAG maintain_warehouse over a real warehouse."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import psycopg2
import pytest
from airflow.dag_processing.dagbag import DagBag
from psycopg2 import extensions

from spark_jobs.control.registration import register_pipeline
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.reprocessing.run_ledger import heartbeat, open_run
from spark_jobs.settings import PROJECT_ROOT, Home
from spark_jobs.validation.records import begin, one_at_a_time

pytestmark = pytest.mark.usefixtures("airflow_database")


def test_it_closes_what_was_cut_off_and_leaves_what_is_at_work_alone(
    home: Home, warehouse_url: str, connection: extensions.connection
) -> None:
    for pipeline in ("orders", "returns"):
        register_pipeline(connection, pipeline, timedelta(seconds=5), "{}")
    task = DagBag(PROJECT_ROOT / "dags").dags["maintain_warehouse"].get_task("prune")
    with closing(psycopg2.connect(warehouse_url)) as worker, one_at_a_time(worker, "orders"):
        begin(worker, "orders", "all", None)
        begin(worker, "returns", "all", None)  # whose worker was killed: its lock is free
        runs = [open_run(worker, pipeline, ReprocessingRequest(limit=1)).batch_no for pipeline in ("orders", "returns")]
        heartbeat(worker, runs[0])
        with connection.cursor() as cursor:
            cursor.execute("UPDATE freshet.reprocessing_run SET heartbeat_at = heartbeat_at - interval '20 s'")
        task.execute({})
    with connection.cursor() as cursor:
        cursor.execute("SELECT pipeline, result, closed_at IS NULL FROM freshet.validation ORDER BY pipeline")
        assert cursor.fetchall() == [("orders", "running", True), ("returns", "cut off", False)]
        cursor.execute("SELECT state, closed_at IS NULL FROM freshet.reprocessing_run ORDER BY batch_no")
        assert cursor.fetchall() == [("running", True), ("abandoned", False)]
