"""What a stream can carry: told from how much of R it reads, and how much it may."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.definition import PipelineDefinition
from spark_jobs.ledger.period import LedgerPeriod


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
