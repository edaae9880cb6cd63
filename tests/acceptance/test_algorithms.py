"""Every algorithm as an operator chooses it: a line in a pipeline's YAML, then `freshet load` and `freshet verify`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.definition import ALGORITHMS
from spark_jobs.settings import HOME_VARIABLE, PIPELINES_VARIABLE, PROJECT_ROOT, WAREHOUSE_URL_VARIABLE
from tests.spark.shop import query

ORDERS = 500
SCALE = "0.01"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_pipeline_goes_on_with_any_algorithm_where_another_one_ended(tmp_path: Path, warehouse_url: str) -> None:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    environment = {
        **os.environ,
        HOME_VARIABLE: str(tmp_path / "home"),
        WAREHOUSE_URL_VARIABLE: warehouse_url,
        PIPELINES_VARIABLE: str(pipelines),
    }

    def freshet(*arguments: str) -> None:
        subprocess.run([sys.executable, "-m", "spark_jobs.cli", *arguments], env=environment, check=True)

    shipped = (PROJECT_ROOT / "dags" / "pipelines" / "orders.yaml").read_text()
    chosen = "algorithm: cached_hybrid_join"
    assert shipped.count(chosen) == 1
    freshet("seed", "--scale", SCALE)
    for loads, algorithm in enumerate(ALGORITHMS, start=1):
        print(algorithm)  # pytest shows it if the test fails
        (pipelines / "orders.yaml").write_text(shipped.replace(chosen, f"algorithm: {algorithm}"))
        freshet("generate", "--orders", str(ORDERS), "--rate", "10000", "--tick", "20ms", "--scale", SCALE)
        freshet("load", "orders", "--once")
        freshet("verify", "orders")
        assert query(warehouse_url, "SELECT count(*) FROM warehouse.fact_orders") == [(loads * ORDERS,)]
