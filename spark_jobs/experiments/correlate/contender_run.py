"""Runs one contender once, as a process: `python -m spark_jobs.experiments.correlate.contender_run ...`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.driver.session import join_context
from spark_jobs.experiments.bench_server import JDBC_URL_VARIABLE
from spark_jobs.experiments.correlate.data import CorrelateCase, empty_fact, stored_facts
from spark_jobs.experiments.correlate.freshet_correlation import PIPELINE, freshness_at, load_by_freshet
from spark_jobs.experiments.correlate.scripts import duckdb_window, upsert
from spark_jobs.experiments.correlate.spark_stream_join import load_by_spark_stream_join, spark_session
from spark_jobs.experiments.load.run_result import ResourceMeter, measured
from spark_jobs.settings import Home

CONTENDERS = ("freshet", "spark_rocksdb", "spark_memory", "duckdb", "upsert")
_SCRIPTS = {"duckdb": duckdb_window.load, "upsert": upsert.load}
EVENTS_FOLDER = "events"


@dataclass(frozen=True)
class CorrelateRun:
    """One contender's run over all events of a case.

    Attributes:
        events_per_second: measured tuples of all streams by the seconds from the end of the warm-up to the last
            commit.
        facts_per_second: facts that these tuples made, on average, by the same seconds.
        facts: all facts that were stored, warm-up included.
        content: a sum over hash codes of all facts.
        cpu_seconds_per_million: processor seconds of the whole machine per million tuples, warm-up included.
        peak_worker_bytes: most memory of the Python workers; 0 where there are none.
        peak_java_bytes: most memory of the Java machine.
        state_bytes: what lies on the disk of the join's state in the end.
        detail: the contender's own figures.
    """

    events_per_second: float
    facts_per_second: float
    facts: int
    content: str
    cpu_seconds_per_million: float
    peak_worker_bytes: int
    peak_java_bytes: int
    state_bytes: int
    detail: dict[str, object]


def run_contender(name: str, case: CorrelateCase, folder: Path, warehouse_url: str, jdbc_url: str) -> CorrelateRun:
    """Join and load all events of a case into an empty fact table.

    Args:
        name: one of CONTENDERS.
        case: the benchmark's size.
        folder: scratch folder of this run; the events lie beside it.
        warehouse_url: libpq URL.
        jdbc_url: the same warehouse by JDBC.
    """
    empty_fact(warehouse_url, case)
    events = folder.parent / EVENTS_FOLDER / case.workload
    detail: dict[str, object] = {}
    if name == "freshet":
        home = Home(folder)
        state = home.root / "state" / PIPELINE
        with join_context("bench", home) as spark, ResourceMeter(warehouse_url) as meter:
            ends, detail = load_by_freshet(spark, case, events, home, warehouse_url)
    elif name in _SCRIPTS:
        state = folder
        with ResourceMeter(warehouse_url) as meter:
            ends = _SCRIPTS[name](case, events, warehouse_url)
    else:
        state = folder / "checkpoint"
        with spark_session(name.removeprefix("spark_")) as session, ResourceMeter(warehouse_url) as meter:
            ends = load_by_spark_stream_join(session, case, events, state, jdbc_url)
    tuples = sum(count for _, count in ends)
    rate, _ = measured(ends, tuples * case.warm_up // case.all_events)
    facts, content = stored_facts(warehouse_url)
    return CorrelateRun(
        events_per_second=rate,
        facts_per_second=rate * facts / tuples,
        facts=facts,
        content=content,
        cpu_seconds_per_million=meter.cpu_seconds / tuples * 1e6,
        peak_worker_bytes=meter.peak_worker_bytes,
        peak_java_bytes=meter.peak_java_bytes,
        state_bytes=sum(path.stat().st_size for path in state.rglob("*") if path.is_file()),
        detail={**detail, "batches": len(ends), "tuples": tuples},
    )


def main() -> None:
    """Run, and print the result as JSON on the last line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("case", type=lambda text: CorrelateCase(**json.loads(text)))
    parser.add_argument("folder", type=Path)
    parser.add_argument("warehouse_url")
    parser.add_argument("rate", type=float, nargs="?")
    parser.add_argument("seconds", type=float, nargs="?")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True)
    case, folder, url = chosen.case, chosen.folder, chosen.warehouse_url
    result: dict[str, Any]
    if chosen.rate is not None:
        empty_fact(url, case)
        with join_context("bench", Home(folder)) as spark:
            result = dict(freshness_at(spark, case, Home(folder), url, chosen.rate, chosen.seconds))
    else:
        result = dataclasses.asdict(run_contender(chosen.name, case, folder, url, os.environ[JDBC_URL_VARIABLE]))
    sys.stdout.write("\n" + json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
