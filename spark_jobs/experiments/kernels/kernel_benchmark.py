"""`freshet bench kernels`: runs the experiments one after the other, and reports medians beside their targets."""

from __future__ import annotations

from collections.abc import Callable

from rich.table import Table

from spark_jobs.experiments.kernels import (
    first_call,
    front_stage_probes,
    hash_joins,
    hit_ratio,
    multi_way_looks,
    own_work,
    page_loads,
    punctuated_joins,
    queue_lengths,
    record_decoding,
    run_merges,
    sketch_updates,
    temporal_joins,
    topic_reading,
)
from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure

EXPERIMENTS: dict[str, Callable[[int], list[MeasuredFigure]]] = {
    "decoding": record_decoding.measure,
    "topics": topic_reading.measure,
    "front stage": front_stage_probes.measure,
    "own work": own_work.measure,
    "own work, skewed": own_work.measure_skewed,
    "queue lengths": queue_lengths.measure,
    "first call": first_call.measure,
    "temporal join": temporal_joins.measure,
    "hit ratio": hit_ratio.measure,
    "page loads": page_loads.measure,
    "hash joins": hash_joins.measure,
    "punctuated joins": punctuated_joins.measure,
    "run merges": run_merges.measure,
    "n-way looks": multi_way_looks.measure,
    "sketches": sketch_updates.measure,
}


def run_kernel_benchmark(repeats: int, say: Callable[[str], None]) -> list[MeasuredFigure]:
    """All figures.

    Args:
        repeats: rounds of each experiment; the median counts. Within a round its cases take turns.
        say: takes a line of progress.
    """
    figures = []
    for name, measure in EXPERIMENTS.items():
        say(f"measuring: {name}")
        figures += measure(repeats)
    return figures


def render(figures: list[MeasuredFigure], repeats: int) -> Table:
    """The figures as a table to read."""
    table = Table(box=None, title=f"Decoding and the joins' own code on one core, medians of {repeats} rounds")
    for heading in ("figure", "reached", "range", "unit", "target", ""):
        text = heading in {"figure", "unit"}
        table.add_column(heading, justify="left" if text else "right", no_wrap=heading != "figure")
    for figure in figures:
        bound = ">=" if figure.target_is == "least" else "<="
        target = "" if figure.target is None else f"{bound} {_shown(figure.target)}"
        verdict = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[figure.met]
        spread = f"{_shown(figure.low)} to {_shown(figure.high)}"
        table.add_row(figure.name, _shown(figure.reached), spread, figure.unit, target, verdict)
    return table


def _shown(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:,.4g}M"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
