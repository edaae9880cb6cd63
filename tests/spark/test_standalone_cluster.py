"""The same job on a real Spark standalone cluster: a master and two workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyspark
import pytest

from spark_jobs.definition import load_definition
from spark_jobs.driver.java import java_environment
from spark_jobs.proof.verification import verify
from spark_jobs.settings import Home
from tests.spark.shop import land, query, sale, sales_definition, write_definition
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

SECRET = "what-only-this-cluster-knows"
CLOSED = "spark.authenticate true\nspark.network.crypto.enabled true\n"
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_PUBLIC_DNS": "127.0.0.1"}


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """URL of a standalone master with two workers of one core each."""
    spark_home = Path(pyspark.__file__).parent
    environment = os.environ | java_environment(Home(tmp_path)) | LOOPBACK | {"SPARK_HOME": str(spark_home)}
    (tmp_path / "spark-defaults.conf").write_text(CLOSED)
    environment |= {"SPARK_CONF_DIR": str(tmp_path), "_SPARK_AUTH_SECRET": SECRET}
    processes: list[subprocess.Popen[bytes]] = []

    def launch(name: str, *arguments: str) -> Path:
        log = tmp_path / f"{name}.log"
        with log.open("wb") as output:
            command = [str(spark_home / "bin" / "spark-class"), *arguments]
            processes.append(subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT))
        return log

    try:
        package = "org.apache.spark.deploy"
        log = launch("master", f"{package}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = wait_for(lambda: re.search(r"spark://127\.0\.0\.1:\d+", log.read_text()), "the master's URL").group()
        for number in (1, 2):
            worker = (f"{package}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0")
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work-{number}"))
            launch(f"worker-{number}", *worker, *limits, url)
        wait_for(lambda: log.read_text().count("Registering worker") == 2, "two workers")
        yield url
    finally:
        for process in reversed(processes):
            family = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            process.wait(30)
            psutil.wait_procs(family, timeout=30)


def load(definition: Path, home: Path, url: str, master: str, **secret: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | LOOPBACK | {"FRESHET_HOME": str(home), "FRESHET_WAREHOUSE_URL": url} | secret
    command = [sys.executable, "-m", "spark_jobs.cli", "load", str(definition), "--once", "--master", master]
    with (
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process,
        ThreadPoolExecutor(1) as reading,
    ):
        told = reading.submit(process.communicate, timeout=200)
        while not told.done():
            assert [each for each in psutil.process_iter(["cmdline"]) if SECRET in str(each.info["cmdline"])] == []
            time.sleep(0.5)
        return subprocess.CompletedProcess(command, process.returncode, told.result()[0])


def test_a_cluster_whose_secret_is_not_given_is_refused(tmp_path: Path, shop_url: str) -> None:
    definition = write_definition(tmp_path, sales_definition(tmp_path))
    refused = load(definition, tmp_path, shop_url, "spark://127.0.0.1:1")
    assert refused.returncode == 2
    assert "FRESHET_SPARK_SECRET" in refused.stdout


def test_two_executors_load_the_plain_join(tmp_path: Path, shop_url: str, master: str) -> None:
    definition = write_definition(tmp_path, sales_definition(tmp_path))
    for part in range(4):
        land(tmp_path, f"part-{part}", (sale(part * 1000 + n) for n in range(1000)))
    loaded = load(definition, tmp_path, shop_url, master, FRESHET_SPARK_SECRET=SECRET)
    assert loaded.returncode == 0, loaded.stdout[-3000:]
    assert SECRET not in loaded.stdout
    assert query(shop_url, "SELECT count(*) FROM shop.fact_sales") == [(4000,)]
    assert verify(load_definition(definition), shop_url, Home(tmp_path)).holds
