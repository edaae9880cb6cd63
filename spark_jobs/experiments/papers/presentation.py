"""A reproduced figure to read: lines of text, a gallery in Markdown, a CSV file, a picture."""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from spark_jobs.experiments.papers.figure import Claim, Origin, Outcome, Panel, Reproduction, Series

CSV_COLUMNS = (
    "figure",
    "disk",
    "scale",
    "y_axis",
    "series",
    "origin",
    "x_axis",
    "x",
    "measured",
    "low",
    "high",
    "predicted",
    "note",
)

_DOTS_PER_INCH = 110
_PANEL_INCHES = (7.2, 4.4)
_CAPTION_LINE_INCHES = 0.15
_CAPTION_WIDTH = 118
_TITLE_WIDTH = 80
_MANY_POINTS = 40
_FEW_DECADES = 50

# Each algorithm keeps its colour in all figures; beside its twin with a front stage it is dashed.
_COLOURS = (
    ("longest wait", "#c77f0a"),
    ("HYBRIDJOIN", "#d1495b"),
    ("early release", "#2e8b57"),
    ("MESHJOIN", "#2b6cb0"),
    ("INLJ", "#7a5195"),
    ("SSIJ", "#111111"),
    ("partition wait", "#8c6d46"),
)
_OTHER_COLOURS = ("#444444", "#c77f0a", "#2b6cb0", "#d1495b", "#2e8b57", "#7a5195", "#8c6d46", "#e377c2")
_MARKERS = "osD^vP*X"


def lines_of(reproduction: Reproduction) -> Iterator[str]:
    """For each claim: published, predicted, measured, and whether that is as published."""
    for claim, outcome in reproduction.outcomes:
        yield f"{reproduction.figure.id}  {claim.text}: {numbers_of(claim, outcome)}; {verdict(claim, outcome)}"


def numbers_of(claim: Claim, outcome: Outcome) -> str:
    """What was published, if it was, predicted, if there is a model, and measured."""
    told = [] if claim.origin is Origin.OURS else [f"published {claim.published}"]
    if outcome.predicted:
        told.append(f"predicted {outcome.predicted}")
    return ", ".join([*told, f"measured {outcome.measured}"])


def verdict_in_short(claim: Claim, outcome: Outcome) -> str:
    """Whether a published number is reached, or the order at least; of a statement of ours, whether it holds."""
    if claim.origin is Origin.OURS:
        return "holds" if outcome.as_published else "does NOT hold"
    if not outcome.as_published:
        return "NOT as published"
    if outcome.reached is None:
        return "as published"
    return "reached" if outcome.reached else "order as published, number NOT reached"


def verdict(claim: Claim, outcome: Outcome) -> str:
    """The same, and why not: the cause with the test that shows it, or that it is not known."""
    told = verdict_in_short(claim, outcome)
    if claim.origin is Origin.OURS or (outcome.as_published and outcome.reached is not False):
        return told
    # A cause why a number is not reached does not explain that even the order is another.
    explained = outcome.as_published or claim.contradicted
    if claim.cause is None or not explained:
        return f"{told}; cause unknown"
    return f"{told}; {claim.cause.text}; shown by {claim.cause.test}"


def gallery(reproductions: Sequence[Reproduction]) -> str:
    """All figures with their claims, as Markdown that stands beside the pictures."""
    first = reproductions[0]
    parts = [
        f"# The figures, measured again\n\nDisk {first.disk}, scale {first.scale}. "
        "Made by `freshet bench papers`; the points are in the CSV files."
    ]
    parts += [
        f"## {figure.id}: {figure.title}\n\n![{figure.id}]({figure.id}.png)\n\n{_table(made)}"
        for made in reproductions
        for figure in (made.figure,)
    ]
    return "\n\n".join(parts) + "\n"


