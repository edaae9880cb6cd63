"""`freshet bench load`: runs the contenders in turn, on a server of its own, and reports medians."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from typing import Any

from rich.table import Table

from spark_jobs.experiments.bench_server import ContenderRunner, bench_server, medians
from spark_jobs.experiments.load import contender_run
from spark_jobs.experiments.load.contender_run import CONTENDERS, FRESHNESS
from spark_jobs.experiments.load.data import LoadCase, make_relation, write_events
from spark_jobs.settings import Home

# (a) to (d) of the comparison.
LABELS = {
    "freshet": "a  Freshet, end to end",
    "spark_cached": "b  Spark join, R cached whole",
    "spark_rereading": "c  Spark join, R read per batch",
    "copy": "d  limit: COPY of joined rows",
}
SIZES = (200_000, 2_000_000, 10_000_000)
FRESHNESS_SECONDS = 40.0
_BYTES_PER_RUN = 3 << 30
_FIGURES = ("facts_per_second", "cpu_seconds_per_million", "peak_worker_bytes", "peak_java_bytes")


def run_load_benchmark(
    home: Home, sizes: list[int], events: int, repetitions: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Measure all contenders for all sizes of R.

    Args:
        home: the installation; the benchmark's server and data lie in a scratch folder of it, removed at the end.
        sizes: tuples of R.
        events: stream tuples measured in each run.
        repetitions: runs of each contender, one contender after the other in each round.
        say: takes a line of progress.

    Returns:
        For each size the contenders' medians and ranges, the ratios, and the freshness at half of Freshet's rate.
    """
    needed = _BYTES_PER_RUN + 300 * max(sizes) + 400 * events
    with bench_server(home, needed, say) as run:
        return {
            "events": events,
            "repetitions": repetitions,
            "cases": [_measure_case(LoadCase(size, events), repetitions, run) for size in sizes],
        }


def _measure_case(case: LoadCase, repetitions: int, runner: ContenderRunner) -> dict[str, Any]:
    runner.say(f"R = {case.relation_rows:,}: making R and {case.warm_up + case.events:,} events")
    make_relation(runner.warehouse_url, case)
    write_events(case, runner.folder / f"events-{case.relation_rows}")

    def run(name: str, *options: str) -> dict[str, Any] | None:
        result = runner(contender_run.__name__, name, dataclasses.asdict(case), *options)
        if result is not None and name in CONTENDERS:
            runner.say(f"R = {case.relation_rows:,}: {LABELS[name]}: {result['facts_per_second']:,.0f} facts/s")
        return result

    runs = runner.interleaved(CONTENDERS, repetitions, run)
    contenders = {name: medians(results, _FIGURES) for name, results in runs.items()}
    summary = {"relation_rows": case.relation_rows, "memory_bytes": case.memory_bytes, "contenders": contenders}
    if "freshet" in contenders:
        own = contenders["freshet"]["facts_per_second"]["median"]
        summary["ratios"] = {
            name: own / other["facts_per_second"]["median"] for name, other in contenders.items() if name != "freshet"
        }
        summary["freshness"] = run(FRESHNESS, str(own / 2), str(FRESHNESS_SECONDS))
    shutil.rmtree(runner.folder / f"events-{case.relation_rows}")
    return summary


def render(result: dict[str, Any]) -> Table:
    """The result as a table to read."""
    table = Table(title=f"Loading {result['events']:,} events, medians of {result['repetitions']} interleaved runs")
    for heading in ("R", "contender", "facts/s", "a / it", "CPU s per million", "workers MiB", "Java MiB"):
        table.add_column(heading, justify="left" if heading == "contender" else "right")
    for case in result["cases"]:
        for name, figures in case["contenders"].items():
            ratio = case.get("ratios", {}).get(name)
            peaks = [figures[peak]["median"] / 2**20 for peak in ("peak_worker_bytes", "peak_java_bytes")]
            table.add_row(
                f"{case['relation_rows']:,}",
                LABELS[name],
                f"{figures['facts_per_second']['median']:,.0f}",
                f"{ratio:.2f}" if ratio else "",
                f"{figures['cpu_seconds_per_million']['median']:.2f}",
                *(f"{peak:.0f}" if peak else "" for peak in peaks),
            )
        fresh = case.get("freshness")
        if fresh:
            text = f"p50 {fresh['p50_seconds']:.2f} s, p99 {fresh['p99_seconds']:.2f} s"
            table.add_row("", f"freshness of a at {fresh['events_per_second']:,.0f}/s: {text}")
        table.add_section()
    return table
