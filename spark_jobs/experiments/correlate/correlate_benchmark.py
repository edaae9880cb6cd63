"""`freshet bench correlate`: runs the contenders in turn, on a server of its own, and reports medians."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from rich.table import Table

from spark_jobs.experiments.bench_server import bench_server, medians
from spark_jobs.experiments.correlate import contender_run
from spark_jobs.experiments.correlate.contender_run import CONTENDERS, EVENTS_FOLDER
from spark_jobs.experiments.correlate.data import CorrelateCase, write_events
from spark_jobs.settings import Home

LABELS = {
    "freshet": "a  Freshet, end to end",
    "spark_rocksdb": "b  Spark's stream-stream join, RocksDB",
    "spark_memory": "c  Spark's stream-stream join, in memory",
}
WARM_UP_SHARE = 0.25
WINDOWS = 3.0  # so a third of the events is within the window of 10 minutes
_FIGURES = (
    "events_per_second",
    "facts_per_second",
    "cpu_seconds_per_million",
    "peak_worker_bytes",
    "peak_java_bytes",
    "state_bytes",
)
_BYTES = 2 << 30


def run_correlate_benchmark(home: Home, events: int, repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure all contenders on Nexmark's auctions and bids, joined within 10 minutes.

    Args:
        home: the installation; the benchmark's server and data lie in a scratch folder of it, removed at the end.
        events: persons, auctions and bids that are measured in each run.
        repetitions: runs of each contender, one contender after the other in each round.
        say: takes a line of progress.

    Returns:
        the contenders' medians and ranges, and the ratios of their rates. Each has to store the same number of facts;
        one that did not is told, and left out of the ratios.
    """
    case = CorrelateCase(events, round(events * WARM_UP_SHARE), WINDOWS)
    with bench_server(home, _BYTES + 1000 * case.all_events, say) as runner:
        say(f"making {case.all_events:,} events")
        rows = write_events(case, runner.folder / EVENTS_FOLDER)

        def run(name: str) -> dict[str, Any] | None:
            result = runner(contender_run.__name__, name, dataclasses.asdict(case))
            if result is not None:
                say(f"{LABELS[name]}: {result['events_per_second']:,.0f} events/s, {result['facts']:,} facts")
            return result

        runs = runner.interleaved(CONTENDERS, repetitions, run)
    facts = {name: sorted({result["facts"] for result in results}) for name, results in runs.items()}
    contenders = {name: medians(results, _FIGURES) | {"facts": facts[name]} for name, results in runs.items()}
    summary = {
        "events": events,
        "tuples": rows,
        "repetitions": repetitions,
        "facts_agree": len({tuple(each) for each in facts.values()}) == 1,
        "contenders": contenders,
    }
    if "freshet" in contenders:
        own = contenders["freshet"]["events_per_second"]["median"]
        summary["ratios"] = {
            name: own / other["events_per_second"]["median"]
            for name, other in contenders.items()
            if name != "freshet" and facts[name] == facts["freshet"]
        }
    return summary


def render(result: dict[str, Any]) -> Table:
    """The result as a table to read."""
    table = Table(title=f"Joining {result['events']:,} events, medians of {result['repetitions']} interleaved runs")
    headings = (
        "contender",
        "events/s",
        "facts/s",
        "a / it",
        "CPU s per million",
        "workers MiB",
        "Java MiB",
        "state MiB",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "contender" else "right")
    for name, figures in result["contenders"].items():
        ratio = result.get("ratios", {}).get(name)
        sizes = [figures[size]["median"] / 2**20 for size in ("peak_worker_bytes", "peak_java_bytes", "state_bytes")]
        table.add_row(
            LABELS[name],
            f"{figures['events_per_second']['median']:,.0f}",
            f"{figures['facts_per_second']['median']:,.0f}",
            f"{ratio:.2f}" if ratio else "",
            f"{figures['cpu_seconds_per_million']['median']:.2f}",
            *(f"{size:.0f}" for size in sizes),
        )
    if not result["facts_agree"]:
        stored = "; ".join(f"{name} {figures['facts']}" for name, figures in result["contenders"].items())
        table.caption = f"They did not store the same number of facts: {stored}"
    return table