def _table(reproduction: Reproduction) -> str:
    rows = ["| claim | published | predicted | measured | outcome |", "|---|---|---|---|---|"]
    for claim, outcome in reproduction.outcomes:
        text = f"(ours) {claim.text}" if claim.origin is Origin.OURS else claim.text
        cells = (text, claim.published, outcome.predicted or "-", outcome.measured, verdict(claim, outcome))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def write_csv(reproduction: Reproduction, file: Path) -> None:
    """Write all points; `low` and `high` end the 95 % confidence interval, empty where there is one run only."""
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(CSV_COLUMNS)
        for panel in reproduction.panels:
            for series in panel.series:
                for point in series.points:
                    writer.writerow(
                        [
                            *(reproduction.figure.id, reproduction.disk, reproduction.scale, panel.y.label),
                            *(series.name, series.origin.value, panel.x.label),
                            *map(_number, (point.x, point.y, point.low, point.high, point.predicted)),
                            point.note,
                        ]
                    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def draw(reproduction: Reproduction, file: Path) -> None:
    """Write the picture as a PNG file."""
    caption = _caption(reproduction)
    columns = len(reproduction.panels)
    width = _PANEL_INCHES[0] * columns
    caption_inches = _CAPTION_LINE_INCHES * (caption.count("\n") + 2.5)
    height = _PANEL_INCHES[1] + caption_inches
    canvas = Canvas(figsize=(width, height), dpi=_DOTS_PER_INCH)
    FigureCanvasAgg(canvas)
    all_axes = canvas.subplots(1, columns, squeeze=False)[0]
    for axes, panel in zip(all_axes, reproduction.panels, strict=True):
        _draw_panel(axes, panel)
    title = f"{reproduction.figure.id}   {reproduction.figure.title}"
    canvas.suptitle(textwrap.fill(title, _TITLE_WIDTH * columns), fontsize=12)
    engine = ConstrainedLayoutEngine(rect=(0, caption_inches / height, 1, 1 - caption_inches / height))
    canvas.set_layout_engine(engine)
    canvas.text(0.02, 0.06 / height, caption, fontsize=8, va="bottom", in_layout=False)
    canvas.savefig(file)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    for number, series in enumerate(panel.series):
        has_cached_twin = f"C{series.name}" in {other.name for other in panel.series}
        marker = _MARKERS[number % len(_MARKERS)]
        _draw_line(axes, series, _colour(series, panel), marker, dashed=has_cached_twin)
    if panel.x.log:
        axes.set_xscale("log")
    if panel.y.log:
        axes.set_yscale("log")
    elif panel.y.from_zero:
        axes.set_ylim(bottom=0)
    for axis, scale in ((axes.xaxis, panel.x), (axes.yaxis, panel.y)):
        axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
        axis.set_minor_formatter(NullFormatter())
        low, high = axis.get_view_interval()
        if scale.log and high < _FEW_DECADES * low:
            # Powers of ten alone would be one number or two.
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.set_xlabel(panel.x.label)
    axes.set_ylabel(panel.y.label)
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    if any(point.predicted is not None for series in panel.series for point in series.points):
        axes.plot([], [], linestyle="none", marker="x", color="#555555", label="predicted")
    if len(panel.series) > 1 or panel.series[0].points[0].predicted is not None:
        axes.legend(fontsize=8, frameon=False)


def _draw_line(axes: Axes, series: Series, colour: str, marker: str, *, dashed: bool) -> None:
    xs, ys = [point.x for point in series.points], [point.y for point in series.points]
    style = {Origin.PAPER: "-", Origin.OURS: "-.", Origin.REFERENCE: ":"}[series.origin]
    if style == "-" and dashed:
        style = "--"
    marker = "" if len(xs) > _MANY_POINTS else marker
    axes.plot(xs, ys, linestyle=style, marker=marker, color=colour, label=series.name, linewidth=1.6, markersize=5)
    if all(point.low is not None and point.high is not None for point in series.points):
        below = [y - (point.low or 0.0) for y, point in zip(ys, series.points, strict=True)]
        above = [(point.high or 0.0) - y for y, point in zip(ys, series.points, strict=True)]
        axes.errorbar(xs, ys, yerr=[below, above], linestyle="none", ecolor=colour, capsize=3, linewidth=1)
    told = [(point.x, point.predicted) for point in series.points if point.predicted is not None]
    if told:
        many = len(told) > _MANY_POINTS
        axes.plot(
            *zip(*told, strict=True),
            linestyle=":" if many else "none",
            marker="" if many else "x",
            color="#555555",
            markersize=6,
            linewidth=1,
        )


def _plain(value: float) -> str:
    """Without an exponent, which few read at a glance."""
    return f"{value:,.10g}" if abs(value) >= 1e-4 else f"{value:.10f}".rstrip("0").rstrip(".")


def _colour(series: Series, panel: Panel) -> str:
    def family(name: str) -> str | None:
        return next((colour for word, colour in _COLOURS if word in name), None)

    own = family(series.name)
    twins = [other for other in panel.series if family(other.name) == own]
    if own is not None and len(twins) <= 2:
        return own
    # Where a family has more lines, those with a front stage share the colour of those without.
    names = list(dict.fromkeys(_without_front_stage(other.name) for other in panel.series))
    return _OTHER_COLOURS[names.index(_without_front_stage(series.name)) % len(_OTHER_COLOURS)]


def _without_front_stage(name: str) -> str:
    return name[1:] if name.startswith(("CMESH", "CHYBRID", "CINLJ")) else name


def _caption(reproduction: Reproduction) -> str:
    width = _CAPTION_WIDTH * len(reproduction.panels)
    sizes = "the paper's sizes" if reproduction.part == 1 else f"1/{1 / reproduction.part:g} of the paper's sizes"
    setting = f"Disk {reproduction.disk}, scale {reproduction.scale}: {sizes}."
    paragraphs = [f"{setting} {reproduction.figure.assumption}".strip()]
    for claim, outcome in reproduction.outcomes:
        verdict = verdict_in_short(claim, outcome)
        paragraphs.append(f"- {claim.text}: {numbers_of(claim, outcome)} ({verdict}).")
    lines = [line for paragraph in paragraphs for line in textwrap.wrap(paragraph, width, subsequent_indent="  ")]
    return "\n".join(lines).replace("$", r"\$")
