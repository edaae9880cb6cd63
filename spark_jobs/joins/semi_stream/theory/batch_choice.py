"""Which back stage settles a batch of stream tuples soonest: all of them are at hand, so what they need is counted."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class AccessCosts:
    """What reading R costs, measured on the relation and the machine at hand. All in seconds.

    Attributes:
        page_read_seconds: one page by its number, c_I/O(v_P) of 000 §4.4.
        lookup_seconds_per_key: one more key in a batched lookup.
        lookup_overhead_seconds: a lookup of one key.
        scan_seconds_per_page: one more page in a scan; None where that costs as much as any page.
    """

    page_read_seconds: float
    lookup_seconds_per_key: float
    lookup_overhead_seconds: float
    scan_seconds_per_page: float | None = None

    def limited(self, tuples_per_second: float, page_tuples: float) -> AccessCosts:
        """The costs under a limit of tuples of R read a second, where each key of a lookup counts as one.

        Args:
            tuples_per_second: the limit.
            page_tuples: tuples of a page.
        """
        a_tuple, a_page = 1 / tuples_per_second, page_tuples / tuples_per_second
        scanned = self.page_read_seconds if self.scan_seconds_per_page is None else self.scan_seconds_per_page
        return replace(
            self,
            page_read_seconds=max(self.page_read_seconds, a_page),
            lookup_seconds_per_key=max(self.lookup_seconds_per_key, a_tuple),
            lookup_overhead_seconds=max(self.lookup_overhead_seconds, a_tuple),
            scan_seconds_per_page=max(scanned, a_page),
        )


@dataclass(frozen=True)
class BatchChoice:
    """The algorithm chosen, and why.

    Attributes:
        algorithm: its name in the catalogue.
        predicted_seconds: for each algorithm considered, how long it would take.
        reason: one sentence for the log.
    """

    algorithm: str
    predicted_seconds: dict[str, float]
    reason: str


def choose_back_stage(
    distinct_keys: int,
    pages_touched: int,
    costs: AccessCosts,
    *,
    stream_tuples: int | None = None,
    page_count: int | None = None,
) -> BatchChoice:
    """Choose between reading each page that is waited for once, and the other ways to R.

    The algorithms' own work is left out: it is small beside R's and about the same. So is that R is scanned
    again where memory does not hold the whole batch.

    Args:
        distinct_keys: different keys among the stream tuples of the batch.
        pages_touched: different pages of R that they fall on.
        costs: measured costs.
        stream_tuples: tuples of the batch, each of which index_nested_loop looks up; None: it is not considered.
        page_count: pages of the range of R that mesh_join would scan; None: it is not considered.

    Returns:
        The choice; of those that take equally long the first of: hybrid_join, which needs no index lookups,
        batched_index_nested_loop, mesh_join, index_nested_loop.
    """
    further_keys = max(distinct_keys - 1, 0) * costs.lookup_seconds_per_key
    overhead = costs.lookup_overhead_seconds
    ways = [
        ("hybrid_join", f"reading {pages_touched:,} pages", pages_touched * costs.page_read_seconds),
        (
            "batched_index_nested_loop",
            f"looking {distinct_keys:,} keys up",
            overhead + further_keys if distinct_keys else 0.0,
        ),
    ]
    if page_count is not None:
        a_page = costs.page_read_seconds if costs.scan_seconds_per_page is None else costs.scan_seconds_per_page
        ways.append(("mesh_join", f"scanning {page_count:,} pages", page_count * a_page if distinct_keys else 0.0))
    if stream_tuples is not None:
        ways.append(("index_nested_loop", f"looking {stream_tuples:,} tuples up one by one", stream_tuples * overhead))
    best, *others = sorted(ways, key=lambda way: way[2])
    told = [f"{described} ({name}) about {seconds * 1e3:,.1f} ms" for name, described, seconds in others]
    reason = f"{best[0]}, because {best[1]} takes about {best[2] * 1e3:,.1f} ms, {_listed(told)}"
    return BatchChoice(best[0], {name: seconds for name, _, seconds in ways}, reason)


def _listed(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
