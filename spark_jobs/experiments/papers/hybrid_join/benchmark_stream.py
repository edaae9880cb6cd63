"""000 Fig. 3, 8 and 9: the stream itself. How it uses R's pages, how long its tail is, and in what bursts it comes."""

from __future__ import annotations

from itertools import islice

import numpy as np

from spark_jobs.experiments.papers.claims import fact, line_moves
from spark_jobs.experiments.papers.figure import Axis, Curves, Figure, Origin, Panel, Point, Series
from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.papers.hybrid_join.hybrid_join_data import TUNED_RELATION, workload
from spark_jobs.workload.bursts import STEP_SECONDS, bursty_arrivals, steady_arrivals

_SEGMENTS = 800  # of 20 pages each: 16,000 pages
_DRAWN = 4_000_000
_SECONDS = 600
_MEAN_RATE = 1_000.0
_PRODUCTS = 100


def measure_page_use(setting: FigureSetting) -> list[Panel]:
    """Stream tuples that fall on each segment of 20 pages."""
    r = workload(setting, TUNED_RELATION)
    drawn = r.stream(seed=1)(_DRAWN)
    borders = np.linspace(0, r.key_count, _SEGMENTS + 1)
    counts, _ = np.histogram(drawn, borders)
    popularity = r.popularity()
    shares = np.diff([popularity.share_of_hottest(border) for border in borders])
    points = tuple(
        Point(20.0 * (number + 1), float(count) / _DRAWN, float(share))
        for number, (count, share) in enumerate(zip(counts, shares, strict=True))
    )
    x, y = Axis("location in R (pages from its start)", log=True), Axis("share of the stream", log=True)
    return [Panel(x, y, (Series("segment of 20 pages", points),))]


def measure_long_tail(setting: FigureSetting) -> list[Panel]:
    """Sales of the products, the most sold first, summed up."""
    r = workload(setting, TUNED_RELATION)
    counts = np.sort(np.bincount(r.stream(seed=1)(_DRAWN), minlength=r.key_count))[::-1]
    sold = np.cumsum(counts) / _DRAWN
    popularity = r.popularity()
    places = np.linspace(0.01, 1, _PRODUCTS)
    rows = (places * r.key_count).astype(np.int64) - 1
    points = tuple(
        Point(100 * float(place), 100 * float(sold[row]), 100 * popularity.share_of_hottest(float(row + 1)))
        for place, row in zip(places, rows, strict=True)
    )
    x, y = Axis("products, most sold first (%)"), Axis("sales (%)")
    return [Panel(x, y, (Series("sales", points),))]


def measure_bursts(setting: FigureSetting) -> list[Panel]:
    """Tuples in each second of a bursty stream, and of a steady one with the same mean."""
    steps = round(1 / STEP_SECONDS)
    lines = []
    for name, arrivals, origin in (
        ("bursty", bursty_arrivals(_MEAN_RATE, seed=1), Origin.PAPER),
        ("steady", steady_arrivals(_MEAN_RATE), Origin.REFERENCE),
    ):
        counts = np.array([count for _, count in islice(arrivals, _SECONDS * steps)]).reshape(-1, steps).sum(axis=1)
        lines.append(
            Series(name, tuple(Point(float(second), float(count)) for second, count in enumerate(counts)), origin)
        )
    return [Panel(Axis("time (s)"), Axis("stream tuples in a second"), tuple(lines))]


def _eighty_twenty(curves: Curves) -> tuple[str, bool]:
    share = curves["sales"].at(20).y
    return f"{share:.0f} % of sales from 20 % of products", share >= 75


def _varies(curves: Curves) -> tuple[str, bool]:
    """At every span from a second to a minute the counts vary far more than independent arrivals would."""
    counts = np.array([point.y for point in curves["bursty"].points])
    spans = (1, 10, 60)
    ratios = []
    for span in spans:
        sums = counts[: len(counts) // span * span].reshape(-1, span).sum(axis=1)
        ratios.append(float(sums.var() / sums.mean()))
    told = ", ".join(f"{ratio:,.0f} over {span} s" for ratio, span in zip(ratios, spans, strict=True))
    return f"variance / mean (1 if independent): {told}", min(ratios) > 10


PAGE_USE = Figure(
    "000-3",
    "How the stream uses R's pages: R sorted by popularity, 16,000 pages",
    (
        line_moves(
            "segment of 20 pages", rises=False, text="The rate of page use decreases towards the end of R (000 §3)"
        ),
    ),
    measure_page_use,
    minutes_at_paper_scale=0.1,
    memory_at_paper_scale=200_000_000,
    assumption="R has 2 million tuples: 125 a page.",
)
LONG_TAIL = Figure(
    "000-8",
    "The long tail: sales by product, Zipf exponent 1",
    (
        fact(
            "Only a limited number of products (20 %) is sold frequently; 80/20 rule (000 §5)",
            "80 %",
            _eighty_twenty,
            number=True,
        ),
    ),
    measure_long_tail,
    minutes_at_paper_scale=0.1,
    memory_at_paper_scale=200_000_000,
    assumption="2 million products. With Zipf exponent 1 the top fifth's share grows with their number: "
    "80 % would be that of 3,000 products.",
)
BURSTS = Figure(
    "000-9",
    "STREAMGENERATOR's bursts: stream tuples in each second",
    (fact("The flow varies with time and is bursty rather than regular (000 §5)", "bursty", _varies),),
    measure_bursts,
    minutes_at_paper_scale=0.1,
    memory_at_paper_scale=200_000_000,
)
