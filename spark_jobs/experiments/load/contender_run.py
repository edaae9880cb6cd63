"""Runs one contender once, in a process of its own: `python -m spark_jobs.experiments.load.contender_run ...`.

What only some contenders need is imported by these: a script must not pay for Spark, nor the processes that it starts.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from spark_jobs.errors import FreshetError
from spark_jobs.experiments.bench_server import JDBC_URL_VARIABLE
from spark_jobs.experiments.load import contenders
from spark_jobs.experiments.load.case import LoadCase
from spark_jobs.experiments.load.run_result import Batch, ResourceMeter, Run, postmaster
from spark_jobs.settings import Home


@dataclass(frozen=True)
class Bench:
    """Where a run takes place.

    Attributes:
        case: what is loaded.
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
        return self.folder.parent / self.case.events_folder

    def land(self) -> list[Path]:
        """The event files in their order, which land now: what waits for being loaded waits from now on."""
        files = sorted(self.events.iterdir())
        for left, file in zip(range(len(files), 0, -1), files, strict=True):
            os.utime(file, ns=(time.time_ns() - left * 1_000_000,) * 2)
        return files


def run_contender(contender: contenders.Contender, bench: Bench) -> Run:
    """Load all events of a case into an empty fact table, and check the facts.

    Args:
        contender: which.
        bench: where.

    Raises:
        FreshetError: it can't be run in this case, or has stored wrong facts; the message says why.
    """
    from spark_jobs.experiments.load.data import changes, empty_fact
    from spark_jobs.experiments.load.fact_check import check_facts

    contenders.require_room(contender, bench.case)
    empty_fact(bench.warehouse_url, bench.case)
    files = bench.land()
    files = files[: -(-len(files) // contender.takes_one_in)]
    with changes(bench.warehouse_url, bench.case):
        run = _run(contender, bench, files)
    check_facts(bench.warehouse_url, bench.case, files)
    return run


def _run(contender: contenders.Contender, bench: Bench, files: list[Path]) -> Run:
    case, url, home = bench.case, bench.warehouse_url, Home(bench.folder)
    detail: dict[str, object] = {}
    if contender.name == "copy-limit":
        from spark_jobs.experiments.load.copy_limit import load_by_copy

        batches, meter = load_by_copy(case, files, url)
    elif contender.is_freshet:
        with ResourceMeter(url) as meter:
            from spark_jobs.driver.session import starting_context

            with starting_context("bench", home) as spark:
                from spark_jobs.experiments.load.event_forms import place_of, source_of
                from spark_jobs.experiments.load.freshet_join import load_by_freshet
                from spark_jobs.optional_imports import do_without_pandas_and_scipy

                do_without_pandas_and_scipy()
                source = source_of(place_of(bench.events, contender.form), contender.form)
                batches, detail = load_by_freshet(spark(), case, source, home, url)
    elif contender.name.startswith("spark"):
        copying = contender.name == "spark-copy"
        cached = contender.keeps_relation or (copying and case.fits)
        with ResourceMeter(url) as meter:
            from spark_jobs.experiments.load.spark_join import SparkJoin, spark_session

            with spark_session(case.cores) as session:
                join = SparkJoin(session, case, url, bench.jdbc_url, cached=cached, copying=copying)
                batches = join.load(bench.events, bench.folder / "checkpoint")
    else:
        with ResourceMeter(url) as meter:
            batches = _load_by_script(contender.name, case, files, url)
    return Run.of(batches, meter, case.warm_up // contender.takes_one_in, case.cores, detail)


def _load_by_script(name: str, case: LoadCase, files: list[Path], warehouse_url: str) -> list[Batch]:
    from spark_jobs.experiments.load.scripts import duckdb_postgres, lru_cache, polars_adbc, postgres_elt

    if name.startswith("duckdb"):
        return duckdb_postgres.load(case, files, warehouse_url, cached=name == "duckdb-cached")
    scripts = {"polars-adbc": polars_adbc, "postgres-elt": postgres_elt, "lru-cache": lru_cache}
    return scripts[name].load(case, files, warehouse_url)


def run_freshness(contender: contenders.Contender, bench: Bench, rate: float, seconds: float) -> dict[str, float]:
    """Measure Freshet's freshness at a rate of events per second."""
    from spark_jobs.driver.session import join_context
    from spark_jobs.experiments.load.data import changes, empty_fact
    from spark_jobs.experiments.load.freshet_join import freshness_at

    empty_fact(bench.warehouse_url, bench.case)
    home = Home(bench.folder)
    with changes(bench.warehouse_url, bench.case), join_context("bench", home) as spark:
        return freshness_at(spark, bench.case, contender.form, home, bench.warehouse_url, rate, seconds)


def _keep_to(cores: int, warehouse_url: str) -> None:
    """Let this process, those that it starts, and the server run on the first so many cores of the machine only."""
    chosen = sorted(os.sched_getaffinity(0))[:cores]
    server = postmaster(warehouse_url)
    for process in (psutil.Process(), server, *server.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # of the server's some end by themselves
            process.cpu_affinity(chosen)


def main() -> None:
    """Run, and print the result as JSON on the last line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=contenders.CONTENDERS)
    parser.add_argument("case", type=lambda text: LoadCase(**json.loads(text)))
    parser.add_argument("folder", type=Path)
    parser.add_argument("warehouse_url")
    parser.add_argument("rate", type=float, nargs="?")
    parser.add_argument("seconds", type=float, nargs="?")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True)
    bench = Bench(chosen.case, chosen.folder, chosen.warehouse_url, os.environ[JDBC_URL_VARIABLE])
    _keep_to(bench.case.cores, bench.warehouse_url)
    try:
        contender = contenders.CONTENDERS[chosen.name]
        if chosen.rate is not None:
            result = run_freshness(contender, bench, chosen.rate, chosen.seconds)
        else:
            result = dataclasses.asdict(run_contender(contender, bench))
    except FreshetError as error:
        sys.exit(str(error))
    sys.stdout.write("\n" + json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
