"""`freshet bench correlate`: runs the contenders in turn, on a server of its own, and reports medians."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table

from spark_jobs.experiments.bench_server import bench_server, medians
from spark_jobs.experiments.correlate import contender_run
from spark_jobs.experiments.correlate.contender_run import EVENTS_FOLDER
from spark_jobs.experiments.correlate.data import REGIMES, CorrelateCase, write_events
from spark_jobs.experiments.correlate.recovery import BYTES_PER_TUPLE, measure_recovery
from spark_jobs.settings import Home

LABELS = {
    "freshet": "a  Freshet, end to end",
    "spark_rocksdb": "b  Spark's stream-stream join, RocksDB",
    "spark_memory": "c  Spark's stream-stream join, in memory",
    "duckdb": "d  DuckDB, the window in tables",
    "upsert": "e  polars + ADBC: COPY, ON CONFLICT DO UPDATE",
}
WARM_UP_SHARE = 0.25
WINDOWS = 3.0  # so a third of the events is within the window of 10 minutes
FRESHNESS_SECONDS = 40.0
_FIGURES = (
    "events_per_second",
    "facts_per_second",
    "cpu_seconds_per_million",
    "peak_worker_bytes",
    "peak_java_bytes",
    "state_bytes",
)
_BYTES = 2 << 30


def run_correlate_benchmark(
    home: Home,
    regimes: Sequence[str],
    contenders: Sequence[str],
    events: int,
    repetitions: int,
    say: Callable[[str], None],
    *,
    minutes: float | None = None,
    freshness: bool = True,
    waiting: int = 0,
) -> dict[str, Any]:
    """Measure contenders on Nexmark's auctions and bids, joined within 10 minutes, or on orders and their parts.

    Args:
        home: the installation; the benchmark's server and data lie in a scratch folder of it, removed at the end.
        regimes: what is joined, and in how much memory.
        contenders: by name.
        events: persons, auctions and bids that are measured in each run.
        repetitions: runs of each contender, one contender after the other in each round.
        say: takes a line of progress.
        minutes: no round is begun that would end later; None: all are run.
        freshness: whether Freshet's freshness is measured besides, at half of its rate.
        waiting: measure Freshet's recovery with so many tuples that wait; 0: not.

    Returns:
        for each regime the contenders' medians and ranges, and the ratios of their rates. Each has to store the same
        facts; one that did not is told, and left out of the ratios.
    """
    cases = [CorrelateCase(regime, events, round(events * WARM_UP_SHARE), WINDOWS) for regime in regimes]
    with bench_server(home, _BYTES + 1000 * cases[0].all_events + BYTES_PER_TUPLE * waiting, say) as runner:
        say(f"making {cases[0].all_events:,} events")
        kinds = {case.workload: case for case in cases}
        rows: dict[str, int] = {}
        for workload, case in kinds.items():
            rows |= write_events(case, runner.folder / EVENTS_FOLDER / workload)

        def run(pair: tuple[CorrelateCase, str]) -> dict[str, Any] | None:
            case, name = pair
            result = runner(contender_run.__name__, name, dataclasses.asdict(case))
            if result is not None:
                rate, facts = result["events_per_second"], result["facts"]
                say(f"{case.regime}: {LABELS[name]}: {rate:,.0f} events/s, {facts:,} facts")
            return result

        pairs = [(case, name) for case in cases for name in contenders if can_join(name, case)]
        runs = runner.interleaved(pairs, repetitions, run, minutes)
        measured = [
            _summary(case, {name: results for (of, name), results in runs.items() if of == case}) for case in cases
        ]
        for case, summary in zip(cases, measured, strict=True):
            if freshness and (own := summary["contenders"].get("freshet")):
                options = (str(own["events_per_second"]["median"] / 2), str(FRESHNESS_SECONDS))
                summary["freshness"] = runner(contender_run.__name__, "freshet", dataclasses.asdict(case), *options)
        recovery = measure_recovery(runner, waiting) if waiting else None
    return {
        "events": events,
        "tuples": rows,
        "repetitions": repetitions,
        "cases": measured,
        "recovery": recovery,
    }


def can_join(name: str, case: CorrelateCase) -> bool:
    """Whether a contender does what a case asks for: only scripts of their own fill in rows, or join two streams."""
    if case.accumulates:
        return name in ("freshet", "upsert")
    return name != "upsert" and (name != "duckdb" or len(case.streams) == 2)


def _summary(case: CorrelateCase, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    facts = {
        name: sorted({(result["facts"], result["content"]) for result in results}) for name, results in runs.items()
    }
    contenders = {name: medians(results, _FIGURES) | {"facts": facts[name]} for name, results in runs.items()}
    summary = {
        "regime": case.regime,
        "memory_bytes": case.memory_bytes,
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
    for case in result["cases"]:
        table.add_section()
        table.add_row(f"{REGIMES[case['regime']]} ({case['memory_bytes'] / 2**20:,.3g} MB)")
        for name, figures in case["contenders"].items():
            ratio = case.get("ratios", {}).get(name)
            sizes = [
                figures[size]["median"] / 2**20 for size in ("peak_worker_bytes", "peak_java_bytes", "state_bytes")
            ]
            table.add_row(
                LABELS[name],
                f"{figures['events_per_second']['median']:,.0f}",
                f"{figures['facts_per_second']['median']:,.0f}",
                f"{ratio:.2f}" if ratio else "",
                f"{figures['cpu_seconds_per_million']['median']:.2f}",
                *(f"{size:.0f}" for size in sizes),
            )
        if not case["facts_agree"]:
            stored = "; ".join(f"{name} {figures['facts']}" for name, figures in case["contenders"].items())
            table.add_row(f"They did not store the same facts: {stored}")
        if fresh := case.get("freshness"):
            percentiles = f"p50 {fresh['p50_seconds']:.2f} s, p99 {fresh['p99_seconds']:.2f} s"
            table.add_row(f"a  freshness at {fresh['events_per_second']:,.0f}/s: {percentiles}")
    if recovery := result["recovery"]:
        seconds = ", ".join(
            f"{taken:.1f} s after its {victim} was killed" for victim, taken in recovery["seconds"].items()
        )
        table.caption = f"With {recovery['waiting']:,} tuples that wait, the next batch was committed {seconds}"
    return table
