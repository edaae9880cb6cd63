"""What was measured on a bad day, first of all what the streams can carry, and whether the platform has stood it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from rich.table import Table

from spark_jobs.definition import PipelineDefinition
from spark_jobs.ledger.period import LedgerPeriod, OperationsSince


@dataclass(frozen=True)
class Capacity:
    """The rate at which the first lookup reaches its limit.

    Attributes:
        orders_per_second: that rate.
        relation: whose limit it is.
        demand: tuples of that relation a second which were wanted when it was measured.
        limit: tuples a second that may be read.
    """

    orders_per_second: float
    relation: str
    demand: float
    limit: float


def capacity(rate: float, spans: Iterable[tuple[PipelineDefinition, LedgerPeriod]]) -> Capacity | None:
    """Extrapolate from a calm time to the rate at which a read limit is reached: rate * limit / demand.

    A shed tuple would have cost one key. What arrives faster shares reads a little more, so that a stream carries
    rather more than this.

    Args:
        rate: orders a second in the calm time.
        spans: the pipelines, and what the ledger says of them for that time.

    Returns:
        None where nothing was read of any relation with a limit: there is no telling then.
    """
    found = []
    for definition, span in spans:
        for lookup, reads in zip(definition.lookups, span.reads, strict=False):
            demand = (reads.tuples_read + reads.shed) / span.seconds
            if lookup.read_limit is not None and demand > 0:
                reached = rate * lookup.read_limit / demand
                found.append(Capacity(reached, lookup.relation, demand, lookup.read_limit))
    return min(found, key=lambda each: each.orders_per_second, default=None)


@dataclass
class BadDayFigures:
    """Filled while the day goes on; None stands for what was not reached.

    Attributes:
        factor: the burst's rate as a multiple of the capacity.
        backlog_bound: how soon after the burst the backlog has to be gone.
        capacity: what the streams can carry.
        burst_rate: orders a second in the burst.
        burst: what the ledger says of the burst, by pipeline.
        targets: freshness target in seconds, by pipeline.
        backlog_gone: from the end of the burst until nothing waited to be loaded any more.
        change_reached: from the change of a dimension until all new facts had it.
        validated: pipelines whose facts were validated after the burst.
        operations: reprocessing and validations of the whole day.
    """

    factor: float
    backlog_bound: timedelta
    capacity: Capacity | None = None
    burst_rate: float | None = None
    burst: dict[str, LedgerPeriod] = field(default_factory=dict)
    targets: dict[str, float] = field(default_factory=dict)
    backlog_gone: timedelta | None = None
    change_reached: timedelta | None = None
    validated: set[str] = field(default_factory=set)
    operations: OperationsSince | None = None

    def problems(self) -> Iterator[str]:
        """Everything that was not as it should have been."""
        if not self.burst or self.operations is None:
            yield "the day was cut short"
            return
        if not any(span.shed for span in self.burst.values()):
            yield "nothing was shed in the burst: that was no overload"
        for pipeline, span in self.burst.items():
            target = self.targets[pipeline]
            if span.p99_seconds is None:
                yield f"{pipeline} loaded nothing in the burst"
            elif span.p99_seconds > target:
                late = f"{span.p99_seconds:.1f} s old in the burst (p99), the target is {target:g} s"
                yield f"facts of {pipeline} were {late}"
        if self.backlog_gone is None:
            left, bound = self.operations.backlog, self.backlog_bound.total_seconds()
            yield f"{left:,} tuples still wait to be loaded {bound:.0f} s after the burst"
        if self.change_reached is None:
            yield "the changed customers have not reached the facts"
        for failure in self.operations.failures:
            yield f"a validation failed: {failure}"
        for pipeline in sorted(self.targets.keys() - self.validated):
            yield f"no validation of {pipeline} has passed after the burst"

    def table(self) -> Table:
        """The figures for the terminal."""
        table = Table(title="The day in figures", box=None, padding=(0, 1), show_header=False, title_justify="left")
        for name, value in self._rows():
            table.add_row(name, value)
        return table

    def to_json(self) -> str:
        """The figures and the problems, for programs."""
        return json.dumps(asdict(self) | {"problems": list(self.problems())}, default=_plain, indent=2)

    def _rows(self) -> Iterator[tuple[str, str]]:
        if self.capacity is not None:
            limit = f"{self.capacity.relation} may be read at {self.capacity.limit:g} tuples/s"
            yield "capacity", f"{self.capacity.orders_per_second:,.0f} orders/s ({limit})"
        if self.burst_rate is not None:
            yield "burst", f"{self.burst_rate:,.0f} orders/s, {self.factor:g} times the capacity"
        for pipeline, span in self.burst.items():
            yield f"{pipeline} in the burst", f"arrived {span.arrived:,}, loaded {span.facts:,}, shed {span.shed:,}"
            freshness = f"p50 {_seconds(span.p50_seconds)}, p99 {_seconds(span.p99_seconds)}"
            yield "  freshness of what was loaded", f"{freshness}, target {_seconds(self.targets[pipeline])}"
        yield "backlog gone after the burst", _after(self.backlog_gone)
        yield "changed dimension in the facts", _after(self.change_reached)
        if self.operations is not None:
            yield (
                "reprocessing runs",
                f"{_counts(self.operations.reprocessing_runs)}; {self.operations.reprocessed:,} facts",
            )
            yield "validations", _counts(self.operations.validations)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f} s"


def _after(time: timedelta | None) -> str:
    return "not in time" if time is None else f"after {time.total_seconds():.1f} s"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def _plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else sorted(value)
