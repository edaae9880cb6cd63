"""Runs one contender once, in a process of its own: `python -m spark_jobs.experiments.load.contender_run ...`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.driver.session import join_context
from spark_jobs.experiments.bench_server import JDBC_URL_VARIABLE
from spark_jobs.experiments.load.copy_limit import load_by_copy
from spark_jobs.experiments.load.data import LoadCase, empty_fact
from spark_jobs.experiments.load.freshet_join import load_by_freshet, measure_freshness
from spark_jobs.experiments.load.run_result import ResourceMeter, Run, measured
from spark_jobs.experiments.load.spark_join import load_by_spark_join, spark_session
from spark_jobs.settings import Home

CONTENDERS = ("freshet", "spark_cached", "spark_rereading", "copy")
FRESHNESS = "freshness"


@dataclass(frozen=True)
class Bench:
    """Where a run takes place.

    Attributes:
        case: the benchmark's size.
        folder: scratch folder of this run; the events lie beside it.
        warehouse_url: libpq URL.
        jdbc_url: the same warehouse by JDBC.
    """

    case: LoadCase
    folder: Path
    warehouse_url: str
    jdbc_url: str

    @property
    def events(self) -> Path:
        """Folder of the event files."""
        return self.folder.parent / f"events-{self.case.relation_rows}"


def run_contender(name: str, bench: Bench) -> Run:
    """Load all events of a case into an empty fact table.

    Args:
        name: one of CONTENDERS.
        bench: where.
    """
    empty_fact(bench.warehouse_url)
    if name == "copy":
        return load_by_copy(bench.case, bench.warehouse_url)
    home = Home(bench.folder)
    detail: dict[str, object] = {}
    if name == "freshet":
        with join_context("bench", home) as spark, ResourceMeter() as meter:
            ends, detail = load_by_freshet(spark, bench.case, bench.events, home, bench.warehouse_url)
    else:
        checkpoint, cached = bench.folder / "checkpoint", name == "spark_cached"
        with spark_session() as session, ResourceMeter() as meter:
            ends = load_by_spark_join(session, bench.case, bench.events, checkpoint, bench.jdbc_url, cached=cached)
    rate, facts = measured(ends, bench.case.warm_up)
    loaded = sum(count for _, count in ends)
    detail["batches"] = len(ends)
    return Run(rate, facts, meter.cpu_seconds / loaded * 1e6, meter.peak_worker_bytes, meter.peak_java_bytes, detail)


def run_freshness(bench: Bench, rate: float, seconds: float) -> dict[str, float]:
    """Measure Freshet's freshness at a rate of events per second."""
    empty_fact(bench.warehouse_url)
    home = Home(bench.folder)
    with join_context("bench", home) as spark:
        return measure_freshness(spark, bench.case, home, bench.warehouse_url, rate, seconds)


def main() -> None:
    """Run, and print the result as JSON on the last line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=(*CONTENDERS, FRESHNESS))
    parser.add_argument("case", type=lambda text: LoadCase(**json.loads(text)))
    parser.add_argument("folder", type=Path)
    parser.add_argument("warehouse_url")
    parser.add_argument("rate", type=float, nargs="?")
    parser.add_argument("seconds", type=float, nargs="?")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True)
    bench = Bench(chosen.case, chosen.folder, chosen.warehouse_url, os.environ[JDBC_URL_VARIABLE])
    if chosen.name == FRESHNESS:
        result = run_freshness(bench, chosen.rate, chosen.seconds)
    else:
        result = dataclasses.asdict(run_contender(chosen.name, bench))
    sys.stdout.write("\n" + json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
