"""What a driver has its workers do before it says that it is ready: everything that a batch will need, and no harm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.settings import PROJECT_ROOT
from tests.spark.shop import query, sales_definition, write_definition


@pytest.mark.parametrize("algorithm", ["auto", "cached_hybrid_join", "mesh_join"])
def test_a_worker_that_is_warmed_up_has_nothing_left_to_compile_in_its_first_batches(
    tmp_path: Path, shop_url: str, algorithm: str
) -> None:
    definition = sales_definition(tmp_path)
    definition["lookups"][0]["algorithm"] = algorithm
    path = write_definition(tmp_path, definition)
    command = [sys.executable, "-m", "tests.spark.warmed_worker", shop_url, str(path)]
    done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    left = json.loads(done.stdout.splitlines()[-1])
    assert left == [], "\n".join(left)
    stored = query(shop_url, "SELECT facts, unmatched, rejected FROM freshet.batch")
    assert stored == [(3000, 1, 2)] * 2, "the warm-up itself stores nothing"
