"""Which back stage settles a batch of stream tuples soonest, predicted from measured costs of reading R."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AccessCosts:
    """What reading R costs, measured on the relation and the machine at hand. All in seconds.

    Attributes:
        page_read_seconds: one page by its number, c_I/O(v_P) of 000 §4.4.
        lookup_seconds_per_key: one more key in a batched lookup.
        lookup_overhead_seconds: a batched lookup, whatever its number of keys.
    """

    page_read_seconds: float
    lookup_seconds_per_key: float
    lookup_overhead_seconds: float


@dataclass(frozen=True)
class Choice:
    """The algorithm chosen, and why.

    Attributes:
        algorithm: its name in the catalogue.
        predicted_seconds: for each algorithm considered, how long it would take.
        reason: one sentence for the log.
    """

    algorithm: str
    predicted_seconds: dict[str, float]
    reason: str


def choose_back_stage(distinct_keys: int, pages_touched: int, costs: AccessCosts) -> Choice:
    """Choose between reading each page that is waited for once, and looking each key up once.

    Both algorithms' own work is left out: it is small beside R's and about the same.

    Args:
        distinct_keys: different keys among the stream tuples of the batch.
        pages_touched: different pages of R that they fall on.
        costs: measured costs.

    Returns:
        The choice; hybrid_join when both take equally long, for it needs no index lookups.
    """
    predicted = {
        "hybrid_join": pages_touched * costs.page_read_seconds,
        "batched_index_nested_loop": (
            costs.lookup_overhead_seconds + distinct_keys * costs.lookup_seconds_per_key if distinct_keys else 0.0
        ),
    }
    algorithm, other = sorted(predicted, key=lambda name: predicted[name])
    described = {
        "hybrid_join": f"reading {pages_touched:,} pages",
        "batched_index_nested_loop": f"looking {distinct_keys:,} keys up",
    }
    reason = (
        f"{algorithm}, because {described[algorithm]} takes about {predicted[algorithm] * 1e3:,.1f} ms and "
        f"{described[other]} ({other}) about {predicted[other] * 1e3:,.1f} ms"
    )
    return Choice(algorithm, predicted, reason)
