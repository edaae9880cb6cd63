"""What `freshet calibrate` shows: the measured constants, as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spark_jobs.experiments.calibration.relation_costs import RelationCosts, predicted_rates

EXPONENTS = (0.0, 0.5, 1.0)
"""Skews for which rates are predicted: what a stream's is, only the stream can tell."""

_PROCESSOR_STEPS = {
    "probe": "a tuple of R probed among the waiting tuples (c_H)",
    "emit": "a joined tuple emitted (c_O; in MESHJOIN a part of c_E)",
    "evict": "a stream tuple taken out of queue and hash table (c_E)",
    "read": "a stream tuple taken from the stream buffer (c_S)",
    "append": "a stream tuple put into queue and hash table (c_A)",
    "per_access": "a step, whatever it settles",
}
_FRONT_STAGE_STEPS = {
    "front_probe": "a stream tuple probed",
    "upkeep_per_access": "a step of the back stage",
    "upkeep_per_miss": "a stream tuple that misses, counted and offered",
}


def to_json(measured: Sequence[RelationCosts]) -> str:
    """All constants, in seconds and bytes, and the predicted rates, as a JSON list of one object a relation."""
    objects = [
        {**asdict(costs), "predicted": {str(exponent): predicted_rates(costs, exponent) for exponent in EXPONENTS}}
        for costs in measured
    ]
    return json.dumps(objects, indent=2)


def render(measured: Sequence[RelationCosts]) -> RenderableType:
    """Tables for each relation: what reading R costs, what a join's and a front stage's work costs, what follows."""
    tables = (_heading, _reading_table, _processor_table, _front_stage_table, _prediction_table)
    return Group(*(make(costs) for costs in measured for make in tables))


def _heading(costs: RelationCosts) -> Text:
    what = f": {costs.row_count:,} tuples of {costs.tuple_bytes} bytes; {costs.disk}"
    return Text.assemble((costs.relation, "bold"), what)


def _reading_table(costs: RelationCosts) -> Table:
    reading = costs.reading.costs
    table = Table()
    table.add_column("reading R")
    table.add_column("measured", justify="right")
    table.add_row("seek", _duration(reading.seek_seconds))
    table.add_row("throughput", f"{reading.bytes_per_second / 1e6:,.0f} MB/s")
    for read in costs.reading.page_reads:
        table.add_row(f"page of {read.page_rows:,} tuples, {read.page_bytes:,} bytes", _duration(read.seconds))
    table.add_row("lookup of one key", _duration(reading.lookup_overhead_seconds))
    table.add_row("each further key in a batch", _duration(reading.lookup_seconds_per_key))
    return table


def _processor_table(costs: RelationCosts) -> Table:
    processor = costs.processor
    with_multimap = processor.multimap or processor
    table = Table()
    table.add_column("the join's own work, for each")
    table.add_column("HYBRIDJOIN", justify="right")
    table.add_column("MESHJOIN", justify="right")
    for step, described in _PROCESSOR_STEPS.items():
        table.add_row(described, *(_duration(getattr(work, step)) for work in (processor, with_multimap)))
    return table


def _front_stage_table(costs: RelationCosts) -> Table:
    table = Table()
    table.add_column("the front stage's work, for each")
    table.add_column("measured", justify="right")
    for step, described in _FRONT_STAGE_STEPS.items():
        table.add_row(described, _duration(getattr(costs.processor, step)))
    return table


def _prediction_table(costs: RelationCosts) -> Table:
    table = Table(caption="skew: exponent of Zipf's law", caption_justify="left")
    table.add_column(f"predicted with {costs.memory_bytes / 2**20:,.0f} MiB, tuples/s")
    for exponent in EXPONENTS:
        table.add_column(f"skew {exponent:g}", justify="right")
    rates = [predicted_rates(costs, exponent) for exponent in EXPONENTS]
    for algorithm in rates[0]:
        table.add_row(algorithm, *(f"{of_exponent[algorithm]:,.0f}" for of_exponent in rates))
    return table


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds * 1e9:,.3g} ns"
