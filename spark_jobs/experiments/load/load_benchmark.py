"""`freshet bench load`: runs the contenders in turn, on a server of its own, and reports medians and ranges."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from rich.table import Table

from spark_jobs.experiments.bench_server import bench_server, medians
from spark_jobs.experiments.load import contender_run
from spark_jobs.experiments.load.case import LoadCase
from spark_jobs.experiments.load.contenders import Contender
from spark_jobs.experiments.load.data import make_relation, write_events
from spark_jobs.experiments.load.event_forms import SERVERS_VARIABLE, is_topic, write_form
from spark_jobs.experiments.load.run_result import Run
from spark_jobs.local.embedded_kafka.broker import KafkaBroker
from spark_jobs.settings import Home

FRESHNESS_SECONDS = 40.0
_BYTES_PER_RUN = 3 << 30
_RELATION_TUPLE_BYTES, _EVENT_BYTES = 350, 400  # with indexes and log, of the widest
_FIGURES = tuple(field.name for field in dataclasses.fields(Run) if field.name not in ("facts", "detail"))
# Heading -> what the cores spent on a million facts, by processes.
_SPENT = {
    "CPU s/M": "steady_cpu_seconds_per_million",
    "own": "own_cpu_seconds_per_million",
    "workers": "worker_cpu_seconds_per_million",
    "JVM": "java_cpu_seconds_per_million",
    "server": "server_cpu_seconds_per_million",
    "idle": "idle_seconds_per_million",
}


def run_load_benchmark(
    home: Home,
    cases: Sequence[LoadCase],
    contenders: Sequence[Contender],
    repetitions: int,
    minutes: float | None,
    freshness: bool,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Measure contenders in all cases; each of a case after the other, round by round.

    Args:
        home: the installation; the benchmark's server and data lie in a scratch folder of it, removed at the end.
        cases: what is loaded.
        contenders: who loads it.
        repetitions: rounds.
        minutes: after which no round is begun; the first one is run in any case.
        freshness: whether Freshet's freshness is measured besides, at half of its rate; of a topic, to which events are
            written one by one, too.
        say: takes a line of progress.

    Returns:
        For each case the contenders' medians and ranges, and Freshet's rate against theirs.
    """
    relations = {case.relation: case.relation_rows for case in cases}
    needed = _BYTES_PER_RUN + _RELATION_TUPLE_BYTES * sum(relations.values()) + _EVENT_BYTES * cases[0].all_events
    forms = {contender.form for contender in contenders}
    with bench_server(home, needed, say) as runner, ExitStack() as stack:
        if any(map(is_topic, forms)):
            broker = stack.enter_context(KafkaBroker(runner.folder / "kafka", runner.folder / "kafka.log").use())
            os.environ[SERVERS_VARIABLE] = runner.environment[SERVERS_VARIABLE] = broker.servers
        for case in cases:
            say(f"{case.label}: making R and {case.all_events:,} events")
            make_relation(runner.warehouse_url, case)
            write_events(case, runner.folder / case.events_folder)
            for form in forms:
                write_form(runner.folder / case.events_folder, form)
        pairs = [(case, contender) for case in cases for contender in contenders]

        def run(pair: tuple[LoadCase, Contender]) -> dict[str, Any] | None:
            case, contender = pair
            result = runner(contender_run.__name__, contender.name, dataclasses.asdict(case))
            if result is not None:
                say(f"{case.label}: {contender.name}: {result['facts_per_second']:,.0f} facts/s")
            return result

        runs = runner.interleaved(pairs, repetitions, run, minutes)
        measured = [
            _summary(case, {pair[1].name: results for pair, results in runs.items() if pair[0] == case})
            for case in cases
        ]
        for case, summary in zip(cases, measured, strict=True):
            feeding = [each for each in contenders if each.is_freshet and each.form != "json"] if freshness else []
            for name in (each.name for each in feeding if each.name in summary["contenders"]):
                rate = summary["contenders"][name]["facts_per_second"]["median"] / 2
                options = (str(rate), str(FRESHNESS_SECONDS))
                fresh = runner(contender_run.__name__, name, dataclasses.asdict(case), *options)
                if fresh is not None:
                    summary.setdefault("freshness", {})[name] = fresh
    return {"events": cases[0].events, "cases": measured}


def _summary(case: LoadCase, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    contenders = {name: medians(results, _FIGURES) for name, results in runs.items()}
    summary = {
        "case": case.label,
        "relation_rows": case.relation_rows,
        "regime": case.regime,
        "memory_bytes": case.memory_bytes,
        "needed_bytes": case.needed_bytes,
        "cores": case.cores,
        "contenders": contenders,
    }
    if "freshet" in contenders:
        own = contenders["freshet"]["facts_per_second"]["median"]
        summary["ratios"] = {
            name: own / other["facts_per_second"]["median"] for name, other in contenders.items() if name != "freshet"
        }
    return summary


def render(result: dict[str, Any]) -> Table:
    """The result as a table to read: medians, and the range of the rates."""
    table = Table(title=f"Loading {result['events']:,} events: thousands of facts a second, medians, and ranges")
    table.add_column("contender")
    for heading in ("rate", "range", "Freshet/it", "cold", "ready", "batches", *_SPENT, "MiB", "Java", "runs"):
        table.add_column(heading, justify="right", no_wrap=True)
    for case in result["cases"]:
        table.add_section()
        table.add_row(case["case"])
        for name, figures in case["contenders"].items():
            ratio = case.get("ratios", {}).get(name)
            rate = figures["facts_per_second"]
            median = {figure: figures[figure]["median"] for figure in _FIGURES}
            python = median["peak_own_bytes"] + median["peak_worker_bytes"]
            java = median["peak_java_bytes"]
            table.add_row(
                name,
                f"{rate['median'] / 1e3:,.0f}",
                f"{rate['low'] / 1e3:,.0f}-{rate['high'] / 1e3:,.0f}",
                f"{ratio:.2f}" if ratio else "",
                f"{median['cold_facts_per_second'] / 1e3:,.0f}",
                f"{median['ready_seconds']:.0f} s",
                f"{median['batches']:.0f}",
                *(f"{median[figure]:.1f}" for figure in _SPENT.values()),
                f"{python / 2**20:,.0f}",
                f"{java / 2**20:,.0f}" if java else "",
                str(figures["runs"]),
            )
        for name, fresh in case.get("freshness", {}).items():
            text = f"p50 {fresh['p50_seconds']:.2f} s, p99 {fresh['p99_seconds']:.2f} s"
            table.add_row(f"{name}, freshness at {fresh['events_per_second']:,.0f}/s: {text}")
    return table
